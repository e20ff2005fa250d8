"""A check as annotations of GitHub Actions: commands in the log that its pages show."""

from __future__ import annotations

from collections.abc import Iterator

from ddptrace.check.judge import OnInconclusive
from ddptrace.check.result import CheckResult
from ddptrace.outputs.check_lines import Grade, grade, values
from ddptrace.wording import counted, one_line

_LEVELS: dict[Grade, str] = {"failed": "error", "unknown": "error", "doubtful": "warning"}
_MOST = 9  # GitHub shows ten of a kind for each step


def render(result: CheckResult, on_inconclusive: OnInconclusive) -> str:
    """Return a line for each limit that did not pass, or one notice when all of them did."""
    return "".join(f"{line}\n" for line in _lines(result, on_inconclusive))


def _lines(result: CheckResult, on_inconclusive: OnInconclusive) -> Iterator[str]:
    levels: dict[str, list[tuple[str, str]]] = {"error": [], "warning": []}
    for one in result.limits:
        level = _LEVELS.get(grade(one, on_inconclusive))
        if level is not None:
            reason = "" if one.current_ns is None else f"\n{one.reason}"
            levels[level].append((f"{one.outcome}: {one.place}", f"{values(one)}{reason}"))
    if not any(levels.values()):
        yield _command("notice", "passed", result.headline)
    for level, found in levels.items():
        for title, message in found[:_MOST]:
            yield _command(level, title.replace("_", " "), message)
        if found[_MOST:]:
            yield _command(
                level, "more", f"{counted(len(found) - _MOST, 'more limit')}: see the log"
            )


def _command(level: str, title: str, message: str) -> str:
    """Return a command, with what would end its parts escaped as actions/toolkit does."""
    words = one_line(f"ddptrace check: {title}")
    return f"::{level} title={_property(words)}::{_data(_printable(message))}"


def _printable(message: str) -> str:
    return "\n".join(one_line(line) for line in message.split("\n"))


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
