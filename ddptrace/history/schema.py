"""The tables of a history, and how each version of them becomes the next one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

APPLICATION = 0x64647048
"""SQLite's `application_id` of a history ("ddpH"), by which it is told from other databases."""

# Spelled out, since files keep the columns they were made with: a new figure is a new version.
FIGURES = (
    *("step_ns", "compute_ns", "compute_span_ns", "comm_ns", "hidden_comm_ns", "exposed_comm_ns"),
    *("mem_ns", "exposed_mem_ns", "idle_ns", "tail_ns", "first_comm_delay_ns"),
    *("exposed_wait_ns", "exposed_transfer_ns"),
)
"""The columns of a rank's medians over the recorded steps."""
PARTS = (
    *("compute_ns", "straggler_ns", "bucket_schedule_ns", "comm_bandwidth_ns", "comm_latency_ns"),
    *("comm_unknown_ns", "exposed_mem_ns", "input_stall_ns", "sync_wait_ns", "launch_bound_ns"),
    "idle_unknown_ns",
)
"""The parts of a rank's median step, which add up to it; their columns begin with `ledger_`."""
LEDGER = tuple(f"ledger_{name}" for name in ("step_ns", *PARTS))


def _integers(names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} integer" for name in names)


def _first(connection: sqlite3.Connection) -> None:
    """Make the tables."""
    for statement in (
        """create table runs (
            id integer primary key, digest text not null unique, added_at text not null,
            name text not null, commit_id text, branch text, fingerprint text not null,
            step_ns integer, counted_steps integer not null, timed_step_ns integer,
            timed_steps integer not null, tool text not null, document text not null
        )""",
        """create table tags (
            run_id integer not null references runs(id) on delete cascade, tag text not null,
            primary key (run_id, tag)
        )""",
        f"""create table ranks (
            run_id integer not null references runs(id) on delete cascade,
            rank integer not null, {_integers(FIGURES)}, timed_step_ns integer,
            ledger_step integer, {_integers(LEDGER)}, primary key (run_id, rank)
        )""",
        """create view run_ranks as
            select runs.added_at, runs.name, runs.commit_id, runs.branch,
                (select json_group_array(tag) from tags where tags.run_id = runs.id) as tags,
                runs.fingerprint, ranks.*
            from runs join ranks on ranks.run_id = runs.id""",
    ):
        connection.execute(statement)


def _second(connection: sqlite3.Connection) -> None:
    """Let a run begin anew: those before it are no longer compared with those after."""
    connection.execute("alter table runs add column starts_anew integer not null default 0")


_STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (_first, _second)

VERSION = len(_STEPS)
"""SQLite's `user_version` of a history as this version of ddptrace writes it."""


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables, or an empty database, to `VERSION`; to be called in a transaction."""
    before = version(connection)
    for step in _STEPS[before:]:
        step(connection)
    if before < VERSION:
        connection.execute(f"pragma application_id = {APPLICATION}")
        connection.execute(f"pragma user_version = {VERSION}")


def version(connection: sqlite3.Connection) -> int:
    """Return the version of the tables; 0 of an empty database."""
    return int(connection.execute("pragma user_version").fetchone()[0])
