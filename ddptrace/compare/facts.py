"""What two runs differ in beside their times: ranks, device, versions, options, DDP, buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from ddptrace.metrics.recording import figures_part
from ddptrace.report import Report

Side: TypeAlias = Literal["a", "b"]
Facts: TypeAlias = Mapping[str, Any]

_FIRST_DRIVER = 100  # drivers have had numbers above it for longer than CUDA has


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is not the same in two runs: `what` in `topic`, and its value in each."""

    topic: str
    what: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something of which a run tells nothing: all of a topic where `what` is None."""

    topic: str
    what: str | None
    runs: list[Side]


def compared(a: Report, b: Report) -> tuple[list[Change], list[Unknown]]:
    """Return what differs between two runs, and what is not known of one of them or of both."""
    first, second = _topics(a), _topics(b)
    changed: list[Change] = []
    unknown: list[Unknown] = []
    for topic, mine in first.items():
        other = second[topic]
        changed += [
            Change(topic, what, mine[what], other[what])
            for what in mine
            if what in other and mine[what] != other[what]
        ]
        unknown += _unknown(topic, mine, other)
    return changed, unknown


def _unknown(topic: str, a: Facts, b: Facts) -> list[Unknown]:
    lacking: list[Side] = [side for side, facts in _sides(a, b) if not facts]
    if lacking:
        return [Unknown(topic, None, lacking)]
    names = dict.fromkeys((*a, *b))
    found = ((name, [side for side, facts in _sides(a, b) if name not in facts]) for name in names)
    return [Unknown(topic, name, runs) for name, runs in found if runs]


def _sides(a: Facts, b: Facts) -> tuple[tuple[Side, Facts], tuple[Side, Facts]]:
    return ("a", a), ("b", b)


def _topics(report: Report) -> dict[str, Facts]:
    """Return what is known of a run, by topic; what is not known is not there."""
    run = report.run
    told = run.settings
    return {
        "run": _known(
            {
                "world_size": run.world_size,
                "ranks": run.ranks,
                "device": run.device,
                "backend": run.backend,
            }
        ),
        "command": {} if told is None else _known({"command": told.command or None}),
        "versions": {version_of(name, word): word for name, word in run.versions.items()},
        "ddp": _ddp(report),
        "buckets": _buckets(report),
        "recording": _recording(report),
        "options": {} if told is None else dict(told.options),
        "steps": _known({"counted_steps": report.summary.counted_steps}),
    }


def _known(facts: Facts) -> Facts:
    return {name: value for name, value in facts.items() if value is not None}


def version_of(name: str, word: str) -> str:
    """Return what a version is of: of the driver some files tell only which CUDA it can run."""
    major = word.split(".")[0]
    is_cuda = name == "driver" and major.isdecimal() and int(major) < _FIRST_DRIVER
    return "CUDA that the driver runs" if is_cuda else name


def _ddp(report: Report) -> Facts:
    """Return the settings of DDP: of its only module by their names, of several with a number."""
    modules = [] if report.run.settings is None else report.run.settings.ddp
    found: dict[str, Any] = {}
    for number, module in enumerate(modules):
        of = f" of module {number}" if modules[1:] else ""
        told = {name: value for name, value in asdict(module).items() if value is not None}
        found |= {f"{name}{of}": value for name, value in told.items()}
        found[f"comm_hook{of}"] = module.comm_hook or "none told"
    return found


def _buckets(report: Report) -> Facts:
    facts = report.run.buckets
    if facts is None:
        return {}
    sizes = [bucket.size_bytes for bucket in report.buckets]
    return _known(
        {
            "count": facts.count,
            "total_bytes": facts.total_bytes,
            "sizes": None if None in sizes or not sizes else sizes,
        }
    )


def _recording(report: Report) -> Facts:
    told = report.run.settings
    return _known(
        {
            "profiler": profilers(report),
            "figures_from": figures_from(report),
            "switches": None if told is None else told.switches,
        }
    )


def profilers(report: Report) -> str:
    """Return which profilers recorded the steps that figures come from, as words."""
    if figures_part(report.run.parts) == "figures":
        return "torch.profiler"  # nothing else records such a part
    names = {"kineto": "torch.profiler", "nsys": "Nsight Systems"}
    return " and ".join(sorted({names[source] for source in report.run.sources.values()}))


def figures_from(report: Report) -> str:
    """Return what was recorded of the steps that figures come from, as words."""
    if report.run.measured == "host":
        return "a CPU run"
    giving = [part for part in report.run.parts or () if "steps" in part.gives]
    only_gpu = bool(giving) and all(part.activities == ["cuda"] for part in giving)
    return "GPU activities only" if only_gpu else "full recordings"
