"""The page of tables: saved results in, Markdown out, the same bytes for the same results."""

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from verdicts import DOCUMENTED, gradients_verdict, replicas_verdict, undetected_verdict

Json = dict[str, Any]
NONE = "–"
METHOD = Path(__file__).with_name("method.md")


def page(results: Sequence[Json]) -> str:
    """Return how it was measured, then a section for each saved result."""
    method = METHOD.read_text(encoding="utf-8")
    headings = [_heading(result["hardware"]) for result in results]
    runs = [headings[:place].count(each) + 1 for place, each in enumerate(headings)]
    parts = [section(result, run) for result, run in zip(results, runs, strict=True)]
    return "\n".join([method, *parts])


def section(result: Json, run: int = 1) -> str:
    """Return the tables of one machine; `run` counts its results on the page."""
    rows = result["configurations"]
    trained = [row for row in rows if row["skips"] != "always"]
    again = f", run {run}" if run > 1 else ""
    parts = [f"## {_heading(result['hardware'])}{again}\n", _facts(result)]
    if trained:
        parts += ["### Steps\n", _steps_table(trained)]
        parts += ["### Overlap on every rank\n", _overlap_table(trained)]
        parts += ["### Calls of the hook\n", _hook_table(trained)]
    return "\n".join([*parts, "### Correctness\n", _correctness_table(rows)])


def _heading(hardware: Json) -> str:
    return f"{hardware['devices']} × {hardware['device']}, {hardware['ranks']} ranks"


def _facts(result: Json) -> str:
    hardware, settings = result["hardware"], result["settings"]
    facts = {
        "Hardware": f"{hardware['devices']} × {hardware['device']} in {_nodes(hardware['nodes'])}",
        "Link": hardware["link"],
        "Ranks": f"{hardware['ranks']}, backend {hardware['backend']}",
        "Versions": ", ".join(f"{name} {text}" for name, text in hardware["versions"].items()),
        "NCCL settings": " ".join(f"`{k}={v}`" for k, v in hardware["nccl_settings"].items()),
        "Steps": f"{settings['steps']} timed after {settings['warm_up_steps']}, "
        f"{settings['recorded_steps']} recorded; batches of {settings['batch_size']}",
    }
    return "".join(f"- {name}: {text}\n" for name, text in facts.items() if text)


def _nodes(count: int) -> str:
    return "one host" if count == 1 else f"{count} hosts"


def _steps_table(rows: list[Json]) -> str:
    header = (
        "configuration | parameters | cap | spin, cycles | buckets: hook / DDP | step median, ms | "
        "step P95, ms | host block, ms a step | backward GPU, ms | "
        "backward host, ms: median / least | optimizer host, ms: median / least"
    )
    return table(header, [_steps_row(row) for row in rows])


def _steps_row(row: Json) -> list[str]:
    steps = _longest(row, "step_ns") or []
    return [
        row["name"],
        f"{row['branches']} × {size(row['branch_bytes'])}",
        size(row["cap_bytes"]),
        f"{row['spin_cycles']:,}" if row["spin_cycles"] else NONE,
        _buckets(row["ranks"]),
        ms(median(steps)),
        ms(percentile(steps, 95)),
        ms(max(rank["block_ns"] for rank in row["ranks"]) / len(steps)),
        ms(_of(median, _longest(row, "backward_gpu_ns"))),
        _median_and_least(row, "backward_host_ns"),
        _median_and_least(row, "optimizer_host_ns"),
    ]


def _buckets(ranks: list[Json]) -> str:
    hook = sorted({len(rank["hook_steps"][-1]) for rank in ranks})
    logged = sorted({len(rank["ddp_logger"]["bucket_bytes"]) for rank in ranks})
    kept = "" if all(rank["ddp_logger"]["rebuilt"] for rank in ranks) else " (as built)"
    return f"{_either(hook)} / {_either(logged)}{kept}"


def _either(counts: list[int]) -> str:
    return " or ".join(str(count) for count in counts)


def _longest(row: Json, name: str) -> list[int] | None:
    """Return for each step the time of its longest rank, None where a rank has none."""
    of_ranks = [rank[name] for rank in row["ranks"]]
    return None if None in of_ranks else [max(times) for times in zip(*of_ranks, strict=True)]


def _median_and_least(row: Json, name: str) -> str:
    times = _longest(row, name)
    return f"{ms(_of(median, times))} / {ms(_of(min, times))}"


