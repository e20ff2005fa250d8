"""Nsight Systems: which nsys, its command lines, and the SQLite file of a report."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from ddptrace_capture.errors import NsysError

_ROOT = Path("/")
_INSTALLED = (
    "opt/nvidia/nsight-systems*",
    "usr/local/cuda*",
    "usr/lib/nsight-systems",
    "usr/local",
    "opt/nvidia/nsight-compute",
)
_INSIDE = (
    "nsys",
    "bin/nsys",
    "target-linux-*/nsys",
    "*/bin/nsys",
    "*/target-linux-*/nsys",  # of one version, or the folder `host` of Nsight Compute
    "*/host/target-linux-*/nsys",
)
_IMPORTERS = ("host-linux-*/QdstrmImporter", "linux-desktop-*/QdstrmImporter")
_NOT_FOUND = (
    "nsys is not on the PATH and not where it is usually installed; install Nsight Systems "
    "(developer.nvidia.com/nsight-systems; the package nsight-systems of NVIDIA's repositories and "
    "of Debian's non-free), or name one with --nsys PATH: Nsight Compute has one in "
    "host/target-linux-x64"
)
_PACKAGES = {
    "libbz2.so.1.0": "libbz2-1.0",
    "libdw.so.1": "libdw1",
    "libelf.so.1": "libelf1",
    "liblzma.so.5": "liblzma5",
    "libssh.so": "libssh-4",
    "libssh.so.4": "libssh-4",
    "libzstd.so.1": "libzstd1",
}
_NEEDED_BY_LIBDW = "libelf1 libbz2-1.0 liblzma5 libzstd1"
_PAYLOADS = ("--include-blobs=true", "--include-json=true")
_QUICK_S = 60


def find_nsys(given: str | None = None) -> Path:
    """Return an nsys that starts: the given one, else the one on the PATH, else the newest.

    What is given is the program, or a folder of Nsight Systems or Nsight Compute.
    """
    found = list(_given(given) if given is not None else _candidates())
    for nsys in found:
        if version(nsys) is not None:
            return nsys.absolute()
    if found:
        raise NsysError(f"{found[0]}: does not start (try it with --version); name another one")
    if given is not None:
        raise NsysError(
            f"--nsys {given}: no nsys there; name the program, or the folder of Nsight Systems or "
            f"Nsight Compute"
        )
    raise NsysError(_NOT_FOUND)


def _given(given: str) -> Iterator[Path]:
    path = Path(given).expanduser()
    if path.is_dir():
        yield from _newest_first(_inside(path))
    elif path.is_file():
        yield path
    elif os.sep not in given and (on_path := shutil.which(given)):
        yield Path(on_path)


def _candidates() -> Iterator[Path]:
    # The nsys of a CUDA toolkit may be a script whose Nsight Systems is not there: hence several.
    if on_path := shutil.which("nsys"):
        yield Path(on_path)
    bases = (base for pattern in _INSTALLED for base in sorted(_ROOT.glob(pattern)))
    yield from _newest_first(path for base in bases for path in _inside(base))


def _inside(folder: Path) -> Iterator[Path]:
    found = (path for pattern in _INSIDE for path in sorted(folder.glob(pattern)))
    return (path for path in found if path.is_file() and os.access(path, os.X_OK))


def _newest_first(paths: Iterator[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: numbers(_dated(str(path)) or ""), reverse=True)


def _dated(text: str) -> str | None:
    found = re.search(r"(?<![\d.])20\d\d(?:\.\d+)+", text)
    return found[0] if found else None


def numbers(dotted: str) -> tuple[int, ...]:
    """Return a version such as 2025.3.1 as numbers that compare."""
    return tuple(int(digits) for digits in re.findall(r"\d+", dotted))


def version(nsys: Path) -> str | None:
    """Return the version of an nsys, such as 2025.3.2.474; None when it does not start."""
    done = run([nsys, "--version"])
    return _dated(done.stdout) if done.returncode == 0 else None


def newest_cuda(nsys: Path) -> tuple[int, ...] | None:
    """Return the newest CUDA whose kernels an nsys can record: that of the newest CUPTI it has."""
    folders = {nsys.parent, nsys.resolve().parent, *nsys.parent.parent.glob("target-linux-*")}
    names = (path.name for folder in folders for path in folder.glob("libcupti.so.*"))
    found = [re.fullmatch(r"libcupti\.so\.(\d\d\.\d+)", name) for name in names]
    return max((numbers(match[1]) for match in found if match), default=None)


def importer(nsys: Path) -> Path | None:
    """Return the program that makes a report of what nsys collected."""
    real = nsys.resolve()
    sides = [nsys.parent.parent, real.parent.parent]
    if real.is_relative_to(_ROOT / "usr/lib"):  # Debian's packages tear the two apart
        sides.append(_ROOT / "usr/lib/nsight-systems")
    found = (path for side in sides for pattern in _IMPORTERS for path in side.glob(pattern))
    return next(found, None)


def missing_libraries(nsys: Path) -> list[str]:
    """Return the libraries for want of which nsys cannot make a report, such as libdw.so.1."""
    program = importer(nsys)
    if program is None:
        return []
    done = run([program, "--version"])
    if done.returncode == 0:
        return []
    # The loader stops at the first one; asked for a list, as ldd does it, it names all.
    listed = run([program], {**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"})
    named = re.findall(r"loading shared libraries: ([^\s:]+):", done.stderr)
    return sorted({*named, *re.findall(r"^\s*(\S+) => not found", listed.stdout, re.MULTILINE)})


def libraries_sentence(nsys: Path, missing: Sequence[str]) -> str:
    """Return what to do about missing libraries, in one sentence."""
    packages = sorted({_PACKAGES[name] for name in missing if name in _PACKAGES})
    install = f"apt-get install {' '.join(packages)} (Debian, Ubuntu), or " if packages else ""
    them = "it" if len(missing) == 1 else "them"
    also = f" and what is in {_NEEDED_BY_LIBDW}" if "libdw1" in packages else ""
    return (
        f"{nsys} cannot make a report without {', '.join(missing)}: "
        f"{install}put {them}{also} on LD_LIBRARY_PATH"
    )


def profile_command(nsys: Path, output: Path, program: Sequence[str]) -> list[str]:
    """Return the command that runs a program under nsys; `output` is the report without suffix.

    Its folder has to be there. Exit code, stdout and stderr are the program's, except that a
    signal to nsys ends both with 0. nsys puts the program into a session of its own.
    """
    return [
        str(nsys),
        "profile",
        "--trace=cuda,nvtx",
        "--sample=none",
        "--cpuctxsw=none",
        "--cuda-graph-trace=node",  # else a CUDA graph is one event, communication included
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop",
        "--wait=primary",  # not for what the job leaves running behind it
        "--force-overwrite=true",
        f"--output={str(output).replace('%', '%%')}",  # %h, %p and the like mean something to nsys
        *program,  # no -- before it: nsys takes that for an option
    ]


def export(nsys: Path, report: Path, sqlite: Path) -> None:
    """Make the SQLite file of a report: the whole of it, or NsysError and nothing."""
    partly = sqlite.with_name(f".partial-{sqlite.name}")
    options = list(_PAYLOADS)
    try:
        done = _export(nsys, report, partly, options)
        # Older ones do not know these; they are named one at a time.
        while unknown := [option for option in options if _is_unknown(option, done.stderr)]:
            options.remove(unknown[0])
            done = _export(nsys, report, partly, options)
        if done.returncode or not partly.is_file():
            raise NsysError(_export_problem(nsys, report, sqlite, done.stdout + done.stderr))
        partly.replace(sqlite)
    except OSError as error:
        raise NsysError(f"{sqlite}: cannot be written ({error.strerror})") from error
    finally:
        partly.unlink(missing_ok=True)


def _is_unknown(option: str, said: str) -> bool:
    name = re.escape(option.partition("=")[0])
    return re.search(rf"unrecogni[sz]ed option '?{name}", said) is not None


def _export(
    nsys: Path, report: Path, sqlite: Path, options: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    fixed = ["export", "--type=sqlite", "--quiet=true", "--force-overwrite=true"]
    return run([nsys, *fixed, *options, f"--output={sqlite}", report], seconds=None)


def _export_problem(nsys: Path, report: Path, sqlite: Path, said: str) -> str:
    other = re.search(r"Version number is invalid: ([\d@.]+)", said)
    if other or "newer than your current version" in said:
        by = f" {other[1].replace('@', '.')}" if other else ""
        return (
            f"{report}: recorded by nsys{by}, which {nsys} ({version(nsys)}) cannot read; name the "
            f"nsys that recorded it with --nsys PATH"
        )
    if "locked" in said or "unable to open database file" in said:
        return (
            f"{sqlite}: nsys cannot write SQLite there, which needs a file system with locks; "
            f"choose a folder on a local disk"
        )
    if "magic number" in said or "Cannot read from stream" in said:
        return f"{report}: the report is empty or cut short; record again, with room on the disk"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"{report}: nsys export failed: {lines[-1] if lines else 'it said nothing'}"


def run(
    command: Sequence[str | Path],
    environment: dict[str, str] | None = None,
    seconds: int | None = _QUICK_S,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return what it said; 127 when it does not start or end."""
    words = [str(word) for word in command]
    try:
        return subprocess.run(
            words, env=environment, timeout=seconds, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(words, 127, "", str(error))
