"""The verdict's confidence, the other findings and the ledger, in lines."""

from __future__ import annotations

from ddptrace.diagnosis.finding import KERNEL, Finding
from ddptrace.diagnosis.headline import of_cost
from ddptrace.diagnosis.ledger import PARTS, Ledger
from ddptrace.outputs.figures import ms
from ddptrace.report import Report

_MOST_RANKS = 8
_SHOWN_NS = 5_000  # what rounds to 0.00 ms is left out


def confidence_line(report: Report) -> str | None:
    """Return how sure the verdict is; None where the headline says so, and where nothing does."""
    found = report.diagnosis
    if found.confidence in (None, "low"):
        return None
    return f"confidence {found.confidence}: {found.reason}"


def finding_lines(report: Report) -> list[str]:
    """Return a line for each finding but the verdict, which the headline tells; its kernels."""
    found = report.diagnosis
    verdict = [one for one in found.findings if one.code == found.bottleneck]
    others = [one for one in found.findings if one.code != found.bottleneck]
    what = "operators" if report.run.measured == "host" else "kernels"
    kernels = [line for one in verdict if (line := _kernels(one, what)) is not None]
    return [*kernels, *(f"finding: {_said(one, report)}" for one in others)]


def _kernels(one: Finding, what: str) -> str | None:
    """Return the largest kernels that a finding has as evidence, or what else computed."""
    found = [
        f"{each.metric.removeprefix(KERNEL)} {ms(int(each.value))}"
        for each in one.evidence
        if each.metric.startswith(KERNEL) and each.value
    ]
    return f"largest {what}, ms: {'; '.join(found)}" if found else None


def _said(one: Finding, report: Report) -> str:
    step_ns = report.diagnosis.step_ns
    return f"{of_cost(one, step_ns)}: {one.advice}"


def ledger_lines(report: Report) -> list[str]:
    """Return what the median step of each rank is made of; the parts of a line add up."""
    rows = report.diagnosis.ledger
    lines = [_line(one) for one in rows[:_MOST_RANKS]]
    more = len(rows) - len(lines)
    return lines + ([f"ledger: {more} more ranks are in the JSON"] if more > 0 else [])


def _line(one: Ledger) -> str:
    parts = {name.removesuffix("_ns"): getattr(one, name) for name in PARTS}
    words = [f"{name} {ms(ns)}" for name, ns in parts.items() if ns >= _SHOWN_NS]
    step = "" if one.step is None else f" of step {one.step}"
    return f"ledger{step}, rank {one.rank}: {' + '.join(words)} = {ms(one.step_ns)} ms"
