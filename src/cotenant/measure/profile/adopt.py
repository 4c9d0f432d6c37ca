"""Moves a trial with the profiler's results from a scratch folder into the run, atomically by one rename."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.store import parquet, seals
from cotenant.store.folder import RunFolder
from cotenant.store.query import sql
from cotenant.tenancy.records import TABLES, Columns, TrialRecords

PART = "part.parquet"


@dataclass(frozen=True, slots=True)
class Carried:
    """A trial of a scratch folder."""

    number: int
    start_ns: int
    tenants: Mapping[str, int | None]
    """Process ids by tenant."""


def trials_of(scratch: RunFolder) -> tuple[Carried, ...]:
    """The trials of a scratch folder, in the order they were carried out."""
    rows = sql("SELECT trial, start_ns FROM trials ORDER BY start_ns", [scratch.path]).rows
    tenants: dict[int, dict[str, int | None]] = {}
    for trial, tenant, pid in sql("SELECT trial, tenant, pid FROM tenants", [scratch.path]).rows:
        tenants.setdefault(trial, {})[tenant] = pid
    return tuple(Carried(number, start_ns, tenants[number]) for number, start_ns in rows)


def adopt(folder: RunFolder, scratch: RunFolder, number: int, kernels: Columns, samples: Columns) -> None:
    """Add kernels and samples to the scratch trial, then move it into the run."""
    source = scratch.trial_path(number)
    records = TrialRecords(trial={"trial": number}, tenants=(), requests={}, kernels=kernels, samples=samples)
    con = parquet.memory()
    try:
        with parquet.loaded(con, [records], folder.run) as queries:
            for table in ("kernels", "samples"):
                if table in queries:
                    _append(con, queries[table], source / f"{table}.parquet")
        rows = {table: _rows(con, source / f"{table}.parquet") for table in TABLES}
    finally:
        con.close()
    seals.write(source, run=folder.run, name=source.name, rows={number: {t: n for t, n in rows.items() if n}})
    target = folder.trial_path(number)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)


def _append(con: Any, query: str, file: Path) -> None:
    """Append the rows of a query to a file."""
    if not file.exists():
        parquet.write(con, query, file)
        return
    part = file.with_name(PART)
    parquet.write(con, f"FROM read_parquet({parquet.text(str(file))}) UNION ALL BY NAME {query}", part)
    part.replace(file)


def _rows(con: Any, file: Path) -> int:
    if not file.exists():
        return 0
    (count,) = con.execute(f"SELECT count(*) FROM read_parquet({parquet.text(str(file))})").fetchone()  # noqa: S608  (quoted)
    return int(count)
