"""A table as a file of its own: CSV, or Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
from pathlib import Path

from ddptrace.errors import OutputError
from ddptrace.outputs.tables import Kind, Table, Value


def write_csv(path: Path, table: Table) -> None:
    """Write a table as RFC 4180 has it, with a header; unknown is empty, true and false 1 and 0."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.columns)
        writer.writerows(map(_cells, table.rows))


def _cells(row: tuple[Value, ...]) -> list[Value]:
    return [int(value) if isinstance(value, bool) else value for value in row]


_ARROW_TYPES: dict[Kind, str] = {bool: "bool", int: "int64", float: "double", str: "string"}


def needs_pyarrow(path: Path) -> None:
    """Raise OutputError in one line where Parquet cannot be written."""
    try:
        import pyarrow.parquet  # noqa: F401  # the optional dependency of the extra `parquet`
    except ImportError as error:
        raise OutputError(
            f'{path}: Parquet needs pyarrow: pip install "ddptrace[parquet]", or choose .db or .csv'
        ) from error


def write_parquet(path: Path, table: Table) -> None:
    """Write a table with the types of its columns, also where nothing in one is known."""
    import pyarrow
    import pyarrow.parquet

    values = zip(*table.rows, strict=True) if table.rows else ((),) * len(table.columns)
    columns = {
        name: pyarrow.array(column, pyarrow.type_for_alias(_ARROW_TYPES[kind]))
        for (name, kind), column in zip(table.columns.items(), values, strict=True)
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
