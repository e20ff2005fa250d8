"""Holds `ddptrace report` and `check` against the known values of a folder of traces and cases.

    python .ci/known_values.py FOLDER

FOLDER has `traces/expected.json` (ns, by set, rank and step), `traces/labels.json` (what a verdict
may name, what it must find, buckets a step), `traces/sweep.json` (the step in ms with other bucket
caps, which one recording must predict) and `cases/*/expected.json` (µs).
Prints one line a set, says what has not landed yet, and exits with 1 when a value is wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

TOLERANCE_NS = 2
TOLERANCE_PERCENT = 0.01
LIMIT_OF_CASES = "step:5%"
NAMES_OF_CASES = {
    "comm": "comm_ns",
    "compute": "compute_ns",
    "exposed": "exposed_comm_ns",
    "hidden": "hidden_comm_ns",
    "memory": "mem_ns",
    "span": "compute_span_ns",
    "tail": "tail_ns",
}
NOT_COMPARED = {"step", "start_ns", "end_ns"}
NO_PARTS = {"rank", "step", "step_ns"}
REFUSED = {
    "cases/07-shared-path": "one path",
    "cases/19-same-rank-twice": "two files for rank 0",
    "cases/21-two-runs-one-folder": "different runs",
    "cases/27-host-events-only": "12 kernel launches but no GPU kernels",
    "cases/55-nsys-no-kernel-table": "5 kernel launches but no GPU kernels",
    "cases/59-nsys-graphs-only": "3 graph launches (2,580 µs on the GPU)",
    "traces/public/refuse/tensorflow.trace.json.gz": "TensorFlow",
    "traces/public/refuse/execution_trace.json.gz": "execution trace",
}
SWEPT = ("shm_gpt25", "shm_gpt1000")
MEDIAN_OFF, WORST_OFF, CHOSEN_OFF = 0.05, 0.10, 0.01
COLLECTIVES_OF_CASES = "all_reduce|cross_device_reduce"


def report(run: Path, *options: str) -> dict[str, Any] | None:
    """Return the JSON report of a run; None when there is none."""
    command = [sys.executable, "-m", "ddptrace", "report", str(run), "--json", "-", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "Traceback" in done.stderr:
        raise SystemExit(f"{run}: {done.stderr}")
    return json.loads(done.stdout) if done.stdout else None


def differs(found: int | None, known: float | None) -> bool:
    """Tell whether two values are not the same within the tolerance."""
    if found is None or known is None:
        return found is not known
    return abs(found - known) > TOLERANCE_NS


def not_adding_up(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return the rows whose known parts do not add up to their step and their communication."""
    wrong = []
    for row in rows:
        parts = [
            row[name] for name in ("compute_ns", "exposed_comm_ns", "exposed_mem_ns", "idle_ns")
        ]
        comm = [row["hidden_comm_ns"], row["exposed_comm_ns"]]
        for whole, found in ((row["step_ns"], parts), (row["comm_ns"], comm)):
            if None not in (whole, *found) and sum(found) != whole:
                wrong.append(f"rank {row['rank']} step {row['step']}: {found} is not {whole}")
    return wrong


