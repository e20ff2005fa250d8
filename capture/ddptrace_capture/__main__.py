"""`python -m ddptrace_capture [options] -- command`: what `ddptrace capture` runs."""

from __future__ import annotations

import sys

from ddptrace_capture.errors import CaptureError, say


def main(words: list[str]) -> int:
    """Return the exit code of a capture, or of another command of this package."""
    try:
        if words[:1] == ["doctor"]:
            from ddptrace_capture import doctor

            return doctor.main(words[1:])
        if words[:1] == ["sweep"]:
            from ddptrace_capture import sweep

            return sweep.main(words[1:])
        from ddptrace_capture import launch
        from ddptrace_capture.options import parse

        return launch.capture(parse(words))
    except CaptureError as error:
        say(error)
        return 2
    except KeyboardInterrupt:  # while no job runs
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
