"""Wakes the recorder in a Python process that `ddptrace capture` started.

Python imports this by its name when the folder is first on PYTHONPATH. It must never be the reason
for which a process does not start, and an existing `sitecustomize` runs as if this were not here.
"""

import importlib
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs 10 ms


def _chain() -> None:
    """Import the `sitecustomize` that would have been found without this folder."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]  # noqa: PTH100
    ours = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


def _package() -> None:
    """Make `ddptrace_capture` importable, also where it is not installed, without sys.path."""
    if "ddptrace_capture" in sys.modules:
        return
    folder = os.path.dirname(_HERE)  # noqa: PTH120
    spec = importlib.util.spec_from_file_location(
        "ddptrace_capture",
        os.path.join(folder, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[folder],
    )
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["ddptrace_capture"] = module
    spec.loader.exec_module(module)


def _wake() -> None:
    try:
        _package()
        wake = importlib.import_module("ddptrace_capture.wake")
        wake.at_start()
    except Exception as error:
        sys.stderr.write(f"ddptrace: no recording in this process: {error!r}\n")


if os.environ.get("DDPTRACE_CAPTURE"):
    _wake()
_chain()