def _overlap_table(rows: list[Json]) -> str:
    header = (
        "configuration | rank | comm kernels a step | spin kernels a step | compute, ms | "
        "comm, ms | hidden, ms | exposed, ms | hidden ÷ comm | DDP compute, ms: mean / last | "
        "DDP comm, ms: mean / last | DDP overlap, ms: mean / last"
    )
    return table(
        header,
        [
            [row["name"], str(number), *_overlap_cells(rank["recorded"]), *_ddp_cells(rank)]
            for row in rows
            for number, rank in enumerate(row["ranks"])
        ],
    )


def _overlap_cells(recorded: Json) -> list[str]:
    steps, comm_ns = recorded["steps"], recorded["comm_ns"]
    counts = [count(recorded[name] / steps) for name in ("comm_count", "spin_count")]
    names = ("compute_ns", "comm_ns", "hidden_ns", "exposed_ns")
    ratio = percent(recorded["hidden_ns"] / comm_ns) if comm_ns else NONE
    return [*counts, *(ms(recorded[name] / steps) for name in names), ratio]


def _ddp_cells(rank: Json) -> list[str]:
    mean, last = rank["ddp_logger"]["mean_ns"], rank["ddp_logger"]["last_ns"]
    return [f"{ms(mean[name])} / {ms(last[name])}" for name in mean]


def _hook_table(rows: list[Json]) -> str:
    header = (
        "configuration | rank | bucket indices | bytes, in this order | last | "
        "called after the start of backward, host ms"
    )
    return table(
        header,
        [
            [row["name"], str(number), *_hook_cells(rank["hook_steps"][-1])]
            for row in rows
            for number, rank in enumerate(row["ranks"])
        ],
    )


def _hook_cells(calls: list[Json]) -> list[str]:
    indices = [call["bucket"] for call in calls]
    in_order = len(indices) > 1 and indices == list(range(len(indices)))
    return [
        f"0–{indices[-1]}" if in_order else " ".join(map(str, indices)),
        equal_runs([call["bytes"] for call in calls]),
        " ".join(str(call["bucket"]) for call in calls if call["last"]) or NONE,
        " ".join(ms(call["stamp_ns"]) for call in calls),
    ]


def equal_runs(sizes: list[int]) -> str:
    """Return sizes in their order, neighbours of one size together."""
    return ", ".join(f"{len(list(run))} × {size(value)}" for value, run in groupby(sizes))


def _correctness_table(rows: list[Json]) -> str:
    header = "configuration | replicas | gradients | outcome"
    return table(header, [[row["name"], *_correctness_cells(row)] for row in rows])


def _correctness_cells(row: Json) -> list[str]:
    ranks = row["ranks"]
    if row["skips"] != "always":
        return [replicas_verdict(ranks), gradients_verdict(ranks), "trained"]
    verdict = undetected_verdict(ranks)
    words = f": “{DOCUMENTED} …”" if verdict.startswith("failed as") else ""
    return [NONE, NONE, f"{verdict}{words}"]


def table(header: str, rows: list[list[str]]) -> str:
    """Return a Markdown table; the names in the header are parted by bars."""
    names = header.split(" | ")
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def median(values: Sequence[int]) -> float:
    """Return the middle value, the mean of the two middle ones of an even number."""
    rising = sorted(values)
    return (rising[(len(rising) - 1) // 2] + rising[len(rising) // 2]) / 2


def percentile(values: Sequence[int], percent_of_them: int) -> int:
    """Return the smallest value that so many percent of all do not exceed (nearest rank)."""
    rising = sorted(values)
    return rising[max(math.ceil(percent_of_them * len(rising) / 100), 1) - 1]


def _of(figure: Callable[[Sequence[int]], float], values: Sequence[int] | None) -> float | None:
    return figure(values) if values else None


def ms(time_ns: float | None) -> str:
    """Return nanoseconds as milliseconds with two decimals."""
    return NONE if time_ns is None else f"{time_ns / 1e6:.2f}"


def percent(ratio: float) -> str:
    """Return a ratio as percent with one decimal."""
    return f"{100 * ratio:.1f} %"


def count(number: float) -> str:
    """Return a number of things a step: whole where it is, else with one decimal."""
    return str(int(number)) if number == int(number) else f"{number:.1f}"


def size(size_bytes: int) -> str:
    """Return bytes in the largest unit in which they are a whole number."""
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if size_bytes % unit == 0:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} B"
