"""`ddptrace simulate`: what buckets do to a step, without a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from ddptrace.cli import numbers as told
from ddptrace.cli.numbers import AlphaUs, BandwidthGbS, Bounds
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
    alpha_ns = _one(
        "alpha", ("--alpha-ms", alpha_ms, 1e6, told.MS), ("--alpha-us", alpha_us, 1e3, told.US)
    )
    bandwidth = _one(
        "bandwidth",
        ("--bandwidth-mib-per-ms", bandwidth_mib_per_ms, MIB / 1e6, told.BANDWIDTH),
        ("--bandwidth-gb-s", bandwidth_gb_s, 1.0, told.BANDWIDTH),
    )
    plan = Plan(
        gradients_bytes=told.bounded("--gradients-mib", gradients_mib, told.MIB) * MIB,
        backward_ns=told.bounded("--backward-ms", backward_ms, told.MS) * 1e6,
        alpha_ns=alpha_ns,
        bandwidth_gb_s=bandwidth,
    )
    found = simulated(plan, told.numbers("--bucket-mib", bucket_mib, told.MIB))
    if json is not None:
        write(json, to_json(found))
    if html is not None:
        write(str(html), page(found))
    if json != "-":
        write("-", render(found, stdout_destination()))


_Option: TypeAlias = tuple[str, str | None, float, Bounds]
"""Its name, what was typed, the factor to the unit wanted, and what it may be."""


def _one(what: str, one: _Option, other: _Option) -> float:
    """Return the one of two options that was given, in the unit that both become."""
    given = [
        (name, text, factor, bounds)
        for name, text, factor, bounds in (one, other)
        if text is not None
    ]
    if len(given) != 1:
        which = "both were given" if given else "neither was given"
        raise UsageError(f"give the {what} by {one[0]} or {other[0]}; {which}")
    name, text, factor, bounds = given[0]
    return told.bounded(name, text, bounds) * factor
