"""Steps of a DDP job stated in µs, and what the diagnosis says of them."""

from __future__ import annotations

from dataclasses import replace

from ranks import PAIR, comm, rank
from traces import run

from ddptrace.diagnosis.ledger import PARTS
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.transfers import ExposedTransfer, exposed_transfers
from ddptrace.model import Group
from ddptrace.report import report_of

MB = 10**6


def forward(start, end, launch=None):
    """State a kernel of the forward pass, launched where it starts or at `launch`."""
    return ("compute", start, end, start if launch is None else launch)


def backward(start, end, launch=None):
    """State a kernel of the backward pass."""
    return ("compute", start, end, start if launch is None else launch, True)


def bucket(start, end, launch, size=-1, group=PAIR, **told):
    """State the all-reduce of a bucket."""
    return comm(start, end, launch, True, group=group, size=size, **told)


def other(start, end, launch, size=-1, **told):
    """State a collective that is no bucket, an all-gather if not said."""
    return comm(start, end, launch, size=size, **{"group": PAIR, "op": "all_gather"} | told)


def both(*rows, **options):
    """State two ranks that do the same at the same time."""
    return [rank(number, *rows, **options) for number in (0, 1)]


def repeated(rows, length, count=3):
    """State `count` steps of so many µs, each with these rows; the marks are the second value."""
    found = []
    for number in range(count):
        for kind, start, end, launch, *more in rows:
            at = number * length
            found.append((kind, start + at, end + at, launch + at, *more))
    return found, [(number * length, (number + 1) * length) for number in range(count)]


def transfer(*traces, step=0) -> ExposedTransfer:
    """Return the parts of the exposed transfer of a step of the first rank."""
    found = exposed_transfers(Measured.of(run(*traces)))[0][step]
    assert found is not None
    return found


def parts(found: ExposedTransfer) -> list[int]:
    """Return schedule, bandwidth, latency and unknown in µs."""
    ns = found.schedule_ns, found.bandwidth_ns, found.latency_ns, found.unknown_ns
    return [each // 1000 for each in ns]


def diagnosis(*traces, world_size=None, manifest=None):
    """Return what is said of a run of these recordings."""
    job = replace(run(*traces, world_size=world_size), manifest=manifest)
    return report_of(Measured.of(job)).diagnosis


def costs(found) -> dict[str, int | None]:
    """Return the costs of a diagnosis's findings in µs."""
    return {
        one.code: None if one.cost_ns is None else one.cost_ns // 1000 for one in found.findings
    }


def ledger(found, number=0) -> dict[str, int]:
    """Return the parts of a rank's ledger that are not 0, in µs."""
    (mine,) = (one for one in found.ledger if one.rank == number)
    ns = {name.removesuffix("_ns"): getattr(mine, name) for name in PARTS}
    return {name: each // 1000 for name, each in ns.items() if each}


def group_of(count):
    return Group("0", tuple(range(count)), count)


def late_step(late, most, *, idles=False, launched=False, steps=3, group=None):
    """State a rank of steps of 40 ms or more: it computes, or idles, `late` ms longer.

    `launched` says that its work had been launched before it idles.

    gpu      fff[late]bbbbb    f: 3 ms, b: 5 ms
    comm     .............www[most]rr   r: all ranks transfer 2 ms
    """
    late_us, most_us = late * 1000, most * 1000
    first = [] if idles or not late else [forward(0, late_us, 0)]
    rows = [
        *first,
        forward(late_us, late_us + 3000, 0 if launched else late_us),
        backward(late_us + 3000, late_us + 8000, late_us + 10),
        bucket(late_us + 8000, most_us + 10_000, late_us + 20, 100 * MB, group=group),
        forward(most_us + 10_000, most_us + 40_000, late_us + 30),
    ]
    return repeated(rows, most_us + 40_000, steps)


def late_job(*lates, steps=4, part=None, **options):
    """State ranks that are so many ms late in every step."""
    most, group = max(lates), group_of(len(lates))
    found = []
    for number, late in enumerate(lates):
        rows, marks = late_step(late, most, steps=steps, group=group, **options)
        found.append(rank(number, *rows, marks=marks, part=part))
    return found
