"""The top of the page: the verdict, what it costs, how sure it is, what to try, the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from ddptrace.compare.parts import WORDS
from ddptrace.diagnosis.explanations import EXPLANATIONS
from ddptrace.diagnosis.finding import Finding
from ddptrace.diagnosis.ledger import PARTS, Ledger
from ddptrace.metrics.recording import PartTime
from ddptrace.outputs.figures import ms, percent
from ddptrace.outputs.html.chosen import has_payer, paying
from ddptrace.outputs.recording import why_missing
from ddptrace.report import Report
from ddptrace.wording import capital, counted, of_ranks, ranges

_SHOWN_NS = 5_000
"""What rounds to 0.00 ms is left out of the words; the bar has it."""
_MOST_WARNINGS = 100
_ROLES = {"figures": "while figures were recorded", "full": "while causes were recorded"}
_NO_CAUSE = frozenset({"compute_bound", "no_communication"})
"""Verdicts on steps that were weighed whole and in which nothing is lost."""
_UNPRICED = {
    "unknown": ("not known", "without a cause there is nothing that could be priced"),
    "compute_tail": (
        "cannot be priced",
        "what a shorter end of backward would save was not measured",
    ),
}


def top(report: Report) -> Iterator[str]:
    """Yield what a reader who stops here needs: the answer, its arithmetic, its weak points."""
    found = report.diagnosis
    yield '<section class="answer" aria-label="Verdict">'
    yield f'<p class="headline">{escape(found.headline)}</p>'
    yield f'<dl class="cards">{"".join(_cards(report))}</dl>'
    yield f"<p>{escape(capital(found.where))}</p>"
    yield "</section>"
    yield from _ledger(report)
    yield from _step_times(report)
    yield from _warnings(report)


def verdict_of(report: Report) -> Finding | None:
    """Return the finding that is the verdict; None where the verdict has none."""
    found = report.diagnosis
    return next((one for one in found.findings if one.code == found.bottleneck), None)


def _cards(report: Report) -> Iterator[str]:
    found, verdict = report.diagnosis, verdict_of(report)
    code = found.bottleneck or "unknown"
    yield _card("What holds the step back", code.replace("_", " "), _meaning(code))
    yield _card("What it costs", *_cost_of(code, verdict, found.step_ns))
    if found.confidence is not None:
        yield _card("How sure", found.confidence, found.reason or "")
    elif code == "unknown":
        yield _card("How sure", "no verdict", "there is no cause of which one could be sure")
    else:
        yield _card("How sure", "not known", "the report does not tell")
    if verdict is not None:
        yield _card("What to try", "", verdict.advice)


def _cost_of(code: str, verdict: Finding | None, step_ns: int | None) -> tuple[str, str]:
    """Return a cost and what it is of; that it is not known is never told as nothing."""
    if verdict is not None and verdict.cost_ns is not None:
        share = (
            f"{percent(verdict.cost_ns / step_ns)} of {ms(step_ns)} ms a step" if step_ns else ""
        )
        return f"{ms(verdict.cost_ns)} ms", share
    if code in _NO_CAUSE and step_ns:
        return "nothing to win back", "no cause costs 5 % of a step or more"
    return _UNPRICED.get(code, ("not known", "the report tells no cost"))


def _meaning(code: str) -> str:
    known = EXPLANATIONS.get(code)
    return "" if known is None else f"{known.first_sentence}."


def _card(name: str, value: str, more: str) -> str:
    big = f'<span class="big">{escape(value)}</span>' if value else ""
    small = f"<span>{escape(capital(more))}</span>" if more else ""
    return f"<div><dt>{escape(name)}</dt><dd>{big}{small}</dd></div>"


# --- the ledger of the median step ---


def _ledger(report: Report) -> Iterator[str]:
    row = paying(report)
    yield '<section id="ledger-section"><h2 id="ledger">Where the step went</h2>'
    if row is None:
        yield "<p>A figure of which the parts are made is not known, so there is no ledger.</p>"
        yield "</section>"
        return
    step = "the whole recording" if row.step is None else f"median step {row.step}"
    several = len(report.diagnosis.ledger) > 1
    why = ", the rank that pays most" if several and has_payer(report) else ""
    yield f"<p>{capital(step)} on rank {row.rank}{why}: {ms(row.step_ns)} ms.</p>"
    yield bar(row)
    yield parts_list(row)
    yield "</section>"


def bar(row: Ledger) -> str:
    """Return a step's ledger as one horizontal bar whose parts add up to it."""
    pieces = "".join(
        f'<span class="look-ledger-{name}" style="flex: {ns} 0 0" '
        f'title="{escape(WORDS[name][1])}: {ms(ns)} ms">'
        f"{_label(ns, row.step_ns)}</span>"
        for name in PARTS
        if (ns := getattr(row, name)) > 0
    )
    words = ", ".join(f"{WORDS[name][1]} {ms(ns)} ms" for name, ns in _parts(row))
    told = f"{words}; together {ms(row.step_ns)} ms"
    return f'<div class="ledger-bar" role="img" aria-label="{escape(told)}">{pieces}</div>'