def buckets_of(document: dict[str, Any]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Return the gradient collectives of each rank and step, by their numbers."""
    found: dict[tuple[int, int], list[dict[str, Any]]] = {
        (row["rank"], row["step"]): [] for row in document["steps"]
    }
    numbered = [one for one in document["collectives"] if one["bucket"] is not None]
    for one in sorted(numbered, key=lambda one: (one["backward_pass"], one["bucket"])):
        for rank in one["ranks"]:
            found[rank["rank"], one["step"]].append(one)
    return found


def check_buckets(document: dict[str, Any], known: int | None) -> list[str]:
    """Return the ranks and steps that do not have so many buckets, numbered from 0."""
    return [
        f"rank {rank} step {step}: buckets {numbers} are not {known}"
        for (rank, step), mine in buckets_of(document).items()
        if (numbers := [one["bucket"] for one in mine]) != list(range(known or 0))
    ]


def check_label(document: dict[str, Any], label: dict[str, Any]) -> list[str]:
    """Return what the diagnosis of a labelled set says that it may not, or does not say."""
    diagnosis, late = document["diagnosis"], document["stragglers"] or {}
    wrong = []
    allowed = label["bottleneck"]
    if allowed is not None and diagnosis["bottleneck"] not in allowed:
        wrong.append(f"verdict: {diagnosis['bottleneck']} is none of {allowed}")
    missing = set(label["must_find"]) - {one["code"] for one in diagnosis["findings"]}
    wrong += [f"finding: {code} is not listed" for code in sorted(missing)]
    if label["straggler"] is not None and late.get("rank") != label["straggler"]:
        wrong.append(f"straggler: rank {late.get('rank')} is not {label['straggler']}")
    return wrong


def check_ledger(document: dict[str, Any]) -> list[str]:
    """Return the ranks whose ledger of the median step has other parts than the step."""
    rows = {(row["rank"], row["step"]): row for row in document["steps"]}
    wrong = []
    for one in document["diagnosis"]["ledger"]:
        row = rows[one["rank"], one["step"]]
        parts = {name: ns for name, ns in one.items() if name not in NO_PARTS}
        is_whole = sum(parts.values()) == one["step_ns"] == row["step_ns"]
        if not is_whole or min(parts.values()) < 0:
            wrong.append(f"ledger of rank {one['rank']}: {parts} are not {row['step_ns']}")
    return wrong


def check_set(
    folder: Path, known: dict[str, list[dict[str, Any]]], label: dict[str, Any] | None
) -> list[str]:
    """Return what differs from the known values of one set of traces."""
    document = report(folder)
    if document is None:
        return ["no report"]
    rows = {(str(row["rank"]), row["step"]): row for row in document["steps"]}
    wrong = []
    for rank, steps in known.items():
        for step in steps:
            row = rows.pop((rank, step["step"]), {})
            wrong += [
                f"rank {rank} step {step['step']} {name}: {row.get(name)} is not {value}"
                for name, value in step.items()
                if name not in NOT_COMPARED and differs(row.get(name, -1), value)
            ]
    wrong += [f"rank {rank} step {step} is not known" for rank, step in rows]
    if label is not None:
        wrong += check_buckets(document, label["buckets"]) + check_label(document, label)
    return wrong + not_adding_up(document["steps"]) + check_ledger(document)


def compare_case(row: dict[str, Any], values: dict[str, float | None], where: str) -> list[str]:
    """Return the values of a case, in µs, that a row of the report does not have."""
    return [
        f"{where} {name}: {row.get(NAMES_OF_CASES[name])} is not {value} µs"
        for name, value in values.items()
        if name in NAMES_OF_CASES
        and differs(row.get(NAMES_OF_CASES[name], -1), None if value is None else value * 1000)
    ]


def check_case(folder: Path, known: dict[str, Any]) -> list[str]:
    """Return what differs from the figures that a case states for ranks, steps and patterns."""
    document = report(folder)
    if document is None:
        return ["no report"]
    by_rank = {str(row["rank"]): row for row in document["steps"] if not row["partial"]}
    wrong = []
    for rank, values in known.get("ranks", {}).items():
        wrong += compare_case(by_rank.get(rank, {}), values, f"rank {rank}")
    for row, values in zip(document["steps"], known.get("by_process", {}).values(), strict=False):
        wrong += compare_case(row, values, f"rank {row['rank']}")
    warned = [w for w in document["run"]["warnings"] if w["code"] == "nsys_diagnostic"]
    if len(warned) != known.get("warnings", len(warned)):
        wrong.append(f"{len(warned)} warnings of nsys are not {known['warnings']}")
    for place, values in known.get("per_step", {}).items():
        rows = [row for row in document["steps"] if row["rank"] == 0]
        wrong += compare_case(rows[int(place)], values, f"step {place}")
    if "default" in known:
        wrong += compare_case(by_rank.get("0", {}), known["default"], "default")
        taught = report(folder, "--comm-kernel", COLLECTIVES_OF_CASES) or {"steps": [{}]}
        wrong += compare_case(taught["steps"][0], known["with_pattern"], "with pattern")
    wrong += check_collectives(document, known) + check_ledger(document)
    return wrong + not_adding_up(document["steps"])


def check_collectives(document: dict[str, Any], known: dict[str, Any]) -> list[str]:
    """Return what differs from the collectives that a case states: waits, sizes, who is late."""
    rows = document["collectives"]
    matched = [each for each in rows if each["transfer_ns"] is not None]
    late = document["stragglers"] or {}
    found: dict[str, Any] = {
        "pairs": len(matched),
        "unmatched": document["run"]["unmatched_collectives"],
        "bytes": [each["size_bytes"] for each in rows],
        "total_bytes": sum(each["size_bytes"] or 0 for each in rows),
        "straggler": late.get("rank"),
        "late_us": (late.get("late_ns") or 0) / 1000,
        "cause": late.get("cause"),
        "transfer_us": sum(each["transfer_ns"] for each in matched) / 1000,
        "wait_us": {
            str(rank): sum(
                one["wait_ns"] for each in matched for one in each["ranks"] if one["rank"] == rank
            )
            / 1000
            for rank in document["run"]["ranks"]
        },
    }
    return [
        f"{name}: {found[name]} is not {value}"
        for name, value in known.items()
        if name in found and found[name] != value
    ]


def check_judged(folder: Path, known: dict[str, Any]) -> list[str]:
    """Return what differs from how a case says that two runs compare: exit code and ratio."""
    command = [sys.executable, "-m", "ddptrace", "check", str(folder / "current"), "--baseline"]
    command += [str(folder / "baseline"), "--fail-on", LIMIT_OF_CASES, "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    code = 2 if not known.get("comparable", True) else 0 if known["pass"] else 1
    if done.returncode != code or not done.stdout:
        return [f"exit {done.returncode} is not {code}: {done.stderr or done.stdout[:500]!r}"]
    change = json.loads(done.stdout)["limits"][0]["change_ratio"]
    wanted = known.get("change_pct")
    if wanted is not None and (change is None or abs(100 * change - wanted) > TOLERANCE_PERCENT):
        return [f"change: {change} is not {wanted} %"]
    return []


def check_refused(run: Path, words: str) -> list[str]:
    """Return what is wrong with how a run is refused: one line with these words, and exit 2."""
    command = [sys.executable, "-m", "ddptrace", "report", str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    one_line = done.stderr.count("\n") == 1 and not done.stdout
    if done.returncode == 2 and one_line and words in done.stderr:
        return []
    return [f"exit {done.returncode}, stderr {done.stderr!r}"]


def is_judged(known: dict[str, Any]) -> bool:
    """Tell whether a case says how one run stands against another one."""
    return "pass" in known or known.get("comparable") is False


def check_sweep(shared: Path, recording: str) -> list[str]:
    """Return what one recording predicts wrongly of the measured steps with other bucket caps."""
    text = (shared / "traces" / "sweep.json").read_text(encoding="utf-8")
    known = {float(cap): step_ms * 1e6 for cap, step_ms in json.loads(text)["shm"].items()}
    folder = shared / "traces" / "h200x2-torch" / recording
    caps = ",".join(f"{cap:g}" for cap in known)
    command = [sys.executable, "-m", "ddptrace", "whatif", str(folder), "--json", "-"]
    command += ["--bucket-cap-mb", caps]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return [f"exit {done.returncode}, stderr {done.stderr!r}"]
    found = json.loads(done.stdout)
    rows = {one["bucket_cap_mb"]: one for one in found["predictions"]}
    off = {cap: abs(rows[cap]["step_ns"] / step_ns - 1) for cap, step_ns in known.items()}
    wrong = [
        f"cap {cap:g}: {step_ns:.0f} is in no interval"
        for cap, step_ns in known.items()
        if not rows[cap]["low_ns"] <= step_ns <= rows[cap]["high_ns"]
    ]
    if median(off.values()) > MEDIAN_OFF or max(off.values()) > WORST_OFF:
        wrong.append(f"off by {median(off.values()):.3f} in the median, {max(off.values()):.3f}")
    chosen = known[found["best"]["bucket_cap_mb"]] / min(known.values()) - 1
    if chosen > CHOSEN_OFF:
        wrong.append(f"the best cap is {found['best']['bucket_cap_mb']}, {chosen:.3f} off the best")
    return wrong


def has_figures(known: dict[str, Any]) -> bool:
    """Tell whether a case states figures of steps, which is what has landed so far."""
    figures = ("ranks", "per_step", "default", "by_process", "pairs", "straggler", "bytes")
    return any(key in known for key in figures)


def main(shared: Path) -> int:
    """Compare everything, print a line a set, and return the exit code."""
    sets = json.loads((shared / "traces" / "expected.json").read_text(encoding="utf-8"))
    labels = json.loads((shared / "traces" / "labels.json").read_text(encoding="utf-8"))
    outcomes: dict[str, list[str] | None] = {}
    for name, known in sets.items():
        folder = shared / "traces" / name
        label = labels.get(name, labels.get(name.removeprefix("h200x2-torch/")))
        outcomes[f"traces/{name}"] = check_set(folder, known, label)
    for path in sorted((shared / "cases").glob("*/expected.json")):
        known = json.loads(path.read_text(encoding="utf-8"))
        outcomes[f"cases/{path.parent.name}"] = (
            check_judged(path.parent, known)
            if is_judged(known)
            else check_case(path.parent, known)
            if has_figures(known)
            else None
        )
    for name, words in REFUSED.items():
        outcomes[name] = check_refused(shared / name, words)
    for recording in SWEPT:
        outcomes[f"sweep.json from {recording}"] = check_sweep(shared, recording)
    for name, wrong in outcomes.items():
        print(f"{'not yet' if wrong is None else 'WRONG' if wrong else 'ok':8}{name}")
        for line in wrong or []:
            print(f"        {line}")
    failed = sum(bool(wrong) for wrong in outcomes.values())
    passed = sum(wrong == [] for wrong in outcomes.values())
    print(
        f"known values: {passed} sets ok, {failed} wrong, {len(outcomes) - passed - failed} not yet"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
