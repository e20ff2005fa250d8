"""The checks of the project, each in an environment that it makes itself."""

from __future__ import annotations

import os
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["test", "lint", "wheel"]

# A build for CPUs is enough and much smaller; say where yours comes from with pip's own settings.
TORCH = os.environ.get("DDPTRACE_TORCH", "torch==2.13.0")
PROJECT = nox.project.load_toml("pyproject.toml")


def _group(name: str) -> list[str]:
    return nox.project.dependency_groups(PROJECT, name)


@nox.session
def test(session: nox.Session) -> None:
    """Run all tests with coverage, torch (CPU) included."""
    session.install("--quiet", "--editable", ".", *_group("test"), TORCH)
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", *session.posargs)
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and the direction of imports."""
    session.install("--quiet", "--editable", ".", *_group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the wheel, install it alone and use it."""
    session.install("--quiet", "build")
    folder = Path(session.create_tmp())
    session.run("python", "-m", "build", "--wheel", "--outdir", str(folder), silent=True)
    newest = max(folder.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    session.install("--quiet", "--force-reinstall", str(newest))
    with session.chdir(folder):
        session.run("ddptrace", "--version")
        session.run("python", "-c", "import ddptrace_capture")
