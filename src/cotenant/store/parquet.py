"""Records in, Parquet out: the tables of a trial as DuckDB sees them, with the types of `records.TABLES`.

Accepted forms of columns in `TrialRecords`:

* rows (`trial`, `tenants`) as Python or NumPy scalars, lists of strings for list columns;
* bulk columns as one-dimensional arrays of equal length, strided or not (e.g. fields of a structured array);
* text as arrays of strings or of objects; the `tenant` column also as integers, indices into
  `TrialRecords.tenants`, as in the tenants' shared memory, which is fastest;
* `run` and `trial` may be omitted: they are the same in every row and known to the store;
* absent columns are NULL, and so are NaN in a bulk column and `MISSING_NS` in the `*_ns` and
  `tokens_*` columns of `requests`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant.tenancy.records import MISSING_NS, TABLES, Column, Columns, TrialRecords

if TYPE_CHECKING:
    import duckdb

BULK = ("requests", "stages", "samples", "kernels")


def memory(**settings: Any) -> "duckdb.DuckDBPyConnection":
    """An isolated in-memory DuckDB: two threads, no downloads, no access to Python variables."""
    import duckdb

    con = duckdb.connect(
        config={
            "threads": 2,
            "autoinstall_known_extensions": False,
            "python_enable_replacements": False,
            "temp_directory": "",
            **settings,
        }
    )
    con.execute("SET enable_progress_bar = false")  # a query of more than two seconds would write to the terminal
    return con


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """An SQL string."""
    return "'" + value.replace("'", "''") + "'"


@contextmanager
def loaded(con: "duckdb.DuckDBPyConnection", trials: Sequence[TrialRecords], run: str) -> Iterator[Mapping[str, str]]:
    """Expose the tables of some trials to DuckDB; yields a typed query for each table with rows.

    Queries rather than views: a view would be bound twice, which takes as long as writing the table. Bulk columns of a
    single trial are not copied; all are released at the end.
    """
    constants: dict[str, Any] = {"run": run}
    if len(trials) == 1:
        constants["trial"] = int(trials[0].trial["trial"])
    rows = {
        "trials": tuple(trial.trial for trial in trials),
        "tenants": tuple({**row, "trial": int(trial.trial["trial"])} for trial in trials for row in trial.tenants),
    }
    bulk: dict[str, Columns] = {table: _joined(table, trials) for table in BULK}
    names = [str(tenant["tenant"]) for tenant in trials[0].tenants]
    try:
        queries = {table: _load_rows(con, table, given, constants) for table, given in rows.items() if given}
        for table, arrays in bulk.items():
            if _length(table, arrays):
                queries[table] = _load_columns(con, table, arrays, constants, names)
        yield queries
    finally:
        for table in (*rows, *BULK):
            con.unregister(_incoming(table))


def rows_by_trial(trials: Sequence[TrialRecords]) -> dict[int, dict[str, int]]:
    """Row counts of each trial by non-empty table."""
    found = {}
    for trial in trials:
        sizes = {"trials": 1, "tenants": len(trial.tenants)}
        sizes |= {table: _length(table, getattr(trial, table)) for table in BULK}
        found[int(trial.trial["trial"])] = {table: sizes[table] for table in TABLES if sizes[table]}
    return found


def _joined(table: str, trials: Sequence[TrialRecords]) -> Columns:
    """The columns of a table over all trials, with the trial's number in each row if there are several."""
    if len(trials) == 1:
        return getattr(trials[0], table)  # type: ignore[no-any-return]  # one of the bulk tables
    parts: list[dict[str, np.ndarray[Any, np.dtype[Any]]]] = []
    for trial in trials:
        arrays: Columns = getattr(trial, table)
        if rows := _length(table, arrays):
            mine = {name: np.asarray(values) for name, values in arrays.items()}
            owner = mine.get("tenant")
            if owner is not None and owner.dtype.kind in "iu":  # indices differ in the next trial
                mine["tenant"] = np.array([str(tenant["tenant"]) for tenant in trial.tenants])[owner]
            parts.append(mine | {"trial": np.full(rows, int(trial.trial["trial"]), np.int64)})
    names = dict.fromkeys(name for part in parts for name in part)
    # Columns of numbers stay numbers: DuckDB takes several times as long to read objects.
    nothing = {name: MISSING_NS if table == "requests" and _may_be_missing(name) else None for name in names}
    return {
        name: np.concatenate([part.get(name, np.full(part["trial"].size, nothing[name])) for part in parts])
        for name in names
    }


def _may_be_missing(column: str) -> bool:
    """In `requests`: `MISSING_NS` in this column means NULL."""
    return column.endswith("_ns") or column.startswith("tokens_")


def write(con: "duckdb.DuckDBPyConnection", query: str, file: Path) -> None:
    """Write the rows of a query to a Parquet file."""
    con.execute(f"COPY ({query}) TO {text(str(file))} (FORMAT parquet, COMPRESSION zstd)")


def _load_rows(
    con: "duckdb.DuckDBPyConnection", table: str, rows: Sequence[Mapping[str, Any]], constants: Mapping[str, Any]
) -> str:
    for row in rows:
        _refuse_unknown(table, row)
    # As columns of objects: a statement with a parameter per cell takes ten times as long.
    given = {column.name: np.empty(len(rows), object) for column in TABLES[table]}
    for name, values in given.items():
        for place, row in enumerate(rows):
            values[place] = constants.get(name, _plain(row.get(name)))
    con.register(_incoming(table), given)
    columns = ", ".join(
        f"CAST({quoted(column.name)} AS {column.type}) AS {quoted(column.name)}" for column in TABLES[table]
    )
    return f"SELECT {columns} FROM {quoted(_incoming(table))}"  # noqa: S608  (our own names)


def _load_columns(
    con: "duckdb.DuckDBPyConnection",
    table: str,
    arrays: Columns,
    constants: Mapping[str, Any],
    tenants: Sequence[str],
) -> str:
    _refuse_unknown(table, arrays)
    given = {name: _array(name, values) for name, values in arrays.items() if name not in constants}
    columns = ", ".join(_expression(table, column, given, constants, tenants) for column in TABLES[table])
    con.register(_incoming(table), given)
    return f"SELECT {columns} FROM {quoted(_incoming(table))}"  # noqa: S608  (our own names)


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
    elif table == "requests" and _may_be_missing(column.name):
        value = f"nullif({value}, {MISSING_NS})"
    return f"CAST({value} AS {column.type}) AS {quoted(column.name)}"


def _incoming(table: str) -> str:
    return f"incoming {table}"


def _array(name: str, values: Any) -> np.ndarray[Any, np.dtype[Any]]:
    if np.ma.isMaskedArray(values):
        raise TypeError(f"column {name!r} is a masked array; missing values are MISSING_NS, NaN or None")
    array = np.ascontiguousarray(values)  # duckDB misreads or rejects some strides
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
    """DuckDB accepts Python's numbers as parameters, but not NumPy's."""
    return value.item() if isinstance(value, np.generic) else value
