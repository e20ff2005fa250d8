"""All collectives of a run as columns: waiting and transfer, hidden and exposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray, Intervals
from ddptrace.metrics.comm_table import NONE, CommTable, Vocabulary, comm_table
from ddptrace.metrics.matching import Job, Matching, match
from ddptrace.metrics.recorded import Recorded

_LONGEST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """The collectives of a run; rows and ranks are those of `matching`.

    `start_ns` to `exposed_ns` have a column a rank, on the clock of its recording, -1 where it has
    no record. `transfer_ns` and `wait_ns` hold where `matching.is_matched`.
    """

    recordings: Mapping[int, Sequence[Recorded]]
    words: Vocabulary
    tables: Mapping[int, CommTable]
    matching: Matching
    step: IntArray
    operation: NDArray[np.int32]
    start_ns: IntArray
    end_ns: IntArray
    transfer_ns: IntArray
    wait_ns: IntArray
    hidden_ns: IntArray
    exposed_ns: IntArray

    @property
    def is_there(self) -> NDArray[np.bool_]:
        """Which ranks have a record of which collective."""
        there: NDArray[np.bool_] = self.matching.row != NONE
        return there

    def wide(self, columns: Mapping[int, NDArray[np.integer]]) -> NDArray[np.int64]:
        """Return columns of the ranks' tables as one with a column a rank; -1 for no record."""
        return _wide(self.matching, columns)


def collect(recordings: Mapping[int, Sequence[Recorded]], world_size: int | None) -> Collected:
    """Return the collectives of a run; each rank's recordings are in order of time."""
    words = Vocabulary()
    tables = {rank: comm_table(mine, words) for rank, mine in sorted(recordings.items())}
    sources = {rank: mine[0].trace.source for rank, mine in recordings.items()}
    found = match(tables, words, Job(sources, world_size))
    start_ns, end_ns, step, operation = (
        _wide(found, {rank: getattr(table, name) for rank, table in tables.items()})
        for name in ("start_ns", "end_ns", "step", "operation")
    )
    there = found.row != NONE
    duration_ns = np.where(there, end_ns - start_ns, _LONGEST)
    transfer_ns = duration_ns.min(axis=1, initial=_LONGEST)
    hidden = {rank: _hidden(recordings[rank], table) for rank, table in tables.items()}
    hidden_ns = _wide(found, hidden)
    return Collected(
        recordings=recordings,
        words=words,
        tables=tables,
        matching=found,
        step=step.max(axis=1, initial=NONE),
        operation=operation.max(axis=1, initial=NONE).astype(np.int32),
        start_ns=start_ns,
        end_ns=end_ns,
        transfer_ns=transfer_ns,
        wait_ns=np.where(there, duration_ns - transfer_ns[:, None], NONE),
        hidden_ns=hidden_ns,
        exposed_ns=np.where(there, end_ns - start_ns - hidden_ns, NONE),
    )


def _wide(found: Matching, columns: Mapping[int, NDArray[np.integer]]) -> NDArray[np.int64]:
    wide = np.full(found.row.shape, NONE, np.int64)
    for at, rank in enumerate(found.ranks):
        wide[:, at] = np.append(columns[rank], NONE)[found.row[:, at]]
    return wide


def _hidden(recordings: Sequence[Recorded], table: CommTable) -> IntArray:
    """Return how long compute ran during each operation."""
    hidden = np.zeros(len(table), np.int64)
    for number, one in enumerate(recordings):
        rows = table.recording == number
        hidden[rows] = one.busy.compute.length_in(table.start_ns[rows], table.end_ns[rows])
    return hidden


@dataclass(frozen=True, slots=True)
class Waits:
    """When the comm operations of one recording moved data, and when nobody can say whether.

    An operation waits at its front; `unmatched` are those of which it is not known how long.
    """

    transfer: Intervals
    unmatched: Intervals


def waits(collected: Collected, rank: int, recording: int) -> Waits:
    """Return when operations of one recording of a rank transferred."""
    found, table = collected.matching, collected.tables[rank]
    at = found.ranks.index(rank)
    known = found.is_matched & (found.row[:, at] != NONE)
    wait_ns = np.full(len(table), NONE, np.int64)
    wait_ns[found.row[known, at]] = collected.wait_ns[known, at]
    mine = table.recording == recording
    matched, unmatched = mine & (wait_ns != NONE), mine & (wait_ns == NONE)
    moving_ns = table.start_ns[matched] + wait_ns[matched]
    return Waits(
        transfer=Intervals.union_of(moving_ns, table.end_ns[matched]),
        unmatched=Intervals.union_of(table.start_ns[unmatched], table.end_ns[unmatched]),
    )
