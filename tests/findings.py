"""Findings of stated runs: what a rule says, and the figures that it rests on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from traces import run

from ddptrace import analyze
from ddptrace.manifest import DdpModule, Manifest, RankFacts
from ddptrace.model import Group, Run

MIB = 1 << 20
SOLO = Group("0", (0,), 1)
STEP = 10_000
"""Steps here last so many µs, if nothing else is said: a finding is listed from 100 µs on."""


def reduce(start, end, launch=None, *, op="all_reduce", size=MIB, **told):
    """State a gradient all-reduce, or another collective, of a job of one rank."""
    told = {"op": op, "size": size, "group": SOLO} | told
    inside = told.pop("backward", True)
    return ("comm", start, end, start if launch is None else launch, inside, told)


def backward(start, end, launch=None):
    """State a kernel of backward."""
    return ("compute", start, end, start if launch is None else launch, True)


def shifted(rows, by):
    """Return rows that happen later."""
    return [
        (kind, start + by, end + by, None if launch is None else launch + by, *more)
        for kind, start, end, launch, *more in rows
    ]


def of_ddp(**module) -> Manifest:
    """State a manifest that tells one DDP module of rank 0."""
    return Manifest(ranks=(RankFacts(rank=0, ddp=(DdpModule(**module),)),))


def findings(code, *traces, manifest=None, of: Run | None = None):
    """Return what a run has of one code."""
    found = analyze(replace(of or run(*traces), manifest=manifest))
    return [one for one in found.diagnosis.findings if one.code == code]


def costs(code, *traces, **options):
    """Return the costs in ns of one code."""
    return [one.cost_ns for one in findings(code, *traces, **options)]


def figures(finding):
    """Return the evidence of a finding: value and limit by metric."""
    return {one.metric: (one.value, one.limit) for one in finding.evidence}


def on_streams(recording, *streams):
    """Return a recording whose operations, in their order, are on these streams."""
    return replace(recording, ops=replace(recording.ops, stream=np.array(streams, np.int64)))
