"""`ddptrace doctor`: what this machine can record, and how to get what it lacks."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ddptrace_capture import machine, nsys, nsys_failures
from ddptrace_capture.errors import NsysError
from ddptrace_capture.options import OneLineParser

State: TypeAlias = Literal["ok", "missing", "note"]

_OLDEST_PYTHON = (3, 10)
_ENOUGH_BYTES = 2_000_000_000
_EACH_RANK = "3 steps take about 0.1 GB a rank, several times that with --with-stack"
_PIP_TORCH = "pip install torch (pytorch.org/get-started)"
_CUDA_TORCH = "install a build of torch for CUDA (pytorch.org/get-started)"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that recording needs; `remedy` says how to get it where it is missing."""

    name: str
    state: State
    detail: str
    remedy: str = ""


def check_machine(given_nsys: str | None = None, folder: Path = Path()) -> list[Check]:
    """Return all checks; none of them stops the others. The recording would go to `folder`."""
    torch = _imported("torch")
    checks: list[tuple[str, Callable[[], Iterator[Check]]]] = [
        ("Python", _python),
        ("torch", lambda: _torch(torch)),
        ("gloo", lambda: _gloo(torch)),
        ("driver", _driver),
        ("GPUs", lambda: _gpus(torch)),
        ("NCCL", lambda: _nccl(torch)),
        ("CUPTI", lambda: _cupti(torch)),
        ("nsys", lambda: _nsys(given_nsys)),
        ("permissions", _permissions),
        ("disk", lambda: _disk(folder)),
    ]
    return [check for name, look in checks for check in _safely(name, look)]


