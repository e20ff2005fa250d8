"""How fast a page is rendered, how large it is, and how fast Chromium opens and draws it.

The run is made up: 8 ranks, 3 steps, 2,000 kernels a step, or as many as are asked for.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from ddptrace import analyze
from ddptrace.kernels import Kind
from ddptrace.manifest import Mark
from ddptrace.model import Collectives, Facts, Group, HostRanges, Ops, Run, Trace
from ddptrace.outputs.html import render

CHROMIUM = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
_KERNEL_NS, _GAP_NS, _BUCKETS = 40_000, 3_000, 20
_NAMES = (
    "all_reduce",
    *(f"void at::native::kernel_{number}<float, {number}>(int, float*)" for number in range(60)),
)


def made_up(ranks: int, steps: int, kernels: int) -> Run:
    """Return a run in which the last rank is late and the buckets are exposed at the end."""
    traces = tuple(_trace(rank, ranks, steps, kernels) for rank in range(ranks))
    return Run(traces=traces, world_size=ranks)


def _trace(rank: int, ranks: int, steps: int, kernels: int) -> Trace:
    rng = np.random.default_rng(rank)
    step_ns = kernels * (_KERNEL_NS + _GAP_NS) + 8_000_000
    starts, ends, kinds = [], [], []
    for step in range(steps):
        lengths = rng.integers(_KERNEL_NS // 4, _KERNEL_NS, kernels)
        begin = step * step_ns + np.arange(kernels) * (_KERNEL_NS + _GAP_NS)
        late = 1_000_000 if rank == ranks - 1 else 0
        last = step * step_ns + np.linspace(0.4, 1, _BUCKETS) * (step_ns - 5_000_000)
        came = last.astype(np.int64) + rng.integers(0, 50_000, _BUCKETS) + late
        starts += [begin, came]
        ends += [begin + lengths, last.astype(np.int64) + late + 1_500_000]
        kinds += [np.full(kernels, Kind.COMPUTE), np.full(_BUCKETS, Kind.COMM)]
    start, end = np.concatenate(starts), np.concatenate(ends)
    kind = np.concatenate(kinds).astype(np.int8)
    order = np.argsort(start, kind="stable")
    return _of_columns(rank, (start[order], end[order], kind[order]), steps, step_ns, rng)


def _of_columns(
    rank: int,
    columns: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int8]],
    steps: int,
    step_ns: int,
    rng: np.random.Generator,
) -> Trace:
    start_ns, end_ns, kind = columns
    rows, is_comm = start_ns.size, kind == Kind.COMM
    name = rng.integers(1, len(_NAMES), rows)
    count = int(is_comm.sum())
    minus = np.full(count, -1)
    nothing = np.empty(0, np.int64)
    return Trace(
        rank=rank,
        path=f"rank{rank}.json",
        source="kineto",
        device="gpu",
        clock="unix",
        names=_NAMES,
        ops=Ops(
            start_ns=start_ns,
            end_ns=end_ns,
            kind=kind,
            name=np.where(is_comm, 0, name).astype(np.int32),
            device=np.zeros(rows, np.int64),
            stream=kind.astype(np.int64),
            correlation=np.arange(rows),
            launch_ns=start_ns - 5_000,
            thread=np.zeros(rows, np.int64),
            collective=np.where(is_comm, np.cumsum(is_comm) - 1, -1).astype(np.int32),
            in_graph=np.zeros(rows, np.bool_),
            in_backward=np.zeros(rows, np.bool_),
        ),
        host=HostRanges(nothing, nothing, np.empty(0, np.int32), nothing, np.empty(0, np.int8)),
        marks=tuple(
            Mark(step, f"ProfilerStep#{step}", step * step_ns - 6_000, (step + 1) * step_ns - 6_000)
            for step in range(steps)
        ),
        facts=Facts(device_name="made up"),
        collectives=Collectives(
            operation=np.zeros(count, np.int32),
            group=np.zeros(count, np.int32),
            size_bytes=(1 + np.arange(count) % _BUCKETS) << 20,
            part_bytes=minus.astype(np.int64),
            sequence=np.arange(count),
            source=minus.astype(np.int32),
            destination=minus.astype(np.int32),
            of_integers=np.zeros(count, np.bool_),
        ),
        groups=(Group("0", size=None),),
    )


def opened(path: Path) -> tuple[float, float]:
    """Return the wall and CPU seconds until Chromium has drawn every picture, the least of three.

    CPU is that of the page's thread: on a busy machine it says more than the clock.
    """
    from playwright.sync_api import sync_playwright

    chromium = next(place for place in CHROMIUM if Path(place).exists())
    found = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(3):
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable")
            begin = time.perf_counter()
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=60_000)
            wall_s = time.perf_counter() - begin
            metrics = session.send("Performance.getMetrics")["metrics"]
            (cpu_s,) = [one["value"] for one in metrics if one["name"] == "ThreadTime"]
            found.append((wall_s, cpu_s))
            page.close()
        browser.close()
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def main() -> None:
    """Print one row of a table for each size of run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--kernels", type=int, default=2_000)
    parser.add_argument("--open", action="store_true", help="open the pages in Chromium, too")
    given = parser.parse_args()
    print("| ranks x steps x kernels | rendered | size | opened and drawn |")
    print("| --- | --- | --- | --- |")
    with TemporaryDirectory() as folder:
        for ranks in given.ranks:
            report = analyze(made_up(ranks, given.steps, given.kernels))
            begin, cpu = time.perf_counter(), time.process_time()
            text = render(report)
            rendered = _seconds(time.perf_counter() - begin, time.process_time() - cpu)
            path = Path(folder) / f"{ranks}.html"
            path.write_text(text, encoding="utf-8")
            run = f"{ranks} x {given.steps} x {given.kernels:,}"
            drawn = _seconds(*opened(path)) if given.open else "not opened"
            print(f"| {run} | {rendered} | {len(text.encode()) / 1e6:.2f} MB | {drawn} |")


def _seconds(wall_s: float, cpu_s: float) -> str:
    return f"{wall_s:.2f} s (CPU {cpu_s:.2f} s)"


if __name__ == "__main__":
    main()
