"""HTML pages read back as data, and the reports they are made from."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from html.parser import HTMLParser

import numpy as np
from traces import run, trace

from ddptrace import analyze
from ddptrace.outputs.html import render
from ddptrace.report import Report
from ddptrace.whatif.document import Best, Bounds, Costs, Line, Model, Prediction, WhatIf

HOSTILE = "</script><img src=http://x/ onerror=alert(1)>\"'&lt;<!-- ${1} `"


class Page(HTMLParser):
    """The elements of a page in order, the text of those with an id, all text, all figures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, str] = {}
        self.scripts: list[str] = []
        self.figures: list[str | None] = []
        self.all_text = ""
        self.selected: str | None = None
        self._id: str | None = None
        self._raw: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(f"{tag}#{found['id']}" if "id" in found else tag)
        self.attributes += attrs
        self._id = found.get("id")
        self._raw = tag if tag in ("script", "style") else None
        if tag == "script" and "id" not in found:
            self.scripts.append("")
        if tag == "data":
            self.figures.append(found["value"])
        if "selected" in found and self.selected is None:
            self.selected = found["value"]

    def handle_endtag(self, tag):
        self._id, self._raw = None, None

    def handle_data(self, data):
        if self._id is not None:
            self.texts[self._id] = self.texts.get(self._id, "") + data
        elif self._raw == "script":
            self.scripts[-1] += data
        if self._raw is None:
            self.all_text += data

    @property
    def about(self) -> dict:
        """What the page's script knows beside the report."""
        return json.loads(self.texts["ddptrace-page"])

    @property
    def charts(self) -> dict:
        """The charts of a page of a history."""
        return json.loads(self.texts["ddptrace-charts"])

    def unpacked(self, name: str) -> bytes:
        """Return the bytes of a packed block."""
        return zlib.decompress(base64.b64decode(self.texts[name]))

    @property
    def names(self) -> list[str]:
        """The names that rows of timelines refer to."""
        return json.loads(self.unpacked("names"))

    def timeline(self, key: str | None = None) -> Timeline:
        """Return a step's timeline: that shown first unless another is asked for."""
        return decoded(self.unpacked(self.about["first"] if key is None else key))


@dataclass(frozen=True)
class Timeline:
    """A timeline as its page unpacks it; `lanes` by (run and) rank and kind, rows in ns."""

    header: dict
    lanes: dict[tuple, list[tuple[int, ...]]]

    def of(self, kind: str, rank: int = 0, run: str = "") -> list[tuple[int, int]]:
        """Return the starts and ends of one lane."""
        return [row[:2] for row in self.lanes.get((run, rank, kind), [])]

    def total(self, kind: str, rank: int = 0) -> int:
        """Return the length of all rows of a lane."""
        return sum(end - start for start, end in self.of(kind, rank))

    def row(self, rank: int, run: str = "") -> dict:
        """Return what the header says of one rank."""
        return next(one for one in self.header["rows"] if (one["rank"], one["run"]) == (rank, run))


def decoded(data: bytes) -> Timeline:
    """Return a block as the page's script reads it: starts as differences, lengths, names."""
    length = int.from_bytes(data[:4], "little")
    header = json.loads(data[4 : 4 + length])
    numbers = np.frombuffer(data[4 + length :], "<i4").astype(np.int64)
    lanes, at = {}, 0
    for row in header["rows"]:
        for kind, (count, several) in row["lanes"].items():
            columns = [
                numbers[at + n * count : at + (n + 1) * count] for n in range(3 + 2 * several)
            ]
            at += count * len(columns)
            start = np.cumsum(columns[0])
            found = [start, start + columns[1], *columns[2:]]
            found[:2] = [one * header["tick_ns"] for one in found[:2]]
            lanes[row["run"], row["rank"], kind] = list(zip(*(c.tolist() for c in found)))  # noqa: B905
    assert at == numbers.size
    return Timeline(header, lanes)


def two_ranks() -> Report:
    """
    compute  ####....##..     ####....##..
    comm     ..####......     ...###......
    mem      ......#.....     ............
    """
    marks = [(0, 1200), (1200, 2400)]
    first = [("compute", 0, 400), ("comm", 200, 600), ("mem", 600, 700), ("compute", 800, 1000)]
    second = [("compute", 0, 400), ("comm", 300, 600), ("compute", 800, 1000)]
    later = [(kind, start + 1200, end + 1300) for kind, start, end in second]
    ranks = [
        trace(*rows, *later, marks=marks, rank=rank) for rank, rows in enumerate([first, second])
    ]
    return analyze(run(*ranks))


def one_rank(*rows, **facts) -> Report:
    return analyze(run(trace(*rows, **facts)))


def page(report: Report) -> Page:
    return Page(render(report))


def prediction() -> WhatIf:
    """State what three caps are predicted to do to a step of 124 ms with 25 MiB."""
    return WhatIf(
        model=Model(
            "all_reduce", 2, 20_000, 10_000, 30_000, 220.0, 200.0, 240.0,
            is_assumed=False, samples=24, sizes=3, smallest_bytes=1_000_000,
            largest_bytes=26_000_000, residual_ratio=0.02,
            lines=[Line(0, 20_000, 220.0)], comm_slowdown_ratio=1.0,
        ),
        measured_step_ns=124_000_000, anchor="unprofiled", recorded_step_ns=125_000_000,
        replayed_step_ns=125_000_000, recorded_buckets=24, recorded_cap_mb=25.0,
        resolution="parameters", packing="as DDP does", scenario=[],
        predictions=[
            Prediction(
                cap, 600 // cap, 120_000_000 + cap * 10_000, 119_000_000, 126_000_000,
                exposed_comm_ns=5, tail_ns=1,
            )
            for cap in (5, 25, 100)
        ],
        best=Best(5, 120_050_000, 3_950_000, 1_000_000, 5_000_000),
        bounds=Bounds(110_000_000, 115_000_000, 40_000_000),
        costs=Costs(3_950_000, 0, 0), trust="high", notes=["what <b> says"],
    )  # fmt: skip
