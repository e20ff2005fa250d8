"""What predictions say, in sentences: the same words in the terminal and on the page."""

from __future__ import annotations

from collections.abc import Iterator

from ddptrace.outputs.figures import ms
from ddptrace.whatif.document import Best, Model, WhatIf
from ddptrace.wording import counted


def grounds(found: WhatIf) -> Iterator[str]:
    """Yield what predictions rest on: the cost of transfers, the packing, the replay."""
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
    timed = ""
    if model.timed is not None:
        timed = (
            f"{counted(len(model.timed.size_bytes), 'size')} timed on the link alone, "
            f"{model.timed.ratio:.2f} times as long in steps; "
        )
    return (
        f"{timed}{counted(model.samples, 'transfer')} of {counted(model.sizes, 'size')}, "
        f"{model.smallest_bytes / 1e6:.2f} to {model.largest_bytes / 1e6:.2f} MB, the middle one "
        f"{100 * model.residual_ratio:.1f} % off"
    )


def headline(found: WhatIf) -> str:
    """Return which cap is best and what it gains or loses, or that none surely gains anything.

    Where little can be trusted it has a range, and no point in it.
    """
    best, changed = found.best, f"with {' and '.join(found.scenario)}: " if found.scenario else ""
    cap, now, trust = f"bucket_cap_mb={best.bucket_cap_mb:g}", found.measured_step_ns, found.trust
    if best.bucket_cap_mb == found.recorded_cap_mb and not found.scenario:
        return f"no better cap than what is there: {cap}, {ms(now)} ms a step"
    if best.gain_low_ns <= 0 and not found.scenario:
        said = f"no cap is surely better than what is there ({ms(now)} ms a step)"
        return said if trust == "low" else f"{said}: {cap} {_gain(best)} ms"
    if trust == "low":
        return f"{changed}{cap} may take {_range(found)} of {ms(now)} ms a step; trust is low"
    ratio = abs(best.gain_ns) / now
    return (
        f"{changed}{cap} takes {ms(best.step_ns)} of {ms(now)} ms a step: it {_gain(best)} ms "
        f"({100 * ratio:.1f} %)"
    )


def is_loss(best: Best) -> bool:
    """Tell whether even the best cap makes the step longer, as far as figures show it."""
    return round(best.gain_ns / 1e6, 2) < 0


def _gain(best: Best) -> str:
    if is_loss(best):
        low, high = ms(-best.gain_high_ns), ms(-best.gain_low_ns)
        return f"loses {ms(-best.gain_ns)} (between {low} and {high})"
    low, high = ms(best.gain_low_ns), ms(best.gain_high_ns)
    return f"gains {ms(max(best.gain_ns, 0))} (between {low} and {high})"


def _range(found: WhatIf) -> str:
    cap = found.best.bucket_cap_mb
    (one,) = [each for each in found.predictions if each.bucket_cap_mb == cap]
    return f"{ms(one.low_ns)} to {ms(one.high_ns)}"


def trust_line(found: WhatIf) -> str:
    """Return how far predictions can be trusted, and what they start from."""
    start = (
        "steps timed without a profiler"
        if found.anchor == "unprofiled"
        else "the step as it was recorded"
    )
    return f"trust: {found.trust}; starts from {start}, {ms(found.measured_step_ns)} ms"


def bounds(found: WhatIf) -> Iterator[str]:
    """Yield what no cap can beat."""
    limits = found.bounds
    yield (
        f"bounds: {ms(limits.free_communication_ns)} ms if communication took no time, "
        f"{ms(limits.perfect_overlap_ns)} ms if it could all begin with the step, "
        f"{ms(limits.communication_only_ns)} ms for nothing but communication"
    )