def _label(ns: int, step_ns: int) -> str:
    """Return what is written into a piece of a bar that is wide enough."""
    return f"<b>{ms(ns)}</b>" if ns >= 0.12 * step_ns else ""


def _parts(row: Ledger) -> list[tuple[str, int]]:
    return [(name, ns) for name in PARTS if (ns := getattr(row, name)) >= _SHOWN_NS]


def parts_list(row: Ledger) -> str:
    """Return the parts of a ledger in words; what is left out is said, so that they add up."""
    parts = _parts(row)
    items = "".join(
        f'<li><span class="swatch look-ledger-{name}"></span><span>{escape(WORDS[name][1])} '
        f'<data value="{ns}">{ms(ns)}</data> ms ({percent(ns / row.step_ns)})</span></li>'
        for name, ns in parts
        if row.step_ns
    )
    rest = row.step_ns - sum(ns for _, ns in parts)
    more = f"<li>all others {rest / 1e6:.4f} ms</li>" if rest else ""
    return (
        f'<ul class="legend parts">{items}{more}'
        f'<li class="sum"><span>= <data value="{row.step_ns}">{ms(row.step_ns)}</data> ms</span>'
        "</li></ul>"
    )


# --- step times, with and without a profiler ---


def _step_times(report: Report) -> Iterator[str]:
    times, cost = report.summary.step_ns, report.run.recording
    if times is None and cost is None:
        return
    yield '<section><h2>How long a step takes</h2><ul class="plain">'
    if times is not None:
        steps = report.summary.counted_steps
        of = "" if steps is None else f" over {counted(steps, 'step')}"
        yield (
            f"<li>Recorded{of}: median <data value='{times.median}'>{ms(times.median)}</data> ms, "
            f"95th percentile {ms(times.p95)}, shortest {ms(times.min)}, longest {ms(times.max)} "
            "ms (each step is that of its longest rank).</li>"
        )
    if cost is not None:
        yield from _cost(cost.unprofiled_step_ns, cost.parts)
    yield "</ul></section>"


def _cost(unprofiled_ns: int | None, parts: Sequence[PartTime]) -> Iterator[str]:
    if unprofiled_ns is None:
        yield "<li>Without a profiler the step was not timed.</li>"
        yield from (f"<li>{_profiled(part)}: {ms(part.step_ns)} ms.</li>" for part in parts)
        return
    longest_ns = max([unprofiled_ns, *(part.step_ns for part in parts)])
    rows = [("without a profiler", unprofiled_ns, "")]
    rows += [(_profiled(part), part.step_ns, _slower(part)) for part in parts]
    for name, ns, more in rows:
        width = 100 * ns / max(longest_ns, 1)
        yield (
            f'<li class="beside"><span>{escape(capital(name))}</span>'
            f'<span class="track"><i style="width: {width:.2f}%"></i></span>'
            f'<span><data value="{ns}">{ms(ns)}</data> ms{escape(more)}</span></li>'
        )


def _profiled(part: PartTime) -> str:
    return _ROLES[part.part]


def _slower(part: PartTime) -> str:
    if part.slowdown_ratio is None:
        return ""
    word = "shorter" if part.slowdown_ratio < 0 else "longer"
    return f" ({100 * abs(part.slowdown_ratio):.1f} % {word})"


# --- warnings ---


def _warnings(report: Report) -> Iterator[str]:
    found = list(_warning_items(report))
    if not found:
        return
    more = len(found) - _MOST_WARNINGS
    items = "".join(f"<li>{one}</li>" for one in found[:_MOST_WARNINGS])
    rest = f"<li>{more} more warnings are in the JSON report.</li>" if more > 0 else ""
    yield f'<ul class="warnings" aria-label="Warnings">{items}{rest}</ul>'


def _warning_items(report: Report) -> Iterator[str]:
    run = report.run
    if run.missing_ranks:
        why = escape(" ".join(["No recording was found.", *why_missing(run)]))
        yield f"<strong>Missing: {_ranks(run.missing_ranks)}.</strong> {why}"
    if run.partial_ranks:
        yield (
            f"<strong>PARTIAL: {_ranks(run.partial_ranks)}.</strong> "
            "Figures of a partial rank are lower bounds and count in no total."
        )
    for warning in run.warnings:
        if warning.code == "missing_ranks":
            continue  # said above
        who = "" if warning.rank is None else f"rank {warning.rank}: "
        yield escape(who + warning.message)


def _ranks(numbers: Sequence[int]) -> str:
    return of_ranks(numbers) if len(numbers) > 1 else f"rank {ranges(numbers)}"
