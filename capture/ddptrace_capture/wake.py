"""Waits in a fresh Python process until torch is imported, then puts the recorder there."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from ddptrace_capture import options as options_
from ddptrace_capture import rank_record


def at_start() -> None:
    """Arrange for the recorder to be there once the process has imported torch."""
    options = options_.from_environment(os.environ)
    if options is None:
        return
    if options.profiler == "nsys":
        from ddptrace_capture import nsys_rank

        nsys_rank.give_back_stdout()
        nsys_rank.run_under_nsys(options)
    rank_record.note_process(options.output, "python")
    if "torch" in sys.modules:
        _start()
    else:
        sys.meta_path.insert(0, _TorchFinder())


def _start() -> None:
    """Put the recorder into this process; whatever goes wrong is a line, not an error."""
    try:
        from ddptrace_capture.recorder import Recorder

        options = options_.from_environment(os.environ)
        if options is not None:
            rank_record.note_process(options.output, "torch")
            Recorder(options)
    except Exception as error:
        sys.stderr.write(f"ddptrace: no recording in this process: {error!r}\n")


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch as everybody else does, and starts the recorder when its import is done."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return torch's own spec with a loader around its loader; None for anything else."""
        if fullname != "torch":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenStart(spec.loader, self)
        return spec


class _ThenStart(importlib.abc.Loader):
    """Runs a module with its own loader, which it then has as if this had never been."""

    def __init__(self, loader: importlib.abc.Loader, finder: _TorchFinder) -> None:
        self._loader = loader
        self._finder = finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Return what the module's own loader makes."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then start the recorder."""
        # Not when the module is found: many only ask whether torch is there.
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _start()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever torch's loader has
        return getattr(self._loader, name)
