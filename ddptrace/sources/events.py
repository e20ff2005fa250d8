"""The few fields of a Chrome trace event that the reader uses, for msgspec to decode."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from ddptrace.sources.stamps import Stamp

Id: TypeAlias = int | float | str | None


NOTHING = msgspec.Raw(b"null")


class Args(msgspec.Struct, gc=False):
    """What a call or a GPU operation says beyond its times; of an operator's inputs, as JSON."""

    correlation: Id = None
    stream: Id = None
    device: Id = None
    graph_node: Id = msgspec.field(default=None, name="graph node id")
    collective: Id = msgspec.field(default=None, name="Collective name")
    in_elements: Id = msgspec.field(default=None, name="In msg nelems")
    out_elements: Id = msgspec.field(default=None, name="Out msg nelems")
    dtype: Id = None
    group: Id = msgspec.field(default=None, name="Process Group Name")
    group_ranks: Id = msgspec.field(default=None, name="Process Group Ranks")
    group_size: Id = msgspec.field(default=None, name="Group size")
    sequence: Id = msgspec.field(default=None, name="Seq")
    source: Id = msgspec.field(default=None, name="Src Rank")
    destination: Id = msgspec.field(default=None, name="Dst Rank")
    # Nearly every operator has these, and only a few are asked: the others are never parsed.
    input_shapes: msgspec.Raw = msgspec.field(default=NOTHING, name="Input Dims")
    input_types: msgspec.Raw = msgspec.field(default=NOTHING, name="Input type")


class Labels(msgspec.Struct, gc=False):
    """What a metadata event says."""

    name: Any = None
    labels: Any = None


NO_ARGS = Args()


class Span(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """A complete event: something with a start and a length, in µs."""

    cat: str | None = None
    name: Id = None
    pid: Id = None
    tid: Id = None
    ts: Stamp = None
    dur: Stamp = None
    args: Args | None = None


# A word of a Literal is not made anew for each event: a known category costs half as much.
_KNOWN = Literal[
    "cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy",
    "gpu_memset", "gpu_user_annotation", "python_function", "cuda_sync", "overhead", "Trace",
    "ac2g", "fwdbwd",
]  # fmt: skip


class KnownSpan(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """A complete event of the usual categories."""

    cat: _KNOWN | None = None
    name: Id = None
    pid: Id = None
    tid: Id = None
    ts: Stamp = None
    dur: Stamp = None
    args: Args | None = None


class TextSpan(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """A complete event whose numbers stay text, for stamps with more digits than a float."""

    cat: str | None = None
    name: Id = None
    pid: Id = None
    tid: Id = None
    ts: msgspec.Raw = msgspec.Raw(b"null")
    dur: msgspec.Raw = msgspec.Raw(b"null")
    args: Args | None = None


class Metadata(msgspec.Struct, gc=False, tag_field="ph", tag="M"):
    """A name given to a process or a thread."""

    name: Id = None
    pid: Id = None
    tid: Id = None
    args: Labels | None = None


def _union(span: type[msgspec.Struct]) -> Any:  # noqa: ANN401  # a typing.Union made at run time
    # Flows, instants and counters are decoded too, into nothing: a tag that is not listed would
    # make the whole block fail.
    union: Any = span | Metadata
    for phase in set(string.ascii_letters) - {"X", "M"}:
        union |= msgspec.defstruct(f"Other_{phase}", [], gc=False, tag_field="ph", tag=phase)
    return list[union]


Event: TypeAlias = Span | KnownSpan | TextSpan | Metadata | Any

KNOWN_DECODER: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(_union(KnownSpan))
NUMBER_DECODER: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(_union(Span))
TEXT_DECODER: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(_union(TextSpan))

_INPUT_FIELDS = ("Input Dims", "Input type")
_ARGS_FIELDS = Args.__struct_encode_fields__ + Labels.__struct_encode_fields__


def encode(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Return events read one by one as JSON that the decoders take, with only the fields used."""
    return msgspec.json.encode([_narrow(document) for document in documents])


def _narrow(document: Mapping[str, Any]) -> dict[str, Any]:
    event: dict[str, Any] = {key: _scalar(document.get(key)) for key in Span.__struct_fields__[:-1]}
    event["cat"] = event["cat"] if isinstance(event["cat"], str) else None
    phase = document.get("ph")
    event["ph"] = phase if phase in ("X", "M") else "i"
    args = document.get("args")
    if isinstance(args, dict):
        event["args"] = {key: _scalar(args.get(key)) for key in _ARGS_FIELDS}
        event["args"] |= {key: _nested(args.get(key)) for key in _INPUT_FIELDS}
    return event


def _nested(value: object) -> list[object] | None:
    """Return a list of scalars, or of lists of them; None for anything else."""
    if not isinstance(value, list):
        return None
    return [list(map(_scalar, each)) if isinstance(each, list) else _scalar(each) for each in value]


def _scalar(value: object) -> int | str | None:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if value.bit_length() < 64 else None


def texts(raws: Iterable[msgspec.Raw]) -> list[str | None]:
    """Return numbers kept as JSON text as plain text, None for null."""
    found = (bytes(raw).decode("ascii", "replace").strip('"') for raw in raws)
    return [None if text == "null" else text for text in found]
