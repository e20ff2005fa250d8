"""The tables of the page that come from recordings of ddptrace, and what others measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tables import NONE, median, ms, percent, table

Json = dict[str, Any]
OTHERS = """\
## Beside what others measured

Four GPUs of one host joined by NVLink in each column; ms a step, for ours the median of the longest
rank.
"""
# Of jobs of the same shape: 12 buckets of 4 MiB, or 48 parameters of 1 MiB; no more is known.
V100 = {
    "12x4-cap4-spin": 81.12,
    "12x4-cap64-spin": 81.84,
    "12x4-cap4": 5.60,
    "12x4-cap16": 4.12,
    "12x4-cap64": 4.34,
    "48x1-cap4": 8.89,
}
H200 = {
    "12x4-cap4-spin": 56.6,
    "12x4-cap64-spin": 57.2,
    "12x4-cap4": 9.7,
    "12x4-cap16": 6.7,
    "12x4-cap64": 6.5,
    "48x1-cap4": 24.3,
}
REASONS = Path(__file__).with_name("reasons.md")


def recorded_section(found: Json) -> str:
    """Return the table of recordings of rows of the experiment, a line for each rank."""
    header = (
        "configuration | recorded by | rank | steps | spin kernels a step | comm kernels a step | "
        "step, ms | comm, ms | hidden, ms | exposed, ms | hidden ÷ comm | verdict"
    )
    lines = [_rank_line(one, rank) for one in found["recordings"] for rank in one["ranks"]]
    return (
        "## The same jobs recorded by ddptrace\n\n"
        "Each row as a training script of its own, recorded by `ddptrace capture` with\n"
        "torch.profiler and, in another run, with Nsight Systems: four ranks over\n"
        f"{found['link']}, medians over the steps that count in `ddptrace report`. The recordings\n"
        "are in [`sample_traces`](../sample_traces/README.md).\n\n" + table(header, lines)
    )


def _rank_line(one: Json, rank: Json) -> list[str]:
    comm_ns, hidden_ns = rank["comm_ns"], rank["hidden_comm_ns"]
    return [
        one["name"],
        one["source"],
        str(rank["rank"]),
        str(one["steps"]),
        str(rank["spin_kernels"]),
        str(rank["comm_kernels"]),
        *(ms(each) for each in (rank["step_ns"], comm_ns, hidden_ns, rank["exposed_comm_ns"])),
        percent(hidden_ns / comm_ns) if comm_ns else NONE,
        f"`{one['verdict']}`",
    ]


def caps_section(links: Sequence[Json]) -> str:
    """Return the table of the example job's steps by cap, a column for each link."""
    caps = sorted({one["cap_mib"] for link in links for one in link["recordings"]})
    header = " | ".join(["cap, MiB", *(f"{link['link']}, ms" for link in links)])
    lines = [[str(cap), *(_step_at(link, cap) for link in links)] for cap in caps]
    return (
        "## The example job with other bucket caps\n\n"
        "`train_ddp.py --size large --batch-size 16` (144 million parameters, 575 MB of\n"
        "gradients) on four H200, each cap as a job of its own: the median of 20 steps without a\n"
        "profiler, of the slowest rank. What `ddptrace whatif` predicts of them is in\n"
        "[what-if](whatif.md).\n\n" + table(header, lines)
    )


def _step_at(link: Json, cap_mib: int) -> str:
    found = [one["unprofiled_ns"] for one in link["recordings"] if one["cap_mib"] == cap_mib]
    return ms(found[0]) if found else NONE


def beside_section(results: Sequence[Json]) -> str:
    """Return what others measured on four GPUs beside our runs on four."""
    runs = [f"H200, run {number}" for number in range(1, len(results) + 1)]
    header = " | ".join(["configuration", "V100", "H200, an earlier try", *runs])
    lines = [
        [name, f"{V100[name]:.2f}", f"{H200[name]:.1f}", *(_step(one, name) for one in results)]
        for name in V100
    ]
    return "\n".join([OTHERS, table(header, lines), REASONS.read_text(encoding="utf-8")])


def _step(result: Json, name: str) -> str:
    rows = [row for row in result["configurations"] if row["name"] == name]
    if not rows:
        return NONE
    of_ranks = [rank["step_ns"] for rank in rows[0]["ranks"]]
    return ms(median([max(times) for times in zip(*of_ranks, strict=True)]))
