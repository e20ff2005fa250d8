"""Which commit and branch a run is of: as told, else from the CI system, else from git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA")
_BRANCHES = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME")
_GIT_S = 10


@dataclass(frozen=True, slots=True)
class Revision:
    """A commit and its branch; None where nobody tells."""

    commit: str | None
    branch: str | None


def revision(commit: str | None, branch: str | None) -> Revision:
    """Return the revision of the run that is added: what is given comes first.

    A pull request's branch is its own (`GITHUB_HEAD_REF`), not the name of its merge.
    """
    return Revision(
        commit=commit or _first(os.environ, _COMMITS) or _git("rev-parse", "HEAD"),
        branch=branch
        or _first(os.environ, _BRANCHES)
        or _git("symbolic-ref", "--quiet", "--short", "HEAD"),
    )


def _first(told: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((told[name] for name in names if told.get(name)), None)


def _git(*words: str) -> str | None:
    """Return what git prints here; None without git, outside a repository, or on no branch."""
    try:
        done = subprocess.run(
            ["git", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=_GIT_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return (done.stdout.strip() or None) if done.returncode == 0 else None
