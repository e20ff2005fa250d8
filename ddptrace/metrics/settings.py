"""How a run was set up and recorded, as far as its files tell: what two runs may differ in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ddptrace.manifest import DdpModule, Manifest
from ddptrace.model import Run


@dataclass(frozen=True, slots=True)
class DdpSettings:
    """How a DistributedDataParallel module was set up; None is not told.

    `comm_hook` is None without one, too, which the recorder does not tell apart.
    """

    bucket_cap_bytes: int | None
    find_unused_parameters: bool | None
    static_graph: bool | None
    gradient_as_bucket_view: bool | None
    comm_hook: str | None


@dataclass(frozen=True, slots=True)
class Settings:
    """What was run, and how it was recorded.

    `switches` are the options of torch.profiler that were on while the steps were recorded that
    figures come from, as the files tell. The rest is what the manifest tells: `ddp` has an entry
    for each module of the lowest rank that tells any.
    """

    profiler: str | None = None
    command: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    switches: list[str] = field(default_factory=list)
    ddp: list[DdpSettings] = field(default_factory=list)


def settings(run: Run) -> Settings:
    """Return how a run was set up and recorded."""
    told = run.manifest or Manifest()
    modules = next((facts.ddp for facts in told.ranks if facts.ddp), ())
    return Settings(
        profiler=told.profiler,
        command=list(told.command),
        options=told.options,
        switches=_switches(run),
        ddp=[_of_module(module) for module in modules],
    )


def _switches(run: Run) -> list[str]:
    on: Iterable[tuple[str, ...]] = (trace.facts.switches for trace in run.figures)
    return sorted({name for names in on for name in names})


def _of_module(module: DdpModule) -> DdpSettings:
    return DdpSettings(
        bucket_cap_bytes=module.bucket_cap_bytes,
        find_unused_parameters=module.find_unused_parameters,
        static_graph=module.static_graph,
        gradient_as_bucket_view=module.gradient_as_bucket_view,
        comm_hook=module.comm_hook,
    )
