"""The findings of the page: meaning, evidence, advice, and their place in the timeline."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from ddptrace.diagnosis.explanations import EXPLANATIONS
from ddptrace.diagnosis.finding import KERNEL, Evidence, Finding
from ddptrace.metrics.collective_rows import Collective, CollectiveOnRank
from ddptrace.outputs.figures import UNKNOWN, ms, percent
from ddptrace.outputs.html.timelines import Step
from ddptrace.report import Report
from ddptrace.wording import of_ranks, one_line

_IDLE = {
    "input_stall": "idle_input",
    "sync_wait": "idle_sync",
    "launch_bound": "idle_launch",
}
_WHOLE_STEP = frozenset(
    {
        *("compute_bound", "compute_tail", "no_communication", "unknown"),
        *("recording_slowed_run", "cold_steps", "ddp_logger_disagrees", "unused_search"),
        *("fine_parameters", "uneven_backward", "grad_copies"),
    }
)
"""Findings that are in no one place: they lead to the step as a whole."""
_WHOLE_FROM = 100  # numbers of three digits need no more
_MOST_EVIDENCE = 40


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finding shows in the timeline: a step, a rank, and times on the report's clock.

    `lane` is the kind of time of which the longest piece is meant where no times are known.
    """

    step: str
    rank: int
    start_ns: int | None = None
    end_ns: int | None = None
    lane: str | None = None


def findings(report: Report, places: Sequence[Place | None]) -> Iterator[str]:
    """Yield the section of the findings, in their order; `places` are those in the timeline."""
    yield '<section><h2 id="findings">Findings</h2>'
    found = report.diagnosis.findings
    if not found:
        yield "<p>No finding: nothing costs 1 % of a step or more.</p>"
    for number, (one, place) in enumerate(zip(found, places, strict=True)):
        yield from _finding(report, one, number, place)
    yield "</section>"


def _finding(report: Report, one: Finding, number: int, place: Place | None) -> Iterator[str]:
    known = EXPLANATIONS.get(one.code)
    is_verdict = one.code == report.diagnosis.bottleneck
    mark = ' <span class="badge">verdict</span>' if is_verdict else ""
    yield f'<article class="finding"><h3>{escape(one.code.replace("_", " "))}{mark}</h3>'
    yield f"<p>{escape(_cost(one, report.diagnosis.step_ns))}</p>"
    if known is not None:
        yield f'<p class="quiet">{escape(known.meaning)}</p>'
    yield f"<p><strong>Try:</strong> {escape(one.advice)}</p>"
    if place is not None:
        yield (
            f'<p><button type="button" class="goto" data-place="{number}">'
            "Show it in the timeline</button></p>"
        )
    if one.evidence:
        rows = "".join(_evidence(each) for each in one.evidence[:_MOST_EVIDENCE])
        yield (
            '<details open><summary>Evidence</summary><div class="scroll" tabindex="0" '
            f'role="region" aria-label="Evidence of {escape(one.code)}"><table class="evidence">'
            '<thead><tr><th scope="col" class="word">figure</th><th scope="col">value</th>'
            f'<th scope="col">limit</th></tr></thead><tbody>{rows}</tbody></table></div></details>'
        )
    if known is not None:
        yield (
            "<details><summary>How it is computed, and when it misleads</summary>"
            f"<p>{escape(known.how)}</p><p>{escape(known.misleads)}</p>"
            f'<pre tabindex="0" aria-label="Picture">{escape(known.picture)}</pre></details>'
        )
    yield "</article>"


def _cost(one: Finding, step_ns: int | None) -> str:
    where = f" Ranks concerned: {of_ranks(one.ranks)}." if one.ranks else ""
    if one.cost_ns is None:
        return f"No cost is told.{where}"
    share = f" of {ms(step_ns)} ms ({percent(one.cost_ns / step_ns)})" if step_ns else ""
    return f"Costs {ms(one.cost_ns)} ms a step{share}.{where}"


def _evidence(one: Evidence) -> str:
    name = one.metric
    if name.startswith(KERNEL):
        name = f"kernel {name.removeprefix(KERNEL)}"
    return (
        f'<tr><th scope="row" class="word">{escape(one_line(name))}</th>'
        f"<td>{_figure(one.metric, one.value)}</td><td>{_figure(one.metric, one.limit)}</td></tr>"
    )


def _figure(metric: str, value: float | int | None) -> str:
    if value is None:
        return UNKNOWN
    return f'<data value="{value}">{escape(_shown(metric, value))}</data>'


def _shown(metric: str, value: float | int) -> str:
    base = metric.split(":")[0]
    if base.endswith("_ns"):
        return f"{value / 1e6:.3f} ms"
    if base.endswith("_bytes"):
        return f"{value / 1e6:.2f} MB"
    if base.endswith("_ratio"):
        return percent(value)
    if base.endswith("_gb_s"):
        return f"{value:.2f} GB/s"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < _WHOLE_FROM else f"{value:,.0f}"


# --- where a finding shows in the timeline ---


def places(report: Report, steps: Sequence[Step], first: str) -> list[Place | None]:
    """Return where each finding shows: in the step to show first, or one of the host's."""
    shown = next((step for step in steps if step.key == first), None)
    if shown is None:
        return [None] * len(report.diagnosis.findings)
    number = report.summary.median_step
    mine = [one for one in report.collectives if one.step == number]
    return [_place(report, one, shown, mine) for one in report.diagnosis.findings]


def _place(
    report: Report, one: Finding, step: Step, collectives: Sequence[Collective]
) -> Place | None:
    ranks = {cell.rank: cell for cell in step.cells if not cell.partial}
    if not ranks:
        return None
    mine = [rank for rank in one.ranks if rank in ranks] or list(ranks)
    if one.code in _IDLE:
        return Place(step.key, mine[0], lane=_IDLE[one.code])
    if one.code == "straggler":
        return _longest_wait(step, collectives, ranks) or Place(step.key, mine[0])
    if one.code == "bucket_schedule" and (tail := ranks[mine[0]].tail_ns) is not None:
        return Place(step.key, mine[0], *tail)
    if one.code in _WHOLE_STEP:
        cell = ranks[mine[0]]
        return Place(step.key, cell.rank, cell.start_ns, cell.end_ns)
    return _most_exposed(step, collectives, mine) or Place(step.key, mine[0])


def _longest_wait(
    step: Step, collectives: Sequence[Collective], ranks: Collection[int]
) -> Place | None:
    parts = _parts(collectives, ranks)
    if not parts:
        return None
    longest = max(
        parts, key=lambda each: (min(each.wait_ns or 0, each.exposed_ns), each.wait_ns or 0)
    )
    return _of(step, longest)


def _most_exposed(
    step: Step, collectives: Sequence[Collective], ranks: Collection[int]
) -> Place | None:
    parts = _parts(collectives, ranks)
    return _of(step, max(parts, key=lambda each: each.exposed_ns)) if parts else None


def _parts(collectives: Sequence[Collective], ranks: Collection[int]) -> list[CollectiveOnRank]:
    return [each for one in collectives for each in one.ranks if each.rank in ranks]


def _of(step: Step, part: CollectiveOnRank) -> Place:
    return Place(step.key, part.rank, part.start_ns, part.end_ns)
