"""`ddptrace whatif`: the step with other buckets, another link, or without a late rank."""

from __future__ import annotations

from typing import Annotated

import typer

from ddptrace.cli import numbers as told
from ddptrace.cli.inputs import CommKernel, Jobs, Ranks, Runs, StepRange, read
from ddptrace.cli.numbers import AlphaUs, BandwidthGbS
from ddptrace.cli.terminal import stdout_destination, write
from ddptrace.errors import UsageError

_COMPRESSIONS = ("fp16", "bf16")


def whatif(
    runs: Runs,
    bucket_cap_mb: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Bucket caps in MiB, such as 1,25,100."),
    ] = None,
    link: Annotated[
        str | None, typer.Option(metavar="Nx", help="A link of N times the bandwidth, such as 2x.")
    ] = None,
    without_straggler: Annotated[
        bool, typer.Option("--without-straggler", help="The straggler as fast as the others.")
    ] = False,
    compress: Annotated[
        str | None,
        typer.Option(metavar="fp16|bf16", help="Gradients of 4 bytes a number sent as 2."),
    ] = None,
    free_communication: Annotated[
        bool, typer.Option("--free-communication", help="Communication takes no time.")
    ] = False,
    perfect_overlap: Annotated[
        bool, typer.Option("--perfect-overlap", help="Communication may begin with the step.")
    ] = False,
    alpha_us: AlphaUs = None,
    bandwidth_gb_s: BandwidthGbS = None,
    ranks: Ranks = None,
    comm_kernel: CommKernel = None,
    step_range: StepRange = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write predictions as JSON; - for stdout.")
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Predict the step with other bucket caps, from one recording, by replaying DDP's packing.

    What a collective costs is fitted to the recorded ones. Each prediction has an interval, and the
    reasons not to trust it. Exit codes: 0 fine, 2 bad input, or a run whose steps cannot be
    replayed.
    """
    caps = (
        None if bucket_cap_mb is None else told.numbers("--bucket-cap-mb", bucket_cap_mb, told.MIB)
    )
    if compress is not None and compress not in _COMPRESSIONS:
        raise UsageError(f"--compress {compress[:40]}: give {' or '.join(_COMPRESSIONS)}")
    times = 1.0
    if link is not None:
        times = told.bounded("--link", link.removesuffix("x"), told.TIMES, shown=link)

    from ddptrace.outputs.whatif import render
    from ddptrace.whatif.document import to_json
    from ddptrace.whatif.predict import predict
    from ddptrace.whatif.scenario import Scenario

    scenario = Scenario(
        link=times,
        is_compressed=compress is not None,
        compression=compress or _COMPRESSIONS[0],
        without_straggler=without_straggler,
        free_communication=free_communication,
        perfect_overlap=perfect_overlap,
        alpha_ns=None if alpha_us is None else told.bounded("--alpha-us", alpha_us, told.US) * 1e3,
        bandwidth_gb_s=None
        if bandwidth_gb_s is None
        else told.bounded("--bandwidth-gb-s", bandwidth_gb_s, told.BANDWIDTH),
    )
    found = predict(read(runs, ranks, comm_kernel, step_range, jobs), caps, scenario)
    if json is not None:
        write(json, to_json(found))
    if json != "-":
        write("-", render(found, stdout_destination()))
