"""Runs one function over many inputs, in processes where that pays."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from ddptrace.errors import DdptraceError

Input = TypeVar("Input")
Output = TypeVar("Output")
Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many inputs are done, and of how many."""


def cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_each(
    function: Callable[[Input], Output],
    inputs: Sequence[Input],
    *,
    jobs: int,
    progress: Progress | None = None,
) -> list[Output]:
    """Return `function` of each input, in their order, worked out in up to `jobs` processes.

    With one job or one input everything happens here. `function` and what it takes and returns
    must be picklable. An exception of any call is raised.
    """
    told = progress or (lambda done, total: None)
    jobs = min(jobs, len(inputs))
    if jobs > 1:
        return _map_in_processes(function, inputs, jobs, told)
    outputs = []
    for done, one in enumerate(inputs, start=1):
        outputs.append(function(one))
        told(done, len(inputs))
    return outputs


def _map_in_processes(
    function: Callable[[Input], Output], inputs: Sequence[Input], jobs: int, told: Progress
) -> list[Output]:
    # Imported where they are needed: one small file is read in less time than they take.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    # A forked process has everything imported and does not run the user's script again.
    method = "fork" if sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(method)
    with warnings.catch_warnings():
        # Python warns of forks beside threads; the only ones here are numpy's, which handle it.
        warnings.simplefilter("ignore", DeprecationWarning)
        with ProcessPoolExecutor(jobs, mp_context=context) as pool:
            futures = [pool.submit(function, one) for one in inputs]
            for done, _ in enumerate(as_completed(futures), start=1):
                told(done, len(futures))
            try:
                return [future.result() for future in futures]
            except BrokenProcessPool as error:
                raise DdptraceError(
                    "a process that read a file was killed, perhaps for want of memory; try "
                    "--jobs 1"
                ) from error
