"""Predictions for a terminal: what they rest on, a table, a picture, and what limits the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from ddptrace.outputs.figures import ms
from ddptrace.outputs.terminal import Destination, empty_table, print_fitting
from ddptrace.whatif.document import Best, Model, Prediction, WhatIf
from ddptrace.wording import counted

_PICTURE = 56
_LEGEND = "ms; exposed: communication without compute beside it; tail: of that at the end"


def render(found: WhatIf, destination: Destination) -> str:
    """Return predictions as text, to be read in ten seconds."""
    console = destination.console()
    for line in _grounds(found):
        console.print(Text(line, style="dim"))
    console.print()
    console.print(Text(_headline(found), style="bold"))
    console.print(Text(_trust_line(found)))
    console.print()
    _print_table(console, found)
    console.print(Text(_LEGEND, style="dim"))
    console.print()
    for line in _picture(found, min(_PICTURE, console.width - 24)):
        console.print(Text(line))
    console.print()
    for line in _bounds(found):
        console.print(Text(line))
    for note in found.notes:
        console.print(Text.assemble(("note: ", "yellow"), note))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # a StringIO
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _grounds(found: WhatIf) -> Iterator[str]:
    yield f"buckets: {_model_line(found.model)}"
    for other in found.other_models:
        yield f"other {other.operation or 'collectives'}: {_model_line(other)}"
    if found.model.compute_slowdown_ratio is not None:
        yield (
            f"compute takes {found.model.compute_slowdown_ratio:.2f} times as long beside "
            f"communication, which takes {found.model.comm_slowdown_ratio:.2f} times as long then"
        )
    yield f"packed {found.packing}"
    yield (
        f"replayed as recorded, {counted(found.recorded_buckets, 'bucket')}: "
        f"{ms(found.replayed_step_ns)} ms, recorded {ms(found.recorded_step_ns)} ms"
    )


def _model_line(model: Model) -> str:
    if len(model.lines) > 1:
        small, large = model.lines[0], model.lines[-1]
        return (
            f"{_line(small.alpha_ns, small.bandwidth_gb_s)} below {large.from_bytes / 1e6:.2f} MB, "
            f"{_line(large.alpha_ns, large.bandwidth_gb_s)} from there on; {_fitted(model)}"
        )
    said = (
        "assumed"
        if model.is_assumed
        else (
            f"{model.alpha_low_ns / 1e3:.0f} to {model.alpha_high_ns / 1e3:.0f} µs, "
            f"{_gb_s(model.bandwidth_low_gb_s)} to {_gb_s(model.bandwidth_high_gb_s)} GB/s"
        )
    )
    return f"{_line(model.alpha_ns, model.bandwidth_gb_s)} ({said}); {_fitted(model)}"


def _line(alpha_ns: int, bandwidth_gb_s: float | None) -> str:
    return f"{alpha_ns / 1e3:.0f} µs + bytes ÷ {_gb_s(bandwidth_gb_s)} GB/s"


def _gb_s(bandwidth: float | None) -> str:
    return "∞" if bandwidth is None else f"{bandwidth:.2f}"


def _fitted(model: Model) -> str:
    return (
        f"{counted(model.samples, 'transfer')} of {counted(model.sizes, 'size')}, "
        f"{model.smallest_bytes / 1e6:.2f} to {model.largest_bytes / 1e6:.2f} MB, the middle one "
        f"{100 * model.residual_ratio:.1f} % off"
    )


def _headline(found: WhatIf) -> str:
    best, changed = found.best, f"with {' and '.join(found.scenario)}: " if found.scenario else ""
    gain = best.gain_ns / found.measured_step_ns
    if best.bucket_cap_mb == found.recorded_cap_mb and not found.scenario:
        return (
            f"no better cap than what is there: bucket_cap_mb={best.bucket_cap_mb:g}, "
            f"{ms(found.measured_step_ns)} ms a step"
        )
    if best.gain_low_ns <= 0 and not found.scenario:
        return (
            f"no cap is surely better than what is there ({ms(found.measured_step_ns)} ms a step): "
            f"bucket_cap_mb={best.bucket_cap_mb:g} gains {_gain(best)} ms"
        )
    return (
        f"{changed}bucket_cap_mb={best.bucket_cap_mb:g} takes {ms(best.step_ns)} of "
        f"{ms(found.measured_step_ns)} ms a step: it gains {_gain(best)} ms ({100 * gain:.1f} %)"
    )


def _gain(best: Best) -> str:
    return f"{ms(best.gain_ns)} (between {ms(best.gain_low_ns)} and {ms(best.gain_high_ns)})"


def _trust_line(found: WhatIf) -> str:
    start = (
        "steps timed without a profiler"
        if found.anchor == "unprofiled"
        else "the step as it was recorded"
    )
    return f"trust: {found.trust}; starts from {start}, {ms(found.measured_step_ns)} ms"


def _print_table(console: Console, found: WhatIf) -> None:
    table = empty_table()
    for title in ("cap MiB", "buckets", "step", "from", "to", "exposed", "tail"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    rows = [(one, _cells(found, one)) for one in found.predictions]
    for one, cells in rows:
        is_best = one.bucket_cap_mb == found.best.bucket_cap_mb
        table.add_row(*cells, "best" if is_best else "", style="bold" if is_best else None)
    print_fitting(console, table, [Text(_stacked(cells)) for _, cells in rows])


def _cells(found: WhatIf, one: Prediction) -> tuple[str, ...]:
    # Where little can be trusted the range is the answer, and no point in it.
    step = "-" if found.trust == "low" else ms(one.step_ns)
    return (
        f"{one.bucket_cap_mb:g}",
        str(one.buckets),
        step,
        ms(one.low_ns),
        ms(one.high_ns),
        ms(one.exposed_comm_ns),
        ms(one.tail_ns),
    )


def _stacked(cells: Sequence[str]) -> str:
    cap, buckets, step, low, high, exposed, tail = cells
    return (
        f"cap {cap} MiB, {buckets} buckets\n  step {step}, {low} to {high}\n"
        f"  exposed {exposed}, tail {tail}"
    )


def _picture(found: WhatIf, width: int) -> Iterator[str]:
    """Yield a line a cap: from `<` to `>` with the step at `o`, and `|` where the step is now."""
    ends = [each for one in found.predictions for each in (one.low_ns, one.high_ns)]
    low, high = min(*ends, found.measured_step_ns), max(*ends, found.measured_step_ns)
    width = max(width, 10)

    def place(ns: int) -> int:
        return round((ns - low) / max(high - low, 1) * (width - 1))

    for one in found.predictions:
        line = [" "] * width
        for at in range(place(one.low_ns), place(one.high_ns) + 1):
            line[at] = "-"
        line[place(one.low_ns)], line[place(one.high_ns)] = "<", ">"
        line[place(found.measured_step_ns)] = "|"
        if found.trust != "low":
            line[place(one.step_ns)] = "o"
        yield f"{one.bucket_cap_mb:>7g}  {''.join(line)}".rstrip()
    left, right = ms(low), ms(high)
    yield f"{'MiB':>7}  {left}{right:>{width - len(left)}} ms; | is the step as it is"


def _bounds(found: WhatIf) -> Iterator[str]:
    bounds = found.bounds
    yield (
        f"bounds: {ms(bounds.free_communication_ns)} ms if communication took no time, "
        f"{ms(bounds.perfect_overlap_ns)} ms if it could all begin with the step, "
        f"{ms(bounds.communication_only_ns)} ms for nothing but communication"
    )
