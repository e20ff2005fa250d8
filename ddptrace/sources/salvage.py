"""Reads events one by one from text that is not clean JSON, and says what could not be read."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ddptrace.kernels import GPU_CATEGORIES, is_call_category
from ddptrace.sources.event_stream import EVENT_KEY

_SPACE = re.compile(r"[\s,]*")
_BORDER = re.compile(rf'\}}\s*,\s*(?=\{{\s*"{EVENT_KEY}")')
_ARRAY_END = re.compile(r"\}\s*,?\s*\](?=\s*(?:,|\}|$))")
_KEYS_OF_A_HEADER = frozenset({"traceEvents", "schemaVersion", "distributedInfo"})
_SECOND_HEADER = re.compile(rf'"(?:{"|".join(_KEYS_OF_A_HEADER)})"\s*:')
_ODD = re.compile("[\x00-\x1f\ufffd]")
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])|\\')
_BARE_NUMBER = re.compile(r":\s*-?(?:nan|inf|infinity)(?:\([^)]*\))?(?=\s*[,}\]])", re.IGNORECASE)
_NAME = re.compile(
    r'("name"\s*:\s*")(.*?)("\s*,\s*"(?:ph|cat|pid|tid|ts|dur|args)"\s*:)', re.DOTALL
)
_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:\s*')
_FIELD = re.compile(
    r'"(ph|cat|name|pid|tid|ts|dur|stream|device|correlation|Collective name|graph node id)"'
    r'\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?=\s*[,}\]]))'
)
_TOP_FIELDS = frozenset({"ph", "cat", "name", "pid", "tid", "ts", "dur"})
# Numbers stay text: a float would lose the digits that stamps.py needs.
_READER = json.JSONDecoder(
    strict=False,
    parse_float=str,
    parse_int=lambda digits: int(digits) if len(digits) < 20 else digits,
    parse_constant=lambda _: None,
)
_PLAIN_READER = json.JSONDecoder(strict=False)


class SharedFileError(ValueError):
    """The text holds the header of a second trace: several writers shared one file."""


@dataclass(slots=True)
class Salvage:
    """Events read one by one; `lost` has the text of each that could not be read.

    `trailer` is the text after the end of the array, None when the end was not reached; `cut_at`
    is the character at which the text stops inside an event.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    repaired: int = 0
    trailer: str | None = None
    cut_at: int | None = None


def salvage(text: str) -> Salvage:
    """Read the events of `text`, which starts at an event, up to the array's end or its own.

    Raises SharedFileError when a second trace's header turns up among the events.
    """
    found = Salvage()
    position = 0
    while position < len(text):
        position = _skip(text, position)
        if text.startswith("]", position):
            found.trailer = text[position + 1 :]
            break
        if position < len(text):
            position = _one_event(text, position, found)
    return found


def _skip(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _one_event(text: str, position: int, found: Salvage) -> int:
    """Add the event at `position` to `found`; return where the next one may start."""
    try:
        event, after = _READER.raw_decode(text, position)
    except (ValueError, RecursionError):
        return _broken_event(text, position, found)
    if isinstance(event, dict):
        if not _KEYS_OF_A_HEADER.isdisjoint(event):
            raise SharedFileError
        found.events.append(event)
        found.repaired += _ODD.search(str(event.get("name"))) is not None
    return after


def _broken_event(text: str, position: int, found: Salvage) -> int:
    end = _BORDER.search(text, position) or _ARRAY_END.search(text, position)
    piece = text[position : end.start() + 1] if end else text[position:]
    if _SECOND_HEADER.search(piece):
        raise SharedFileError
    if end is None:
        found.cut_at = position
        return len(text)
    event = repaired_event(piece)
    if event is None:
        found.lost.append(piece)
    else:
        found.events.append(event)
        found.repaired += 1
    return position + len(piece)


def repaired_event(piece: str) -> dict[str, Any] | None:
    """Return one event after mending what exporters are known to break; None if that is no help."""
    mended = _ESCAPE.sub(lambda found: found[0] if found[1] else r"\\", piece)
    mended = _BARE_NUMBER.sub(": null", mended)
    requoted = _NAME.sub(lambda found: found[1] + _quoted(found[2]) + found[3], mended, count=1)
    for candidate in (mended, requoted):
        try:
            event = _READER.decode(candidate.strip())
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            return event
    return _scraped(requoted)


def _scraped(piece: str) -> dict[str, Any] | None:
    """Return the fields that can be found in the text of an event whose arguments are broken.

    None unless they hold all that a figure needs of an event of its category.
    """
    fields: dict[str, Any] = {}
    try:
        for found in _FIELD.finditer(piece):
            fields.setdefault(found[1], _READER.decode(found[2]))
    except ValueError:
        return None
    category = str(fields.get("cat")).lower()
    joined = category in GPU_CATEGORIES or is_call_category(category)
    if not {"ph", "name", "ts", "dur", *(["correlation"] if joined else [])} <= fields.keys():
        return None
    event = {key: value for key, value in fields.items() if key in _TOP_FIELDS}
    return event | {"args": {key: fields[key] for key in fields.keys() - _TOP_FIELDS}}


def _quoted(name: str) -> str:
    return json.dumps(name.replace('\\"', '"').replace("\\\\", "\\"))[1:-1]


def document(text: str) -> dict[str, Any]:
    """Return the key-value pairs of a header or trailer, as many as can be read; never raises.

    A number that the text ends with is left out: it may have been longer.
    """
    pairs: dict[str, Any] = {}
    position = 0
    while key := _KEY.search(text, position):
        position = key.end()
        try:
            value, position = _PLAIN_READER.raw_decode(text, position)
        except (ValueError, RecursionError):
            continue
        if position < len(text) or not isinstance(value, (int, float)):
            pairs[key[1]] = value
    return pairs
