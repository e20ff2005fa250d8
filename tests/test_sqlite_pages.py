"""Columns read from the pages of a file are those that SQLite gives."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddptrace.sources import sqlite_pages
from ddptrace.sources.nsys_sqlite import SqliteStore
from ddptrace.sources.sqlite_pages import NULL, UnusualError, read_header

_COLUMNS = ("a", "b", "c")
_LIMITS = [1 << bits for bits in (0, 7, 8, 15, 16, 23, 24, 31, 32, 47, 48, 62)]
_NEAR = [sign * (limit + by) for limit in _LIMITS for sign in (1, -1) for by in (-1, 0)]
_INTEGERS = st.one_of(st.none(), st.integers(-(2**63) + 1, 2**63 - 1), st.sampled_from(_NEAR))
_ROWS = st.lists(st.tuples(_INTEGERS, st.one_of(st.none(), st.text(max_size=50)), _INTEGERS))


def write(path, rows, *, page_bytes=4096, statements=(), declared="a, b, c"):
    """Write a table `t` beside others, whose rows lie between its own."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {page_bytes}")
        connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        connection.execute(f"CREATE TABLE t ({declared})")
        for number, row in enumerate(rows):
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO t VALUES ({marks})", row)
            if number % 100 == 0:
                connection.execute("INSERT INTO StringIds VALUES (?, ?)", (number, "x" * 2000))
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def from_pages(path, columns):
    """Return columns of `t` read from pages; UnusualError where SQLite should read them."""
    with closing(SqliteStore(path)) as store:
        return store._from_pages("t", columns)


def from_sqlite(path, columns):
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"SELECT {', '.join(columns)} FROM t").fetchall()
    return {
        name: [NULL if row[place] is None else row[place] for row in rows]
        for place, name in enumerate(columns)
    }


def assert_same(path, columns=("a", "c")):
    found = from_pages(path, columns)
    assert {name: column.tolist() for name, column in found.items()} == from_sqlite(path, columns)


@settings(max_examples=60, deadline=None)
@given(_ROWS, st.sampled_from([512, 1024, 4096, 65536]))
def test_any_numbers_are_those_that_sqlite_gives(tmp_path_factory, rows, page_bytes):
    path = tmp_path_factory.mktemp("pages") / "x.sqlite"
    write(path, rows, page_bytes=page_bytes)
    with closing(SqliteStore(path)) as store:
        found = store.integers("t", ("a", "c"))
    assert {name: column.tolist() for name, column in found.items()} == from_sqlite(path, "ac")


@pytest.mark.parametrize("page_bytes", [512, 4096, 65536])
@pytest.mark.parametrize("count", [1, 300, 20_000])
def test_tables_of_one_and_of_many_pages_are_read_whole(tmp_path, count, page_bytes):
    rows = [(number, "kernel", number * 1_000_003 - 2**40) for number in range(count)]
    assert_same(write(tmp_path / "x.sqlite", rows, page_bytes=page_bytes), ("c", "a"))


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM t WHERE a % 3",
        "DELETE FROM t WHERE a BETWEEN 50 AND 2900",
        "DELETE FROM t",
        "UPDATE t SET rowid = rowid + 4000000000000 WHERE a = 2999",
        "UPDATE t SET c = NULL WHERE a % 2",
        "UPDATE t SET a = 1, c = 0",
        "ALTER TABLE t DROP COLUMN b",
        "CREATE INDEX i ON t (a)",
    ],
)
def test_rows_that_were_changed_and_ids_with_gaps_are_read(tmp_path, statement):
    rows = [(number, "x" * (number % 40), -number) for number in range(3000)]
    assert_same(write(tmp_path / "x.sqlite", rows, statements=[statement]))


def test_an_empty_table_has_no_rows(tmp_path):
    found = from_pages(write(tmp_path / "x.sqlite", []), ("a", "c"))
    assert [column.size for column in found.values()] == [0, 0]


UNUSUAL = {
    "a float": ("a, b, c", [(1.5, "x", 1)], ()),
    "a text": ("a, b, c", [("1", "x", 1)], ()),
    "a blob": ("a, b, c", [(b"1", "x", 1)], ()),
    "a long text before": ("b, a, c", [("x" * 100, 1, 1)], ()),
    "a row longer than its page": ("a, b, c", [(1, "x" * 9000, 1)], ()),
    "a column that was added later": ("a, b", [(1, "x")], ["ALTER TABLE t ADD COLUMN c DEFAULT 7"]),
    "a negative row id": ("a, b, c", [(1, "x", 1)], ["UPDATE t SET rowid = -5"]),
    "a row id as a column": ("a INTEGER PRIMARY KEY, b, c", [(1, "x", 1)], ()),
    "no row ids": (
        *("a, b, c", [(1, "x", 1)]),
        [
            "CREATE TABLE u (a PRIMARY KEY, b, c) WITHOUT ROWID",
            "INSERT INTO u SELECT * FROM t",
            "DROP TABLE t",
            "ALTER TABLE u RENAME TO t",
        ],
    ),
}


@pytest.mark.parametrize(("declared", "rows", "statements"), UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_unusual_is_left_to_sqlite_itself(tmp_path, declared, rows, statements):
    path = write(tmp_path / "x.sqlite", rows, declared=declared, statements=statements)
    with pytest.raises(UnusualError):
        from_pages(path, ("a", "c"))
    with closing(SqliteStore(path)) as store:
        found = store.integers("t", ("a", "c", "missing"))
    assert found["a"].tolist() == [1]
    assert found["missing"].tolist() == [NULL]


def test_a_number_that_did_not_fit_on_its_page_is_left_to_sqlite_itself(tmp_path):
    """Rows of 490 bytes on pages of 512, of which 477 would fit: the last column is elsewhere."""
    texts = [f"t{number}" for number in range(9)]
    path = tmp_path / "x.sqlite"
    rows = [(*["x" * 52] * 9, 4711)] * 3
    write(path, rows, page_bytes=512, declared=", ".join([*texts, "a"]))
    with pytest.raises(UnusualError):
        from_pages(path, ("a",))
    with closing(SqliteStore(path)) as store:
        assert store.integers("t", ("a",))["a"].tolist() == [4711] * 3


def test_texts_among_numbers_do_not_hide_what_is_behind_them(tmp_path):
    rows = [(number, "é" * (number % 25), number) for number in range(500)]
    assert_same(write(tmp_path / "x.sqlite", rows))


@pytest.mark.parametrize("seed", range(30))
def test_pages_of_garbage_are_an_error_or_unusual_and_never_a_crash(tmp_path, seed):
    rows = [(number, "x" * (number % 30), number) for number in range(2000)]
    path = write(tmp_path / "x.sqlite", rows)
    data = np.fromfile(path, np.uint8)
    random = np.random.default_rng(seed)
    where = random.integers(4096, data.size, 200)
    data[where] = random.integers(0, 256, where.size)
    header = read_header(path)
    data.tofile(path)
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 't'"
        (root,) = connection.execute(query).fetchone()
    with path.open("rb", buffering=0) as file:
        try:
            for piece in sqlite_pages.integers(file, header, root, [0, 2]):
                assert piece[0].size == piece[1].size
        except UnusualError:
            pass


def test_other_files_have_no_header(tmp_path):
    path = tmp_path / "x"
    for data in (b"", b"SQLite format 3\0", b"x" * 200):
        path.write_bytes(data)
        assert read_header(path) is None
