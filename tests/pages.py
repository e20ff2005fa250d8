"""HTML pages read back as data, and the reports they are made from."""

from __future__ import annotations

import json
from html.parser import HTMLParser

from traces import run, trace

from ddptrace import analyze
from ddptrace.outputs.html import render
from ddptrace.report import Report

HOSTILE = "</script><img src=http://x/ onerror=alert(1)>\"'&lt;<!--"


class Page(HTMLParser):
    """The elements of a page in order, the text in those with an id, and its table's rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, str] = {}
        self.rows: list[list[str | None]] = []
        self.all_text = ""
        self.selected: str | None = None
        self._id: str | None = None
        self._raw = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(f"{tag}#{found['id']}" if "id" in found else tag)
        self.attributes += attrs
        self._id, self._raw = found.get("id"), tag in ("script", "style")
        if tag == "tr":
            self.rows.append([])
        elif tag == "data":
            self.rows[-1][-1] = found["value"]
        elif "selected" in found:
            self.selected = found["value"]
        elif tag in ("td", "th"):
            self.rows[-1].append(None)

    def handle_endtag(self, tag):
        self._id, self._raw = None, False

    def handle_data(self, data):
        if self._id is not None:
            self.texts[self._id] = self.texts.get(self._id, "") + data
        if not self._raw:
            self.all_text += data

    @property
    def charts(self) -> list[dict]:
        return json.loads(self.texts["ddptrace-charts"])


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


def page(report: Report, step: str = "median") -> Page:
    return Page(render(report, step=step))


def bars(chart: dict, rank: int | None = None) -> dict[str, list[tuple[int, int]]]:
    """Return the bars of a timeline by kind, [start, end) in ns."""
    found: dict[str, list[tuple[int, int]]] = {}
    for one in chart["data"]:
        of, kind = one["name"].split(": ")
        if rank is None or of == f"rank {rank}":
            found[kind] = [
                (round(start * 1e6), round(start * 1e6) + round(length * 1e6))
                for start, length in zip(one["base"], one["x"], strict=True)
            ]
    return found