def _safely(name: str, look: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    try:
        yield from look()
    except Exception as error:
        yield Check(name, "missing", f"cannot be looked at: {_line(error)}")


def _imported(name: str) -> Any:  # noqa: ANN401 - torch, or the error that its import met
    try:
        return __import__(name)
    except Exception as error:
        return error


def _python() -> Iterator[Check]:
    state: State = "ok" if sys.version_info >= _OLDEST_PYTHON else "missing"
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("Python", state, f"{version} at {sys.executable}", _at_least(_OLDEST_PYTHON, state))


def _at_least(version: tuple[int, ...], state: State) -> str:
    return "" if state == "ok" else f"take {'.'.join(map(str, version))} or newer"


def _torch(torch: Any) -> Iterator[Check]:  # noqa: ANN401
    if isinstance(torch, ModuleNotFoundError):
        yield Check("torch", "missing", f"not installed for {sys.executable}", _PIP_TORCH)
    elif isinstance(torch, Exception):
        yield Check("torch", "missing", f"cannot be imported: {_line(torch)}", _PIP_TORCH)
    else:
        build = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "for CPUs only"
        yield Check("torch", "ok", f"{torch.__version__}, built {build}")


def _gloo(torch: Any) -> Iterator[Check]:  # noqa: ANN401
    if isinstance(torch, Exception):
        return
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_gloo_available():
        yield Check("gloo", "ok", "jobs on CPUs can be recorded")
    else:
        yield Check("gloo", "missing", "this torch is built without it", _PIP_TORCH)


def _driver() -> Iterator[Check]:
    version, cuda = machine.driver_version(), machine.driver_cuda()
    if version is None and cuda is None:
        yield Check("driver", "note", "no NVIDIA driver; only jobs on CPUs (gloo) can be recorded")
        return
    serves = f", serves CUDA {'.'.join(map(str, cuda))}" if cuda else ""
    yield Check("driver", "ok", f"NVIDIA {version or 'of unknown version'}{serves}")


def _gpus(torch: Any) -> Iterator[Check]:  # noqa: ANN401
    if isinstance(torch, Exception) or machine.driver_cuda() is None:
        return
    if not torch.version.cuda:
        yield Check("GPUs", "missing", "this torch is built for CPUs only", _CUDA_TORCH)
        return
    names = Counter(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    if names:
        yield Check("GPUs", "ok", ", ".join(f"{count} {name}" for name, count in names.items()))
        return
    remedy = "look at CUDA_VISIBLE_DEVICES, and start a container with --gpus all"
    yield Check("GPUs", "missing", "torch sees none", remedy)


def _nccl(torch: Any) -> Iterator[Check]:  # noqa: ANN401
    if isinstance(torch, Exception) or not torch.version.cuda:
        return
    if torch.distributed.is_available() and torch.distributed.is_nccl_available():
        yield Check("NCCL", "ok", ".".join(map(str, torch.cuda.nccl.version())))
    else:
        yield Check("NCCL", "missing", "this torch is built without it", _CUDA_TORCH)


def _cupti(torch: Any) -> Iterator[Check]:  # noqa: ANN401
    if isinstance(torch, Exception) or not torch.version.cuda or not torch.cuda.is_available():
        return
    if torch.profiler.ProfilerActivity.CUDA not in torch.profiler.supported_activities():
        yield Check("CUPTI", "missing", "this torch.profiler cannot record GPUs", _CUDA_TORCH)
    elif _records_a_kernel(torch):
        yield Check("CUPTI", "ok", "torch.profiler recorded a kernel")
    else:
        detail = "torch.profiler recorded no kernel of a test"
        yield Check("CUPTI", "missing", detail, _why_no_kernel())


def _why_no_kernel() -> str:
    if machine.counters_for_administrators() and os.geteuid() != 0:
        return nsys_failures.PERMISSION
    return "end other profilers of this GPU, such as nsys around this command or DCGM's profiling"


def _records_a_kernel(torch: Any) -> bool:  # noqa: ANN401
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch tells how a profiler is used again: this one is not
        with torch.profiler.profile(activities=activities) as recording:
            torch.ones(8, device="cuda").add_(1)
            torch.cuda.synchronize()
    return any(event.device_type.name == "CUDA" for event in recording.events())


def _nsys(given: str | None) -> Iterator[Check]:
    try:
        program = nsys.find_nsys(given)
    except NsysError as error:
        what, _, remedy = str(error).partition("; ")
        yield Check("nsys", "missing", f"{what}; torch.profiler does without", remedy)
        return
    if missing := nsys.missing_libraries(program):
        what, _, remedy = nsys.libraries_sentence(program, missing).partition(": ")
        yield Check("nsys", "missing", what, remedy)
    else:
        yield Check("nsys", "ok", f"{nsys.version(program)} at {program}")
    if nsys_failures.is_older_than_driver(program):
        what, _, remedy = nsys_failures.older_than_driver(program).partition(": ")
        yield Check("nsys", "note", f"{what}; kernels may be lacking", remedy)
    collects = Path(tempfile.gettempdir())
    if machine.free_bytes(collects) < _ENOUGH_BYTES:
        room = f"{_gb(machine.free_bytes(collects))} free in {collects}, where nsys collects"
        yield Check("nsys", "note", room, "set TMPDIR to a folder on a larger disk")


def _permissions() -> Iterator[Check]:
    only_administrators = machine.counters_for_administrators()
    if only_administrators and os.geteuid() != 0:
        detail = "GPU counters are for administrators; kernels are recorded without, as a rule"
        yield Check("permissions", "note", detail, f"if kernels lack, {nsys_failures.PERMISSION}")
    elif only_administrators is not None:
        yield Check("permissions", "ok", "the driver lets this user profile the GPU")
    if machine.sampling_is_limited():
        detail = "perf_event_paranoid keeps nsys from sampling CPUs, which capture does not ask for"
        yield Check("permissions", "note", detail)


def _disk(folder: Path) -> Iterator[Check]:
    place = machine.existing_parent(folder.absolute())
    free = machine.free_bytes(place)
    if not os.access(place, os.W_OK):
        yield Check("disk", "missing", f"{place} cannot be written", "choose a folder with -o DIR")
    elif free < _ENOUGH_BYTES:
        detail = f"{_gb(free)} free in {place}; {_EACH_RANK}"
        yield Check("disk", "note", detail, "choose a folder on a larger disk with -o DIR")
    else:
        yield Check("disk", "ok", f"{_gb(free)} free in {place}; {_EACH_RANK}")


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def recorders(checks: Sequence[Check]) -> list[str]:
    """Return what can record here: of a machine with GPUs, what can record these."""
    ok = {check.name for check in checks if check.state == "ok"}
    if not {"Python", "torch"} <= ok:
        return []
    if "GPUs" in ok:
        return ["torch.profiler (GPUs)"] * ("CUPTI" in ok) + ["nsys"] * ("nsys" in ok)
    return ["torch.profiler (CPUs, gloo)"] * ("gloo" in ok)


def render(checks: Sequence[Check]) -> str:
    """Return the checks as lines, each remedy below its check, and the outcome at the end."""
    width = max(len(check.name) for check in checks)
    margin = " " * (len("missing") + 2 + width + 2)
    lines = []
    for check in checks:
        lines.append(f"{check.state:<7}  {check.name:<{width}}  {check.detail}")
        if check.remedy:
            lines.append(f"{margin}-> {check.remedy}")
    can = " or ".join(recorders(checks)) or "nothing"
    return "\n".join([*lines, "", f"This machine can record with {can}."])


def main(words: Sequence[str]) -> int:
    """Print the checks; return 0 when something can record here, 2 when nothing can."""
    parser = OneLineParser(
        prog="ddptrace doctor",
        description="Say what this machine can record, and how to get what it lacks.",
        epilog="Exit code: 0 when torch and a way of recording are there, else 2.",
        allow_abbrev=False,
    )
    parser.add_argument("--nsys", metavar="PATH", help="the nsys to look at")
    parser.add_argument(
        "-o", "--output", default=".", metavar="DIR",
        help="the folder a recording would go to (default: the current one)",
    )  # fmt: skip
    given = parser.parse_args(list(words))
    checks = check_machine(given.nsys, Path(given.output))
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may hold what no terminal shows
    sys.stdout.write(f"{render(checks)}\n")
    return 0 if recorders(checks) else 2
