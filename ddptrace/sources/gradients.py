"""The sizes of gradients: what the operator that takes one in says of its input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.kernels import element_bytes
from ddptrace.model import NEVER_NS, Gradients
from ddptrace.sources.events import InputArgs, input_args

_MOST_ELEMENTS = 1 << 50  # beyond it a shape is damage


@dataclass(frozen=True, slots=True, eq=False)
class GradientSpans:
    """Gradients as the file tells them, one row each; times are those of the file."""

    start_ns: IntArray
    process: IntArray
    thread: IntArray
    size_bytes: IntArray
    element: NDArray[np.int32]
    elements: tuple[str, ...]

    def of(self, processes: list[int]) -> GradientSpans:
        """Return those of some processes."""
        rows = np.isin(self.process, processes)
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        kept = {name: one[rows] for name, one in columns.items() if name != "elements"}
        return GradientSpans(**kept, elements=self.elements)

    def at(self, shift_ns: int) -> Gradients | None:
        """Return them by time, moved; None when a size is unknown: then a sum would be wrong."""
        if not self.start_ns.size or (self.size_bytes < 0).any():
            return None
        order = np.argsort(self.start_ns, kind="stable")
        return Gradients(
            start_ns=self.start_ns[order] + shift_ns,
            thread=self.thread[order],
            size_bytes=self.size_bytes[order],
            element=self.element[order],
            elements=self.elements,
        )


class Sizes:
    """Collects gradients while a file is read."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._elements: dict[str, int] = {}

    def add(
        self, spans: Sequence[Any], start_ns: IntArray, process: IntArray, thread: IntArray
    ) -> None:
        """Add the gradients that operators take in; one of unknown size has -1."""
        told = [_size(each) for each in input_args(spans)]
        sizes = [size_bytes for size_bytes, _ in told]
        codes = [self._elements.setdefault(each, len(self._elements)) for _, each in told]
        where = (start_ns.tolist(), process.tolist(), thread.tolist())
        self._rows += [row for row in zip(*where, sizes, codes, strict=True) if row[0] != NEVER_NS]

    def table(self) -> GradientSpans | None:
        """Return all of them; None without any that tells its size."""
        if not any(row[3] >= 0 for row in self._rows):
            return None
        start_ns, process, thread, size_bytes, element = np.array(self._rows, np.int64).T
        return GradientSpans(
            start_ns, process, thread, size_bytes, element.astype(np.int32), tuple(self._elements)
        )


def _size(args: InputArgs) -> tuple[int, str]:
    """Return the size of an operator's first input in bytes, -1 for unknown, and its type."""
    shapes, types = args.shapes, args.types
    if not isinstance(shapes, list) or not isinstance(types, list) or not shapes or not types:
        return -1, ""
    if not isinstance(shapes[0], list):
        return -1, ""
    element, count = str(types[0]), shapes[0]
    each = element_bytes(element)
    if each is None or not all(type(size) is int and size >= 0 for size in count):
        return -1, element
    elements = math.prod(count)
    return (elements * each if elements < _MOST_ELEMENTS else -1), element
