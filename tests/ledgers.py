"""Reports with stated ledgers, to be compared, and what was found."""

from __future__ import annotations

from dataclasses import replace

from pages import two_ranks

from ddptrace.diagnosis.finding import Diagnosis
from ddptrace.diagnosis.ledger import PARTS, Ledger
from ddptrace.metrics.summary import StepTimes, Summary

MS = 1_000_000


def ledger(rank=0, step=7, **parts) -> Ledger:
    """State a ledger in ms; what is not stated is 0."""
    every = {name: round(parts.get(name.removesuffix("_ns"), 0) * MS) for name in PARTS}
    return Ledger(rank=rank, step=step, step_ns=sum(every.values()), **every)


BASE = two_ranks()


def report(*ledgers, counted=9, run_facts=None, spread_ms=0.0):
    """State a report with these ledgers; its steps vary by `spread_ms` around the longest one."""
    diagnosis = Diagnosis(None, "", [], where="median step", ledger=list(ledgers))
    facts = replace(BASE.run, **(run_facts or {}))
    longest = max((each.step_ns for each in ledgers), default=10 * MS)
    spread = round(spread_ms * MS)
    times = StepTimes(longest, longest + spread, longest - spread, longest + spread)
    summary = Summary(times, 7, [], counted)
    return replace(BASE, run=facts, diagnosis=diagnosis, summary=summary)


def codes(found):
    return [one.code for one in found.cautions]


def changed(found):
    return {f"{one.topic}.{one.what}": (one.a, one.b) for one in found.changed}
