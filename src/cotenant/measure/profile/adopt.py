"""Takes the trial of a scratch folder over into the run, with what the profiler saw: whole, in one rename."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotenant.records import Columns, TrialRecords
from cotenant.store import parquet
from cotenant.store.folder import RunFolder
from cotenant.store.query import sql

PART = "part.parquet"


def tenants_of(scratch: RunFolder) -> Mapping[str, int | None]:
    """The tenants of the one trial in a scratch folder, and their processes."""
    return {row[0]: row[1] for row in sql("SELECT tenant, pid FROM tenants", [scratch.path]).rows}


def trial_row(scratch: RunFolder) -> Mapping[str, Any]:
    """The trial's own row."""
    found = sql("SELECT * FROM trials", [scratch.path])
    return dict(zip(found.columns, found.rows[0], strict=True))


def adopt(folder: RunFolder, scratch: RunFolder, number: int, kernels: Columns, samples: Columns) -> None:
    """Add kernels and samples to the scratch trial, then move it into the run."""
    source = scratch.trial_path(number)
    records = TrialRecords(trial={"trial": number}, tenants=(), requests={}, kernels=kernels, samples=samples)
    con = parquet.memory()
    try:
        with parquet.loaded(con, records, folder.run):
            for table, columns in (("kernels", kernels), ("samples", samples)):
                if columns:
                    _append(con, table, source / f"{table}.parquet")
    finally:
        con.close()
    target = folder.trial_path(number)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)


def _append(con: Any, table: str, file: Path) -> None:
    """Write a loaded table to a file, behind what is in it already."""
    name = parquet.quoted(table)
    if not file.exists():
        parquet.write(con, table, file)
        return
    part = file.with_name(PART)
    con.execute(
        f"COPY (FROM read_parquet({parquet.text(str(file))}) UNION ALL BY NAME FROM temp.{name}) "
        f"TO {parquet.text(str(part))} (FORMAT parquet, COMPRESSION zstd)"
    )
    part.replace(file)
