"""Tells what a file is that is no PyTorch trace, so that the message can say so."""

from __future__ import annotations

import json
import re
import shlex

from ddptrace.errors import ForeignFileError, OwnReportError, SavedReportError, TraceFileError
from ddptrace.sources.columns import Columns
from ddptrace.sources.sqlite_pages import MAGIC

MERGED_KEY = "ddptrace_merge"
"""The first key of a file that `ddptrace merge` wrote."""
_MERGED_START = f'{{"{MERGED_KEY}":'.encode()
_XLA_LABEL = re.compile(r"/device:\w+:\d+|/host:CPU")
_OTHER_PROFILERS = (
    (re.compile(r"jit\(|PjitFunction|hlo_module|jax", re.IGNORECASE), "a JAX profile"),
    (re.compile(r"\btf_|TensorFlow|TFRecord|^tf\.", re.IGNORECASE), "a TensorFlow profile"),
    (_XLA_LABEL, "a TensorFlow or JAX profile"),
)
_ARCHIVES = (b"PK\x03\x04", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"BZh", b"7z\xbc\xaf\x27\x1c")


def without_events(path: str, text: bytes, damage: str | None) -> TraceFileError:
    """Return the error for a file without an array of events."""
    if text.startswith(MAGIC):  # what is not compressed never comes here
        return ForeignFileError(
            path,
            "is an SQLite file that is compressed; unpack it first: gunzip -c "
            f"{shlex.quote(path)} > export.sqlite",
        )
    if text.startswith(_ARCHIVES):
        return ForeignFileError(path, "is a compressed archive and no trace; unpack it first")
    start = text.decode("utf-8", "replace").lstrip("\ufeff \t\r\n\0")
    if not start:
        what = f"the file is unreadable ({damage})" if damage else "the file is empty (0 bytes)"
        return TraceFileError(path, f"{what}; the rank wrote no trace: record it again")
    try:
        return _other_json(path, json.loads(start))
    except (ValueError, RecursionError) as error:
        if '"schemaVersion"' in start or '"deviceProperties"' in start:
            return TraceFileError(path, "is cut short inside its header, before the first event")
        kind = TraceFileError if damage else ForeignFileError
        return kind(path, f"is neither a trace nor JSON ({damage or _reason(error)})")


def is_merged(start: bytes) -> bool:
    """Tell from its first bytes whether a file is one that `ddptrace merge` wrote."""
    return start.startswith(_MERGED_START)


def merged(path: str) -> OwnReportError:
    """Return the error for a file that `ddptrace merge` wrote."""
    return OwnReportError(
        path, "is what `ddptrace merge` wrote for Perfetto; pass the traces it was made from"
    )


def _other_json(path: str, found: object) -> TraceFileError:
    keys = found.keys() if isinstance(found, dict) else set()
    if {"schema", "nodes"} <= keys:
        return ForeignFileError(
            path,
            "is a PyTorch execution trace (ExecutionTraceObserver): it has no GPU times. Pass the "
            "file that torch.profiler's export_chrome_trace wrote",
        )
    if {"schema", "steps", "summary", "diagnosis"} <= keys:
        return SavedReportError(path, "is a report of ddptrace; pass the traces it was made from")
    if {"schema", "a", "b", "parts", "changed"} <= keys:
        return OwnReportError(path, "is a comparison of ddptrace; pass the runs that it compares")
    return ForeignFileError(path, "is JSON without `traceEvents`, so it is no trace")


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}: {error.msg}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def kind_of_trace(columns: Columns) -> str | None:
    """Return whose Chrome trace this is, None when nothing says that it is another program's."""
    labels = [label for labels in columns.process_names.values() for label in labels]
    labels += [label for labels in columns.thread_names.values() for label in labels]
    words = labels + columns.dropped_names
    xla = any(_XLA_LABEL.search(label) for label in labels)
    for pattern, kind in _OTHER_PROFILERS:
        if xla and any(pattern.search(word) for word in words):
            return f"is {kind}, not one of PyTorch; ddptrace reads torch.profiler's traces"
    if columns.dropped_names:
        return "is a Chrome trace, but not one of PyTorch's profiler"
    return None
