"""What has to hold of every file in Chrome's trace event format, for Perfetto to show all of it."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Any]:
    """Return the document of a file, with exact times."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return json.loads(text, parse_float=Decimal)


def check(document: dict[str, Any]) -> None:
    """Check the rules: slices of a track nest, arrows end in slices, everything has a name."""
    events = document["traceEvents"]
    assert {event["ph"] for event in events} <= set("MXCstf")
    for event in events:
        assert isinstance(event["pid"], int)
        assert event["name"]
        if event["ph"] != "M":
            assert (event["ts"] * 1000) % 1 == 0
            assert event["ts"] >= 0
    _check_names(events)
    _check_slices(slices(events))
    _check_arrows(events)


def slices(events: list[dict[str, Any]]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Return the slices by track, in the order of the file."""
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return found


def _check_names(events: list[dict[str, Any]]) -> None:
    processes = [event["pid"] for event in events if event["name"] == "process_name"]
    threads = [(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"]
    assert len(processes) == len(set(processes))
    assert len(threads) == len(set(threads))
    assert len({tid for _, tid in threads}) == len(threads)
    assert {event["pid"] for event in events} == set(processes)
    assert set(slices(events)) <= set(threads)
    assert not {(pid, pid) for pid in processes} & set(threads)


def _check_slices(tracks: dict[tuple[int, int], list[dict[str, Any]]]) -> None:
    for track, mine in tracks.items():
        open_ends: list[Decimal] = []
        # The sort is stable, as that of the viewers is: of two at one time the first is outside.
        for event in sorted(mine, key=lambda event: event["ts"]):
            start, end = event["ts"], event["ts"] + event["dur"]
            assert event["dur"] >= 0
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], (track, event)
            open_ends.append(end)


def _check_arrows(events: list[dict[str, Any]]) -> None:
    chains = defaultdict(list)
    last: dict[tuple[int, int], dict[str, Any]] = {}
    for event in events:
        if event["ph"] == "X":
            last[event["pid"], event["tid"]] = event
        elif event["ph"] in "stf":
            around = last[event["pid"], event["tid"]]
            assert around["ts"] <= event["ts"] < around["ts"] + around["dur"]
            assert "op" in around["args"]
            assert event["bp"] == "e"
            chains[event["cat"], event["name"], event["id"]].append(event)
    for chain in chains.values():
        ordered = sorted(chain, key=lambda event: event["ts"])
        phases = "".join(event["ph"] for event in ordered)
        assert phases == "s" + "t" * (len(chain) - 2) + "f"
        assert len({event["pid"] for event in chain}) == len(chain)
