"""What a user of capture may meet; each is one line that says what to do."""

from __future__ import annotations

import sys


class CaptureError(Exception):
    """Something that the user can mend, in one line."""


class NsysError(CaptureError):
    """Nsight Systems is missing, or did not do what was asked of it."""


def say(message: object) -> None:
    """Write one line to standard error."""
    sys.stderr.write(f"ddptrace: {' '.join(str(message).split())}\n")
