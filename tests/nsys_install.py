"""Installations of Nsight Systems made of shell scripts."""

from __future__ import annotations

SAYS_ITS_VERSION = 'echo "NVIDIA Nsight Systems version {}-abc123v0"'


def script(path, body):
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def fake_nsys(folder, version="2025.3.2.474", then="exit 99"):
    """Put an nsys into a folder: it says its version, and else does what `then` says."""
    first = f'if [ "$1" = --version ]; then {SAYS_ITS_VERSION.format(version)}; exit 0; fi'
    return script(folder / "target-linux-x64/nsys", f"{first}\n{then}")


def fake_importer(folder, lacking=None):
    """Put the importer beside an nsys; like a program, it does not start without its libraries."""
    error = "error while loading shared libraries"
    fails = f'echo "$0: {error}: {lacking}: cannot open shared object file" >&2; exit 127'
    return script(folder / "host-linux-x64/QdstrmImporter", fails if lacking else "exit 0")
