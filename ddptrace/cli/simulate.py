"""`ddptrace simulate`: what buckets do to a step, without a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddptrace.cli.numbers import AlphaUs, BandwidthGbS, numbers, positive
from ddptrace.cli.terminal import stdout_destination, write
from ddptrace.errors import UsageError


def simulate(
    gradients_mib: Annotated[
        str, typer.Option(metavar="MIB", help="The size of all gradients.")
    ] = "80",
    backward_ms: Annotated[
        str, typer.Option(metavar="MS", help="How long backward computes; gradients come evenly.")
    ] = "80",
    alpha_ms: Annotated[
        str | None, typer.Option(metavar="MS", help="The fixed cost of a collective.")
    ] = None,
    bandwidth_mib_per_ms: Annotated[
        str | None, typer.Option(metavar="MIB/MS", help="The bandwidth of the link.")
    ] = None,
    bucket_mib: Annotated[
        str, typer.Option(metavar="LIST", help="Sizes of buckets, such as 5,10,20.")
    ] = "5,10,20,40,80",
    alpha_us: AlphaUs = None,
    bandwidth_gb_s: BandwidthGbS = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the steps as JSON; - for stdout.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the timelines as one offline page.")
    ] = None,
) -> None:
    """Show what buckets do to a step, without a trace: the timeline of each size.

    A bucket takes alpha + size ÷ bandwidth, starts when its gradients are ready and the bucket
    before it has ended, and runs beside compute. Exit codes: 0 fine, 2 bad usage.
    """
    from ddptrace.outputs.simulation import page, render
    from ddptrace.whatif.packing import MIB
    from ddptrace.whatif.simulate import Plan, to_json
    from ddptrace.whatif.simulate import simulate as simulated

    if str(html) == "-":
        raise UsageError("--html needs a file; only --json can go to standard output")
    alpha_ns = _one("alpha", ("--alpha-ms", alpha_ms, 1e6), ("--alpha-us", alpha_us, 1e3), 0)
    bandwidth = _one(
        "bandwidth",
        ("--bandwidth-mib-per-ms", bandwidth_mib_per_ms, MIB / 1e6),
        ("--bandwidth-gb-s", bandwidth_gb_s, 1.0),
        None,
    )
    plan = Plan(
        gradients_bytes=positive("--gradients-mib", gradients_mib) * MIB,
        backward_ns=positive("--backward-ms", backward_ms, or_zero=True) * 1e6,
        alpha_ns=alpha_ns,
        bandwidth_gb_s=bandwidth,
    )
    found = simulated(plan, numbers("--bucket-mib", bucket_mib))
    if json is not None:
        write(json, to_json(found))
    if html is not None:
        write(str(html), page(found))
    if json != "-":
        write("-", render(found, stdout_destination()))


def _one(
    what: str,
    one: tuple[str, str | None, float],
    other: tuple[str, str | None, float],
    least: float | None,
) -> float:
    """Return the one of two options that was given, in the unit that both become."""
    given = [(name, text, factor) for name, text, factor in (one, other) if text is not None]
    if len(given) != 1:
        which = "both" if given else "neither"
        raise UsageError(f"give the {what} by {one[0]} or {other[0]}; {which} was given")
    name, text, factor = given[0]
    return positive(name, str(text), or_zero=least is not None) * factor
