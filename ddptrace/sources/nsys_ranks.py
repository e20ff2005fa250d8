"""Which rank each process of an Nsight Systems report is, as far as the report tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from ddptrace.model import Warn
from ddptrace.sources.nsys_collectives import Payload, told_rank
from ddptrace.sources.nsys_ranges import RecorderMark
from ddptrace.sources.nsys_store import process_id
from ddptrace.wording import listed


@dataclass(frozen=True, slots=True)
class Identity:
    """A process, its rank and the world size; None where nothing tells."""

    process: int
    rank: int | None
    world_size: int | None


def identities(
    marks: Mapping[int, RecorderMark],
    variables: Mapping[str, int],
    payloads: Mapping[int, Sequence[Payload]],
) -> list[Identity]:
    """Return who the processes are that have these marks, in order of their ids.

    A process's rank is in our recorder's mark, else (of a lone process) in the environment of the
    launched command, else in what the collectives library says about its communicators.
    """
    from_library = _from_library(
        {process: told_rank(payloads.get(process, ())) for process in marks}
    )
    alone = variables if len(marks) == 1 else {}
    found = []
    for process, mark in sorted(marks.items()):
        library = from_library[process]
        found.append(
            Identity(
                process,
                rank=_first(mark.rank, alone.get("RANK"), library.rank),
                world_size=_first(mark.world_size, alone.get("WORLD_SIZE"), library.ranks),
            )
        )
    return [replace(one, world_size=None) if _is_odd(one) else one for one in found]


def _from_library(told: dict[int, Payload]) -> dict[int, Payload]:
    """Return what holds of communicators of all ranks: ranks of smaller ones come again."""
    ranks = [one.rank for one in told.values()]
    sizes = {one.ranks for one in told.values()}
    is_of_all = None not in ranks and len(set(ranks)) == len(ranks) and len(sizes) == 1
    return told if is_of_all else dict.fromkeys(told, Payload())


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _is_odd(one: Identity) -> bool:
    return one.world_size is not None and one.world_size <= (one.rank or 0)


def numbered(path: str, found: Sequence[Identity]) -> tuple[list[Identity], list[Warn]]:
    """Give processes of one report that tell no rank the free ones, in order of their ids.

    Where all ranks are taken a process is none, and left out. A lone process may be told by the
    manifest or by a name, so it stays as it is.
    """
    untold = [one for one in found if one.rank is None]
    if not untold or len(found) == 1:
        return list(found), []
    taken = {one.rank for one in found}
    size = max((one.world_size for one in found if one.world_size), default=None)
    numbers = count() if size is None else range(size)
    free = (rank for rank in numbers if rank not in taken)
    ranks = dict(zip((one.process for one in untold), free, strict=False))
    kept = [replace(one, rank=ranks.get(one.process, one.rank)) for one in found]
    return [one for one in kept if one.rank is not None], [
        *_about_numbers(path, ranks),
        *_about_others(path, [one.process for one in kept if one.rank is None]),
    ]


def _about_numbers(path: str, ranks: Mapping[int, int]) -> list[Warn]:
    if not ranks:
        return []
    said = listed([f"rank {rank} is process {process_id(one)}" for one, rank in ranks.items()])
    return [
        Warn(
            "rank_from_process_ids",
            f"{path}: nothing tells the ranks of {len(ranks)} of its processes, so they are "
            f"numbered in the order of their process ids ({said})",
        )
    ]


def _about_others(path: str, processes: Sequence[int]) -> list[Warn]:
    if not processes:
        return []
    ids = listed([str(process_id(process)) for process in processes])
    return [
        Warn(
            "process_left_out",
            f"{path}: all ranks of the run are other processes, so the GPU work of process {ids} "
            "was left out",
        )
    ]
