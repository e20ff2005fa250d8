"""How many kernel launches of an Nsight Systems recording have no kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ddptrace import kernels
from ddptrace.manifest import Mark
from ddptrace.sources.names import Names
from ddptrace.sources.nsys_tables import Tables, of_process
from ddptrace.sources.sqlite_pages import NULL


@dataclass(frozen=True, slots=True)
class Launches:
    """The kernel launches of a process inside its steps (all, without steps), and those lost."""

    count: int
    lost: int
    in_steps: bool


def launches(tables: Tables, process: int, marks: Sequence[Mark]) -> Launches:
    """Count the launches of a process whose kernel must be there, and those where it is not.

    CUDA graphs do not count: which kernels they launch is not recorded with them.
    """
    place = tables.processes.index(process)
    work = of_process(tables.work, place, tables.processes)
    calls = of_process(tables.calls, place, tables.processes)
    names = Names(tuple(tables.names))
    chosen = names.where(kernels.is_launch_call, calls.name)
    chosen &= ~names.where(kernels.is_graph_launch, calls.name)
    chosen &= (calls.correlation != NULL) & (calls.correlation != 0)
    if marks:
        first_ns, end_ns = marks[0].start_ns, max(mark.end_ns for mark in marks)
        chosen &= (calls.start_ns >= first_ns) & (calls.start_ns < end_ns)
    wanted = calls.correlation[chosen]
    return Launches(wanted.size, int((~np.isin(wanted, work.correlation)).sum()), bool(marks))
