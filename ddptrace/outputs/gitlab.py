"""A check as GitLab's Code Quality report: an issue for each limit that did not pass."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from ddptrace.check.judge import OnInconclusive
from ddptrace.check.result import CheckResult, LimitResult
from ddptrace.outputs.check_lines import Grade, grade, name, values
from ddptrace.wording import one_line

_SEVERITIES: dict[Grade, str] = {"failed": "major", "unknown": "minor", "doubtful": "info"}


def render(result: CheckResult, on_inconclusive: OnInconclusive) -> str:
    """Return a check as JSON for `artifacts:reports:codequality`; [] when every limit passed.

    An issue keeps its fingerprint while its limit stays the same, so that GitLab tells new ones
    from those that the target branch has. It points at the run: a slow step has no line of code.
    """
    path = _path(result.current.names)
    issues = [
        _issue(one, _SEVERITIES[found], path)
        for one in result.limits
        if (found := grade(one, on_inconclusive)) != "passed"
    ]
    return msgspec.json.format(msgspec.json.encode(issues), indent=2).decode() + "\n"


def _issue(one: LimitResult, severity: str, path: str) -> dict[str, Any]:
    check = f"ddptrace/{one.metric}"
    key = "\0".join([check, name(one), one.outcome])
    reason = "" if one.current_ns is None else f"; {one.reason}"
    return {
        "description": one_line(f"{values(one)}{reason}"),
        "check_name": check,
        "fingerprint": hashlib.sha256(key.encode()).hexdigest(),
        "severity": severity,
        "location": {"path": path, "lines": {"begin": 1}},
    }


def _path(names: list[str]) -> str:
    """Return where a run is, as seen from the repository: relative, with slashes, without ./."""
    named = Path(names[0]) if names and names[0] else Path("run")
    if named.is_absolute():
        here = Path.cwd()
        named = named.relative_to(here) if named.is_relative_to(here) else Path(named.name or "run")
    return one_line(named.as_posix())
