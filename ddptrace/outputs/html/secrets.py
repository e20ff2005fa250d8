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
    r"(?<![a-z])(?:(?:access|api|auth|private|secret|session)-?(?:key|token)|auth|authorization"
    r"|bearer|cookie|credentials?|keys?|pass(?:wd|word|phrase)?|pat|pwd|secrets?|sig|signature"
    r"|tokens?)(?![a-z])|^x-(?:amz|goog)-",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_HEADER = re.compile(r"(?i)\b((?:proxy-)?authorization|cookie|x-[\w-]{0,99}(?:key|token)):.*")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"']+")
# Names and starts of tokens have a largest length: texts of any length are searched in one pass.
_QUOTED = r"\"[^\"]*\"|'[^']*'"
_ASSIGNED = re.compile(
    rf"(?<![\w.-])([\w.-]{{1,99}})=(?:{_QUOTED}|[^\s&;\"']+?(?=[?#][\w.-]+=|[\s&;\"']|$))"
)
"""Parameters of an address, and variables within a line of a shell."""
_GIVEN = re.compile(rf"(?<!\S)(--?[A-Za-z][\w-]*)\s+(?!-)(?:{_QUOTED}|\S+)")
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"hf_(?=[a-z]{0,99}[A-Z0-9])[A-Za-z0-9]{8,}|hf_[a-z]{14,}|gh[pousr]_[A-Za-z0-9]{8,}"
    r"|github_pat_\w{8,}|glpat-[\w-]{8,}|xox[a-z]-[\w-]{8,}|nvapi-[\w-]{8,}"
    r"|sk-(?=[a-z-]{0,99}[A-Z0-9])[\w-]{8,}|A(?:KI|SI)A[A-Z0-9]{12,}|eyJ[\w-]{5,999}\.[\w.-]+)"
)
"""What tokens of well-known services look like, whatever stands before them."""
_NUMBER = re.compile(r"[\d.,:]+")


def without_secrets(report: Report) -> Report:
    """Return the report with the values hidden whose names or shapes say that they are secret."""
    told = report.run.settings
    if told is None:
        return report
    kept = replace(told, command=of_command(told.command), options=_of_options(told.options))
    return replace(report, run=replace(report.run, settings=kept))


def of_command(command: Sequence[str]) -> list[str]:
    """Return a command without the values of options and variables that name a secret."""
    kept: list[str] = []
    before: str | None = None
    for word in command:
        name, equals, _ = word.partition("=")
        if before is not None and not word.startswith("-") and _takes_a_secret(before, word):
            kept.append(HIDDEN)
        elif equals and "://" not in name and not _has_space(name) and names_a_secret(name):
            kept.append(f"{name}={HIDDEN}")
        else:
            kept.append(_of_text(word))
        before = None if equals else word
    return kept


def names_a_secret(name: str) -> bool:
    """Tell whether a value of this name is likely to be secret."""
    return _WORDS.search(_CAMEL.sub("-", name).replace("_", "-")) is not None


def _takes_a_secret(before: str, value: str) -> bool:
    """Tell whether a word of a command is secret for what stands before it.

    `-p` may be a password as well as a port: only a number is no password for sure.
    """
    if before == "-p":
        return _NUMBER.fullmatch(value) is None
    if before == "-u":
        return ":" in value
    if before.lower() in ("bearer", "basic"):
        return True
    is_header = _HEADER.fullmatch(before) is not None and before.endswith(":")
    if is_header:
        return value.lower() not in ("bearer", "basic")
    return before.startswith("-") and not _has_space(before) and names_a_secret(before)


def _has_space(text: str) -> bool:
    return any(letter.isspace() for letter in text)


def _of_text(text: str) -> str:
    """Return a text without what may be a secret in it: an address, a header, a shell's line."""
    text = _HEADER.sub(rf"\1: {HIDDEN}", _IN_ADDRESS.sub(HIDDEN, text))
    text = _BEARER.sub(rf"\1 {HIDDEN}", text)
    for named in (_ASSIGNED, _GIVEN):
        text = named.sub(_hidden_where_named, text)
    return _SHAPES.sub(HIDDEN, text)


def _hidden_where_named(found: re.Match[str]) -> str:
    name, whole = found[1], found[0]
    if not names_a_secret(name):
        return whole
    return f"{whole[: len(name)]}{'=' if whole[len(name)] == '=' else ' '}{HIDDEN}"


def _of_options(options: dict[str, Any]) -> dict[str, Any]:
    return {name: _hidden(name, value) for name, value in options.items()}


def _hidden(name: str, value: Any) -> Any:  # noqa: ANN401  # whatever a manifest may hold
    if names_a_secret(name) and value not in (None, True, False):
        return HIDDEN
    if isinstance(value, dict):
        return {key: _hidden(key, one) for key, one in value.items()}
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return of_command(value)
    if isinstance(value, list):
        return [_hidden(name, one) for one in value]
    return _of_text(value) if isinstance(value, str) else value
