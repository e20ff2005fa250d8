"""Folders of runs, stated file by file."""

from __future__ import annotations

import hashlib
import json

import pytest
from traces import Kineto, plain

from ddptrace import DdptraceError, load_run

DAY_US = 86_400_000_000


def unnamed(pid=4100):
    """State a recording that does not tell its rank."""
    kineto = plain()
    del kineto.header["distributedInfo"]
    for event in kineto.events:
        event["pid"] = pid if event["pid"] else 0
    return kineto


def window(rank, step, at_us, **options):
    """State a recording of one step that starts at `at_us`: compute 200 µs, comm 100, 50 hidden."""
    pid = options.pop("pid", 700 + rank)
    kineto = Kineto(rank=rank, **options)
    kineto.pid = pid
    kineto.step(step, at_us, at_us + 1000)
    return kineto.gpu(at_us + 100, at_us + 300).comm(at_us + 250, at_us + 350)


def pair(folder):
    """Write a whole run of two ranks."""
    for rank in (0, 1):
        plain(rank).write(folder / f"rank{rank}.json")
    return folder


def manifest(folder, files, **facts):
    folder.mkdir(parents=True, exist_ok=True)
    ranks = [{"rank": rank, "files": [name]} for name, rank in files.items()]
    text = json.dumps({"ddptrace_manifest": 1, "ranks": ranks} | facts)
    (folder / "manifest.json").write_text(text)


def codes(run):
    return {warning.code for warning in run.all_warnings}


def ranks_of_files(run):
    return {trace.path.rpartition("/")[2]: trace.rank for trace in run.traces}


def refused(path, **options):
    """Return the one line with which a run is refused."""
    with pytest.raises(DdptraceError) as caught:
        load_run(path, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def state(folder):
    """Return what can be seen of a folder's files from outside."""
    return {
        path.name: (
            hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns,
            path.stat().st_mode,
        )
        for path in folder.iterdir()
    }  # fmt: skip
