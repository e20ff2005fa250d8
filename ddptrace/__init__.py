"""Find out where the step of a PyTorch DDP job goes, from the traces of all its ranks.

`load_run(path)` reads the traces of a run, `analyze(run)` returns its `Report`, and
`predict(run, caps)` the step that it would take with other bucket caps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["DdptraceError", "Report", "Run", "Trace", "analyze", "load_run", "predict"]

if TYPE_CHECKING:
    from ddptrace.errors import DdptraceError
    from ddptrace.model import Run, Trace
    from ddptrace.report import Report, analyze
    from ddptrace.sources import load_run
    from ddptrace.whatif.predict import predict

_HOMES = {
    "DdptraceError": "ddptrace.errors",
    "Report": "ddptrace.report",
    "Run": "ddptrace.model",
    "Trace": "ddptrace.model",
    "analyze": "ddptrace.report",
    "load_run": "ddptrace.sources",
    "predict": "ddptrace.whatif.predict",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use: numpy alone would double the time of `--help`."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, those not imported yet too."""
    return sorted(__all__)
