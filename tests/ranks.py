"""Collectives of several ranks stated as a table, and what the report says of them."""

from __future__ import annotations

from traces import run, trace

from ddptrace import analyze
from ddptrace.model import Group

PAIR = Group("0", (0, 1), 2)
FOUR = Group("0", (0, 1, 2, 3), 4)
ALL = 10**9


def rank(number, *rows, **options):
    """State a rank of whose rows the comm ones are of the group of all ranks, if not said."""
    return trace(*rows, rank=number, **options)


def comm(start, end, *more, **told):
    """State a comm operation; see `traces.trace` for what can be told of it."""
    return ("comm", start, end, *more, told)


def report(*traces, world_size=None):
    return analyze(run(*traces, world_size=world_size))


def waits(made, key=lambda each: each.order) -> dict[int, dict[int, int | None]]:
    """Return the waits in µs of each rank by the collectives' order."""
    return {
        key(each): {
            one.rank: None if one.wait_ns is None else one.wait_ns // 1000 for one in each.ranks
        }
        for each in made.collectives
    }


def matched(made) -> list[dict[int, tuple[int, int]]]:
    """Return for each matched collective start and end of each rank, in µs of the report."""
    return [
        {one.rank: (one.start_ns // 1000, one.end_ns // 1000) for one in each.ranks}
        for each in made.collectives
        if each.transfer_ns is not None
    ]
