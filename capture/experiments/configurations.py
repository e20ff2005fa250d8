"""What is compared: the rows of the experiment, and nothing that needs torch."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import product
from typing import Literal

MIB = 2**20
SHAPES = ((48, MIB), (12, 4 * MIB))  # branches, bytes of one: 48 MiB a rank either way
CAPS = (4 * MIB, 16 * MIB, 64 * MIB)


@dataclass(frozen=True)
class Configuration:
    """One row; sizes are in bytes, `skips` says in which steps one branch is left out."""

    name: str
    branches: int
    branch_bytes: int
    cap_bytes: int
    spin_cycles: int = 0
    find_unused_parameters: bool = False
    static_graph: bool = False
    skips: Literal["never", "every second step", "always"] = "never"

    def skipped_branch(self, step: int) -> int | None:
        """Return the branch that this step leaves out, the same one on every rank."""
        skipping = self.skips == "always" or (self.skips == "every second step" and step % 2 == 0)
        return self.branches // 2 if skipping else None


def all_configurations(spin_cycles: int, shrink: int) -> list[Configuration]:
    """Return the matrix, then the rows with options of DDP's own; sizes are divided by `shrink`."""
    plain = [_plain(*row) for row in product(SHAPES, (0, spin_cycles), CAPS)]
    return [_shrunk(row, shrink) for row in plain + _special()]


def chosen(rows: list[Configuration], patterns: Iterable[str]) -> list[Configuration]:
    """Return the rows that match any pattern, or refuse a pattern that matches none."""
    for pattern in patterns:
        if not any(fnmatch(row.name, pattern) for row in rows):
            names = ", ".join(row.name for row in rows)
            raise ValueError(f"no configuration is named {pattern}; there are {names}")
    return [row for row in rows if any(fnmatch(row.name, pattern) for pattern in patterns)]


def _plain(shape: tuple[int, int], cycles: int, cap_bytes: int) -> Configuration:
    branches, branch_bytes = shape
    name = f"{branches}x{branch_bytes // MIB}-cap{cap_bytes // MIB}" + ("-spin" if cycles else "")
    return Configuration(name, branches, branch_bytes, cap_bytes, cycles)


def _special() -> list[Configuration]:
    base = _plain((12, 4 * MIB), 0, 4 * MIB)
    dynamic = replace(base, find_unused_parameters=True, skips="every second step")
    return [
        replace(base, name="static-graph", static_graph=True),
        replace(dynamic, name="dynamic-unused"),
        replace(base, name="undetected-unused", skips="always"),
    ]


def _shrunk(row: Configuration, shrink: int) -> Configuration:
    return replace(row, branch_bytes=row.branch_bytes // shrink, cap_bytes=row.cap_bytes // shrink)
