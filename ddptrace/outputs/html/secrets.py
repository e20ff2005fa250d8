"""The report without what may be a secret: a page is sent to others.

`ddptrace capture` leaves secrets out of its manifest; one written by hand may hold them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ddptrace.report import Report

HIDDEN = "***"
_WORDS = re.compile(
    r"(?<![a-z])(?:api[-_]?key|auth|authorization|bearer|cookie|credentials?|keys?|pass(?:wd|word|phrase)?"
    r"|pat|pwd|secrets?|tokens?)(?![a-z])",
    re.IGNORECASE,
)
_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_HEADER = re.compile(r"(?i)\b((?:proxy-)?authorization|cookie|x-[\w-]*(?:key|token)):.*")


def without_secrets(report: Report) -> Report:
    """Return the report with the values hidden whose names say that they are secret."""
    told = report.run.settings
    if told is None:
        return report
    kept = replace(told, command=of_command(told.command), options=_of_options(told.options))
    return replace(report, run=replace(report.run, settings=kept))


def of_command(command: Sequence[str]) -> list[str]:
    """Return a command without the values of options and variables that name a secret."""
    kept: list[str] = []
    follows = False
    for word in command:
        name, equals, _ = word.partition("=")
        is_secret = bool(equals or word.startswith("-")) and names_a_secret(name)
        if follows and not word.startswith("-"):
            kept.append(HIDDEN)
        elif is_secret and equals:
            kept.append(f"{name}={HIDDEN}")
        else:
            kept.append(_HEADER.sub(rf"\1: {HIDDEN}", _IN_ADDRESS.sub(HIDDEN, word)))
        follows = is_secret and not equals
    return kept


def names_a_secret(name: str) -> bool:
    """Tell whether a value of this name is likely to be secret."""
    return _WORDS.search(name.replace("_", "-")) is not None


def _of_options(options: dict[str, Any]) -> dict[str, Any]:
    return {name: _hidden(name, value) for name, value in options.items()}


def _hidden(name: str, value: Any) -> Any:  # noqa: ANN401  # whatever a manifest may hold
    if names_a_secret(name) and value not in (None, True, False):
        return HIDDEN
    if isinstance(value, dict):
        return {key: _hidden(key, one) for key, one in value.items()}
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return of_command(value)
    return _IN_ADDRESS.sub(HIDDEN, value) if isinstance(value, str) else value
