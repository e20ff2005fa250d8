"""How a run was set up and recorded: what has to be alike before its times are compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ddptrace.check.figures import Fact
from ddptrace.check.result import FactDifference
from ddptrace.compare.cautions import slow_switches
from ddptrace.compare.facts import figures_from, profilers, version_of
from ddptrace.errors import UsageError
from ddptrace.manifest import Manifest, RankFacts
from ddptrace.model import Run
from ddptrace.report import Report
from ddptrace.wording import one_line

_VERSION = "_version"
_TOOLS = ("ddptrace", "nsys")
_CUDA_OF_DRIVER = "cuda_of_driver"
_NAMES = (
    *("gpu", "world_size", "ranks", "backend", "measured", "profiler", "recorded", "options"),
    *("step_mark", "buckets", _CUDA_OF_DRIVER),
)
_USUAL_VERSIONS = ("torch", "cuda", "nccl", "driver", "python")


def of_report(report: Report, ranks: list[int]) -> dict[str, Fact]:
    """Return the fingerprint of a run of which a report tells; what is not known is not there.

    `ranks` are those of which steps count.
    """
    run = report.run
    sizes = [bucket.size_bytes for bucket in report.buckets if bucket.size_bytes is not None]
    return _known(
        {
            "gpu": run.device,
            "world_size": run.world_size,
            "ranks": ranks,
            "backend": run.backend,
            "measured": run.measured,
            **_versions(run.versions),
            "profiler": profilers(report),
            "recorded": figures_from(report),
            "options": slow_switches(report),
            "step_mark": None if run.settings is None else _step_mark(run.settings.options),
            "buckets": sizes if sizes and len(sizes) == len(report.buckets) else None,
        }
    )


def of_run(run: Run, report: Report, ranks: list[int]) -> dict[str, Fact]:
    """Return the fingerprint of a run: that of its report, and the GPUs of all its ranks."""
    told = [trace.facts.device_name for trace in run.traces]
    return of_report(report, ranks) | _known({"gpu": _gpus(told) or report.run.device})


def of_manifest(manifest: Manifest, ranks: Sequence[int]) -> dict[str, Fact]:
    """Return the fingerprint of a run of which only the recorder tells: of the ranks with times."""
    told = [facts for facts in manifest.ranks if facts.rank in ranks]
    return _known(
        {
            "gpu": _gpus([facts.device for facts in told]),
            "world_size": manifest.world_size,
            "ranks": list(ranks),
            "backend": next((facts.backend for facts in told if facts.backend), None),
            **_versions(manifest.versions),
            "step_mark": _step_mark(manifest.options),
            "buckets": next((sizes for facts in told if (sizes := _bucket_sizes(facts))), None),
        }
    )


def _bucket_sizes(facts: RankFacts) -> list[int]:
    """Return the buckets that DDP's modules have now, in their order."""
    now = [module.rebuilt_bucket_bytes or module.initial_bucket_bytes for module in facts.ddp]
    return [size for sizes in now for size in sizes]


def _gpus(told: Sequence[str | None]) -> str | None:
    """Return the names of all GPUs of a run, which may be of several models."""
    return ", ".join(sorted({name for name in told if name})) or None


def _versions(told: Mapping[str, str]) -> dict[str, Fact]:
    """Return the versions of what a step is made by, by name.

    Of the driver some files tell its own version, others which CUDA it can run.
    """
    found: dict[str, Fact] = {}
    for name, word in told.items():
        if name not in _TOOLS:
            is_own = version_of(name, word) == name
            found[f"{name}{_VERSION}" if is_own else _CUDA_OF_DRIVER] = word
    return found


def _step_mark(options: Mapping[str, Any]) -> str | None:
    """Return what ended a step in a capture; None where nothing tells of a capture."""
    if "step_mark" not in options:
        return None
    return one_line(options["step_mark"] or "optimizer")


def _known(facts: Mapping[str, Fact | None]) -> dict[str, Fact]:
    return {name: value for name, value in facts.items() if value is not None}


def differences(
    baseline: Mapping[str, Fact], current: Mapping[str, Fact], allowed: Collection[str]
) -> list[FactDifference]:
    """Return what two fingerprints differ in, or only one of them tells.

    What only one tells makes no runs unlike, and what neither tells is not there.
    """
    names = dict.fromkeys((*baseline, *current))
    return [
        FactDifference(name, baseline.get(name), current.get(name), name in allowed)
        for name in names
        if baseline.get(name) != current.get(name)
    ]


def check_names(allowed: Collection[str], told: Collection[str]) -> None:
    """Raise UsageError for a name that is neither told of any run nor ever told."""
    known = dict.fromkeys((*_NAMES, *(f"{each}{_VERSION}" for each in _USUAL_VERSIONS), *told))
    for name in sorted(set(allowed) - known.keys()):
        close = get_close_matches(name, known, n=1, cutoff=0.5)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"--allow {one_line(name)[:40]}: no such name{meant} ({', '.join(known)})")


def is_unlike(difference: FactDifference) -> bool:
    """Tell whether a difference forbids to compare."""
    both = None not in (difference.baseline, difference.current)
    return both and not difference.allowed
