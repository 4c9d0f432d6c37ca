"""Import a CSV file without bad lines in SQL alone, with no Python object per cell.

Repeated text becomes an ENUM before sorting, so that ten million rows fit into memory, or nearly so.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cotenant.store import parquet
from cotenant.store.database import rows
from cotenant.store.database.schema import TABLES
from cotenant.store.database.staging import Staged, Staging
from cotenant.store.imports import longhorn, nvidia_smi
from cotenant.store.imports.sheets import Label, Sheet

_LABELS = ("gpu", "workload", "cabinet", "node")
_NOTHING = "CAST(NULL AS VARCHAR)"


def stage(path: Path, kind: str, staging: Staging) -> Staged | None:
    """Stage its rows; None if it must be read line by line because of its format or bad lines.

    Raises:
        DataError: Its header can't be used.
    """
    import duckdb

    try:
        if kind == "longhorn":
            return _runs(longhorn.sheet(path), staging)
        if kind == "nvidia-smi":
            return _log(nvidia_smi.sheet(path), staging)
    except (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.OutOfMemoryException):
        return None  # the line reader reports what is wrong, and where
    return None


def _runs(sheet: Sheet, staging: Staging) -> Staged | None:
    there = {cell.name for cell in sheet.cells.values()}
    labels = sheet.labels(staging.con, _LABELS)
    if labels is None:
        return None
    values = {ours: theirs for ours, theirs in rows.MEASUREMENTS.items() if theirs in there}
    coded = {
        name: _enum(staging, name, [text for text in label.texts if text not in longhorn.UNKNOWN], name)
        for name, label in labels.items()
    }
    values |= {ours: coded[theirs] for ours, theirs in rows.MEASUREMENTS.items() if theirs in coded}
    if "job" in there:  # there may be as many jobs as runs
        values["job"] = f"CASE WHEN job NOT IN ({', '.join(map(parquet.text, longhorn.UNKNOWN))}) THEN job END"
    values["at_s"] = "CASE WHEN started_s > 0 THEN started_s END"  # -1: unknown
    types = {column.name: column.type for column in TABLES["measurements"]}
    # Text keeps its type: an ENUM is written as text, and must not become text before sorting.
    typed = (
        f"{value if types[name] == 'VARCHAR' else f'CAST({value} AS {types[name]})'} AS {name}"
        for name, value in values.items()
    )
    in_order = f"SELECT {', '.join(typed)} FROM ({sheet.all_or_error(labels)}) ORDER BY gpu, at_s"  # noqa: S608 - ours
    constants = {"work": sheet.path.stem, **rows.CONSTANTS}
    every = ", ".join(
        name if name in values else f"{_constant(staging.constant(name, constants), kind)} AS {name}"
        for name, kind in types.items()
    )
    staging.select("measurements", staging.con, f"SELECT {every} FROM ({in_order})")  # noqa: S608 - our own names
    return staging.done(kind="longhorn")


def _constant(value: str, kind: str) -> str:
    """Text as an ENUM of one value, which is faster to write."""
    return f"CAST({value} AS {f'ENUM ({value})' if kind == 'VARCHAR' and value != 'NULL' else kind})"


def _log(sheet: Sheet, staging: Staging) -> Staged | None:
    kinds = nvidia_smi.kinds(sheet)
    labels = sheet.labels(staging.con, ["device"])
    if labels is None:
        return None
    gpu = _gpu_of_line(sheet, labels, staging)
    numbers = ", ".join(
        f"{parquet.quoted(name)} / CAST({kind.per!r} AS DOUBLE) AS v{n}" for n, (name, kind) in enumerate(kinds.items())
    )
    staging.con.execute(
        f"CREATE OR REPLACE TEMP TABLE log AS SELECT {gpu} AS gpu, t_ns / 1e9 AS t_s, {numbers} "  # noqa: S608 - quoted
        f"FROM ({sheet.all_or_error(labels)}) ORDER BY gpu, t_s"
    )
    counts = ", ".join(f"count(v{n})" for n in range(len(kinds)))
    [(every, *read)] = staging.con.execute(f"SELECT count(*), {counts} FROM log").fetchall()  # noqa: S608 - our own
    if not sum(read):
        return None
    selects = (
        f"SELECT gpu, {parquet.text(kind.sensor)} AS sensor, t_s, v{n} AS value, {parquet.text(kind.unit)} AS unit, "  # noqa: S608
        f"{parquet.text(kind.source)} AS origin, {parquet.text(staging.source)} AS source FROM log "
        f"WHERE v{n} IS NOT NULL"
        for n, kind in enumerate(kinds.values())
    )
    staging.select("readings", staging.con, " UNION ALL ".join(selects))
    staging.con.execute("DROP TABLE log")
    refused = {kind.source: (every - count, every) for kind, count in zip(kinds.values(), read, strict=True)}
    return staging.done(kind="nvidia-smi", left_out=tuple(rows.silences(refused)))


def _gpu_of_line(sheet: Sheet, labels: Mapping[str, Label], staging: Staging) -> str:
    """SQL of a line's GPU."""
    if "device" not in labels:
        return parquet.text(rows.gpu(sheet.path, nvidia_smi.ONLY_GPU))
    lasting = " OR ".join(f"starts_with(device, {parquet.text(start)})" for start in rows.LASTING)
    name = f"CASE WHEN {lasting} THEN device ELSE {parquet.text(rows.gpu(sheet.path, ''))} || device END"
    return _enum(staging, "device", sorted(rows.gpu(sheet.path, device) for device in labels["device"].texts), name)


def _enum(staging: Staging, name: str, texts: Sequence[str], value: str) -> str:
    """SQL of a value as one of these texts, which sort in this order; NULL if it is none of them."""
    if not texts:
        return _NOTHING
    staging.con.execute(f"CREATE TYPE {name}_text AS ENUM ({', '.join(map(parquet.text, texts))})")
    return f"TRY_CAST({value} AS {name}_text)"
