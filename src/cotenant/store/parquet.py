"""Records in, Parquet out: the tables of one trial as DuckDB sees them, with the types of `records.TABLES`.

How columns may arrive in `TrialRecords`:

* rows (`trial`, `tenants`) as Python or NumPy scalars, lists of strings for list columns;
* bulk columns as one-dimensional arrays of equal length, strided or not (fields of a structured array are fine);
* text as arrays of strings or of objects; the `tenant` column also as integers, positions in
  `TrialRecords.tenants`, which is what the tenants' shared memory holds and is the fastest;
* `run` and `trial` need not be given: they are the same in every row and the store knows them;
* absent columns are NULL, and so are NaN in a bulk column and `MISSING_NS` in the `*_ns` columns of `requests`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant.tenancy.records import MISSING_NS, TABLES, Column, Columns, TrialRecords

if TYPE_CHECKING:
    import duckdb

ROWS_AT_ONCE = 50
"""A statement for each row takes seconds for the tenants of a fleet; one for all of them is no faster than this."""
BULK = ("requests", "stages", "samples", "kernels")


def memory(**settings: Any) -> "duckdb.DuckDBPyConnection":
    """An in-memory DuckDB that keeps to itself: two threads, no downloads, no look at Python's variables."""
    import duckdb

    return duckdb.connect(
        config={
            "threads": 2,
            "autoinstall_known_extensions": False,
            "python_enable_replacements": False,
            "temp_directory": "",
            **settings,
        }
    )


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """An SQL string."""
    return "'" + value.replace("'", "''") + "'"


@contextmanager
def loaded(con: "duckdb.DuckDBPyConnection", records: TrialRecords, run: str) -> Iterator[dict[str, int]]:
    """Show a trial's tables to DuckDB under their names, typed; gives those that have rows, and how many.

    Bulk columns are not copied; they are let go of at the end.
    """
    constants = {"run": run, "trial": int(records.trial["trial"])}
    rows = {"trials": (records.trial,), "tenants": records.tenants}
    bulk: dict[str, Columns] = {table: getattr(records, table) for table in BULK}
    names = [str(tenant["tenant"]) for tenant in records.tenants]
    try:
        for table, given in rows.items():
            _load_rows(con, table, given, constants)
        for table, arrays in bulk.items():
            _load_columns(con, table, arrays, constants, names)
        sizes = {table: len(given) for table, given in rows.items()}
        sizes |= {table: _length(table, arrays) for table, arrays in bulk.items()}
        yield {table: sizes[table] for table in TABLES if sizes[table]}
    finally:
        for table in BULK:
            con.unregister(_incoming(table))


def write(con: "duckdb.DuckDBPyConnection", table: str, file: Path) -> None:
    """Write one loaded table to a Parquet file."""
    con.execute(f"COPY (FROM temp.{quoted(table)}) TO {text(str(file))} (FORMAT parquet, COMPRESSION zstd)")


def _load_rows(
    con: "duckdb.DuckDBPyConnection", table: str, rows: Sequence[Mapping[str, Any]], constants: Mapping[str, Any]
) -> None:
    columns = TABLES[table]
    declared = ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)
    con.execute(f"CREATE OR REPLACE TEMP TABLE {quoted(table)} ({declared})")
    places = f"({', '.join('?' for _ in columns)})"
    for row in rows:
        _refuse_unknown(table, row)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE]
        values = [constants.get(column.name, _plain(row.get(column.name))) for row in part for column in columns]
        every = ", ".join(places for _ in part)
        con.execute(f"INSERT INTO temp.{quoted(table)} VALUES {every}", values)  # noqa: S608  (our own names)


def _load_columns(
    con: "duckdb.DuckDBPyConnection",
    table: str,
    arrays: Columns,
    constants: Mapping[str, Any],
    tenants: Sequence[str],
) -> None:
    _refuse_unknown(table, arrays)
    given = {name: _array(name, values) for name, values in arrays.items() if name not in constants}
    columns = ", ".join(_expression(table, column, given, constants, tenants) for column in TABLES[table])
    if _length(table, arrays):
        con.register(_incoming(table), given)
        source = f"FROM {quoted(_incoming(table))}"
    else:
        source = "WHERE false"
        columns = ", ".join(f"CAST(NULL AS {column.type}) AS {quoted(column.name)}" for column in TABLES[table])
    con.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(table)} AS SELECT {columns} {source}")


def _expression(
    table: str, column: Column, given: Columns, constants: Mapping[str, Any], tenants: Sequence[str]
) -> str:
    value = quoted(column.name)
    if column.name in constants:
        constant = constants[column.name]
        value = text(constant) if isinstance(constant, str) else str(constant)
    elif column.name not in given:
        value = "NULL"
    elif column.name == "tenant" and given["tenant"].dtype.kind in "iu":
        codes = given["tenant"]
        if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < len(tenants):
            raise ValueError(f"{table}.tenant holds positions outside the trial's {len(tenants)} tenants")
        value = f"list_extract([{', '.join(text(name) for name in tenants)}], {value} + 1)"
    elif table == "requests" and column.name.endswith("_ns"):
        value = f"nullif({value}, {MISSING_NS})"
    return f"CAST({value} AS {column.type}) AS {quoted(column.name)}"


def _incoming(table: str) -> str:
    return f"incoming {table}"


def _array(name: str, values: Any) -> np.ndarray[Any, np.dtype[Any]]:
    if np.ma.isMaskedArray(values):
        raise TypeError(f"column {name!r} is a masked array; missing values are MISSING_NS, NaN or None")
    array = np.ascontiguousarray(values)  # DuckDB misreads or refuses some strides
    return array.astype(object) if array.dtype.kind == "U" else array  # three times faster than fixed-width text


def _length(table: str, arrays: Columns) -> int:
    shapes = {np.shape(values) for values in arrays.values()}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        raise ValueError(f"the columns of {table} differ in length: {sorted(shapes)}")
    return int(next(iter(shapes))[0]) if shapes else 0


def _refuse_unknown(table: str, given: Mapping[str, Any]) -> None:
    unknown = set(given) - {column.name for column in TABLES[table]}
    if unknown:
        raise ValueError(f"{table} has no column {', '.join(sorted(map(repr, unknown)))}")


def _plain(value: Any) -> Any:
    """DuckDB takes Python's numbers as parameters, but not NumPy's."""
    return value.item() if isinstance(value, np.generic) else value
