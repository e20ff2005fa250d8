"""The few fields of a Chrome trace event that the reader uses, for msgspec to decode."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from ddptrace.sources.stamps import Stamp

Id: TypeAlias = int | float | str | None


class CallArgs(msgspec.Struct, gc=False):
    """What a call says beyond its times."""

    correlation: Id = None


class GpuArgs(CallArgs, gc=False):
    """What a GPU operation says beyond its times."""

    stream: Id = None
    device: Id = None
    graph_node: Id = msgspec.field(default=None, name="graph node id")
    collective: Id = msgspec.field(default=None, name="Collective name")


class Args(GpuArgs, gc=False):
    """What a collective says beyond its times; for every kernel this would take twice as long."""

    in_elements: Id = msgspec.field(default=None, name="In msg nelems")
    out_elements: Id = msgspec.field(default=None, name="Out msg nelems")
    dtype: Id = None
    group: Id = msgspec.field(default=None, name="Process Group Name")
    group_ranks: Id = msgspec.field(default=None, name="Process Group Ranks")
    group_size: Id = msgspec.field(default=None, name="Group size")
    sequence: Id = msgspec.field(default=None, name="Seq")
    source: Id = msgspec.field(default=None, name="Src Rank")
    destination: Id = msgspec.field(default=None, name="Dst Rank")


class Labels(msgspec.Struct, gc=False):
    """What a metadata event says."""

    name: Any = None
    labels: Any = None


# Those of operators, which hardly anything needs, are longer than all the rest: they stay text.
_NO_TEXT = msgspec.Raw(b"null")


class InputArgs(msgspec.Struct, gc=False):
    """What an operator says of its inputs: a shape and a type of each, if all is well."""

    shapes: Any = msgspec.field(default=None, name="Input Dims")
    types: Any = msgspec.field(default=None, name="Input type")


NO_ARGS = Args()


class Span(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """A complete event: something with a start and a length, in µs."""

    cat: str | None = None
    name: Id = None
    pid: Id = None
    tid: Id = None
    ts: Stamp = None
    dur: Stamp = None
    args: msgspec.Raw = _NO_TEXT


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
    args: msgspec.Raw = _NO_TEXT


class TextSpan(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """A complete event whose numbers stay text, for stamps with more digits than a float."""

    cat: str | None = None
    name: Id = None
    pid: Id = None
    tid: Id = None
    ts: msgspec.Raw = _NO_TEXT
    dur: msgspec.Raw = _NO_TEXT
    args: msgspec.Raw = _NO_TEXT


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

_INPUT_FIELDS = InputArgs.__struct_encode_fields__
_CALL_ARGS = msgspec.json.Decoder(list[CallArgs | None])
_INPUT_ARGS = msgspec.json.Decoder(list[InputArgs | None])
_NO_INPUT = InputArgs()
_GPU_ARGS = msgspec.json.Decoder(list[GpuArgs | None])
_COLLECTIVE_ARGS = msgspec.json.Decoder(list[Args])


def call_args(spans: Iterable[Any]) -> list[CallArgs]:
    """Return the arguments of calls, one each; msgspec.MsgspecError for odd ones."""
    return [args or NO_ARGS for args in _CALL_ARGS.decode(_joined(spans))]


def gpu_args(spans: Iterable[Any]) -> list[GpuArgs]:
    """Return the arguments of GPU operations, one each; msgspec.MsgspecError for odd ones."""
    return [args or NO_ARGS for args in _GPU_ARGS.decode(_joined(spans))]


def collective_args(spans: Iterable[Any]) -> list[Args]:
    """Return the arguments of collectives, which have some; msgspec.MsgspecError for odd ones."""
    return _COLLECTIVE_ARGS.decode(_joined(spans))


def input_args(spans: Sequence[Any]) -> list[InputArgs]:
    """Return what operators say of their inputs, one each; nothing where that is odd."""
    try:
        return [args or _NO_INPUT for args in _INPUT_ARGS.decode(_joined(spans))]
    except msgspec.MsgspecError:
        if len(spans) == 1:
            return [_NO_INPUT]
        return [args for span in spans for args in input_args([span])]


def _joined(spans: Iterable[Any]) -> bytes:
    return b"[%b]" % b",".join([span.args for span in spans])


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
