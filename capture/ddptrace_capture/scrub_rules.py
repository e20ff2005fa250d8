"""What of an nsys SQLite file may be shared: rules by the kind of a column, not by the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

EVENTS = ("CUPTI_", "NVTX_")

_PRIVATE_SETTING = re.compile(
    r"command|argument|environment|user|host|display_?name|path|folder|dir(ectory)?$|file|install"
    r"|package|uuid|session_id|device_id|serial|url",
    re.IGNORECASE,
)
_OPEN_SETTING = re.compile(
    r"EXPORT_(PRODUCT|SCHEMA|PLATFORM|ARCH|TIME)\w*|(START|STOP)_TRIGGER|DEVICE_TYPE"
    r"|CAPTURE_EVENT_TYPE|[\w:]*(HOW_TO_ATTACH|MODE|SCOPE)|Cpu(Architecture|Description)"
    r"|(Hardware|Software)Platform|NvDriverVersion|CudaDriverVersion|OsDescription|KernelVersion"
    r"|Supported\w*ABIs"
)
_PLAIN = re.compile(r"|true|false|[-+.\d]+( sec)?", re.IGNORECASE)
_TELLS_RANK = re.compile(
    r"((LOCAL_|GROUP_|NODE_)?RANK|(LOCAL_)?WORLD_SIZE|SLURM_(PROCID|LOCALID|NODEID|NTASKS)"
    r"|OMPI_COMM_WORLD_(LOCAL_)?(RANK|SIZE)|PMI_(RANK|SIZE)|CUDA_VISIBLE_DEVICES)=\"?[\d,]*\"?"
)
_PRIVATE_COLUMN = re.compile(
    r"user|host|path|folder|directory|command|argument|environment|serial|guid|mac_?addr|url",
    re.IGNORECASE,
)
_STRING_COLUMN = re.compile(r"\w*([nN]ame|[tT]ext|[cC]ontent)(Id)?|symbol|module")
_FOLDERS = re.compile(rb"(?<![\w.])/(?:[^\s/:;,'\"]+/)+")
_SECRET = re.compile(r"key|token|secret|pass|credential|auth|cookie|private", re.IGNORECASE)
_VARIABLE = re.compile(r'([A-Za-z_]\w*)="?(.*?)"?', re.DOTALL)
_BETWEEN = re.compile(r"[\0\n;]")
_SHORTEST_SECRET = 8


class Column(NamedTuple):
    """A column of a table; `comment` is what nsys wrote beside it in the schema."""

    table: str
    name: str
    kind: str
    comment: str

    def __str__(self) -> str:
        return f'"{self.table}"."{self.name}"'


def may_stay(name: str, value: str) -> bool:
    """Tell whether a setting may stay: a number or a switch, a version, or a rank's variable.

    All that is not known to be harmless goes, since newer versions of nsys store more.
    """
    if "ENVIRONMENT_VARIABLE" in name:
        return _TELLS_RANK.fullmatch(value) is not None
    if value and _PRIVATE_SETTING.search(name):
        return False
    return bool(_PLAIN.fullmatch(value) or _OPEN_SETTING.fullmatch(name))


def settings_tables(columns: Iterable[Column]) -> list[str]:
    """Return the tables of names and values, such as TARGET_INFO_SYSTEM_ENV."""
    texts = [(column.table, column.name) for column in columns if column.kind == "TEXT"]
    return [table for table, name in texts if name == "value" and (table, "name") in texts]


def refers_to_string(column: Column) -> bool:
    """Tell whether a column holds ids of StringIds: nsys notes it, else by the column's name."""
    # Whoever has written the file again may call it INT or BIGINT, or not say a type at all.
    is_integer = "INT" in column.kind or not column.kind
    if not is_integer or column.table == "StringIds":
        return False
    if "REFERENCES" in column.comment:
        return "StringIds" in column.comment
    return _STRING_COLUMN.fullmatch(column.name) is not None


def may_hold_folders(column: Column) -> bool:
    """Tell whether a column is a text in which nsys may tell of the machine, not of an event."""
    is_event = column.table.startswith((*EVENTS, "ENUM_", "StringIds", "sqlite_"))
    return column.kind == "TEXT" and not is_event


def is_private(column: Column) -> bool:
    """Tell whether nothing of a column's text may stay."""
    return _PRIVATE_COLUMN.search(column.name) is not None


def without_folders(text: bytes) -> bytes:
    """Return a text with the last part alone of each path."""
    return _FOLDERS.sub("…/".encode(), text)


def secrets(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables in texts of an environment whose names tell of a secret; values too."""
    for part in (part for text in texts if "=" in text for part in _BETWEEN.split(text)):
        found = _VARIABLE.fullmatch(part)
        if found and _SECRET.search(found[1]) and len(found[2]) >= _SHORTEST_SECRET:
            yield found[1], found[2]
