"""The straggler of a run in one line."""

from __future__ import annotations

from ddptrace.outputs.figures import ms
from ddptrace.report import Report

_CAUSES = {
    "compute": "its GPU computes longer",
    "input": "its host launches nothing at the start of the step",
    "host": "its GPU idles while its host is behind",
    None: "nothing recorded explains it",
}
_ON_THE_HOST = {
    "compute": "its host computes longer",
    "input": "its host computes nothing at the start of the step",
    "host": "its host is busy outside of its operators",
    None: "nothing recorded explains it",
}
_SHOWN_NS = 5_000
_PATTERNS = {
    "persistent": "",
    "single_step": " in a single step",
    "alternating": ", other ranks in other steps",
    "occasional": " in some steps",
    "one_step": "",
}


def straggler_lines(report: Report) -> list[str]:
    """Return who the others wait for, what it costs, why and how sure; nothing if nobody is."""
    late = report.stragglers
    if late is None:
        return []
    if late.unknown is not None:
        alone = len(report.run.ranks) < 2 or not report.collectives
        return [] if alone else [f"straggler: none can be named, since {late.unknown}"]
    if late.rank is None or late.pattern is None:
        return []
    # What is 0 in the usual step would read as if the steps concerned had lost nothing, either.
    costs = late.cost_ns is not None and late.cost_ns >= _SHOWN_NS
    cost = f", {ms(late.cost_ns)} ms of a step exposed" if costs else ""
    causes = _ON_THE_HOST if report.run.measured == "host" else _CAUSES
    return [
        f"straggler: the others wait for rank {late.rank}{_PATTERNS[late.pattern]}"
        f"{cost}; it arrives up to {ms(late.late_ns)} ms late at {late.led} of {late.collectives} "
        f"collectives: {causes[late.cause]} (confidence {late.confidence}: {late.reason})"
    ]
