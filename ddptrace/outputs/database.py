"""Tables as a SQLite database, ready for Datasette: keys, references, indexes and a view."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from sqlite_utils import Database

from ddptrace.outputs.tables import Table

VIEWS = {
    "collective_details": """
        select
          collective_ranks.id, collective_id, collectives.step, group_name, group_order, op,
          bucket, backward_pass, size_bytes, collective_ranks.rank, collective_ranks.start_ns,
          collective_ranks.end_ns, collective_ranks.end_ns - collective_ranks.start_ns
          as duration_ns, transfer_ns, wait_ns, hidden_ns, exposed_ns, queue_ns, blocked,
          blocked_ns, backlog, algbw_gb_s, busbw_gb_s, step_id, step_ns
        from collective_ranks
        join collectives on collectives.id = collective_id
        left join steps on steps.id = step_id
    """
}
"""Each rank's part in each collective, with what the collective was and how long the step took."""


def write_database(path: Path, tables: Sequence[Table]) -> None:
    """Write tables into a new database; each comes after those that it refers to."""
    # The file is thrown away if anything goes wrong, so nothing has to be undone or flushed.
    connection = sqlite3.connect(path)
    try:
        connection.execute("pragma journal_mode = off")
        connection.execute("pragma synchronous = off")
        connection.execute("pragma foreign_keys = on")
        _fill(Database(connection), tables)
        connection.commit()
    finally:
        connection.close()


def _fill(database: Database, tables: Sequence[Table]) -> None:
    keys = {table.name: table.key for table in tables}
    for table in tables:
        made = database.table(table.name)
        refers = [(column, other, keys[other]) for column, other in table.refers.items()]
        made.create(table.columns, pk=table.key, foreign_keys=refers)
        # Ten times as fast as insert_all, which looks at every value to find out its type.
        places = ", ".join("?" * len(table.columns))
        database.conn.executemany(f'insert into "{table.name}" values ({places})', table.rows)
        for column in (*table.refers, *table.lookups):
            made.create_index([column])
    for name, query in VIEWS.items():
        database.create_view(name, " ".join(query.split()))
