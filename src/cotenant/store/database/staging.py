"""Stage rows of one source as Parquet, so that they can become visible in one step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant.store import damage, parquet
from cotenant.store.database.schema import TABLES
from cotenant.store.manifest import sync
from cotenant.tenancy.records import Columns

if TYPE_CHECKING:
    import duckdb

    from cotenant.store.imports import Series

MEMORY_LIMIT = "640MiB"
ROWS_TOGETHER = 122_880
"""Rows per Parquet group; sorted by GPU, so that a query about some GPUs skips the rest."""

_OPTIONS = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROWS_TOGETHER}"


@dataclass(frozen=True, slots=True)
class Staged:
    """Staged rows, not yet visible."""

    files: Mapping[str, Path]
    """By table."""
    measurements: int
    readings: int
    gpus: int
    kind: str
    left_out: tuple[str, ...]


class Staging:
    """Writes the rows of one source into a separate folder. Close it when done."""

    def __init__(self, folder: Path, source: str) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.source = source
        # Sorting millions of rows may exceed the limit: spill beside the rows.
        self.con = parquet.memory(memory_limit=MEMORY_LIMIT, temp_directory=str(folder / "spill"))
        self._files: dict[str, list[Path]] = {}

    def measurements(self, columns: Columns, constants: Mapping[str, Any]) -> None:
        """Columns of `measurements` as arrays; constants are the same in every row; the rest is NULL."""
        self.con.register("incoming", dict(columns))
        chosen = ", ".join(
            f"CAST({value} AS {column.type}) AS {column.name}"
            for column in TABLES["measurements"]
            for value in [column.name if column.name in columns else self.constant(column.name, constants)]
        )
        self._write("measurements", f"SELECT {chosen} FROM incoming ORDER BY gpu, at_s")  # noqa: S608 - quoted
        self.con.unregister("incoming")

    def select(self, table: str, con: "duckdb.DuckDBPyConnection", query: str) -> None:
        """Rows from a query on another connection with the table's columns."""
        self._write(table, query, con)

    def readings(self, series: Sequence[tuple[str, "Series"]]) -> None:
        """Series with the GPU of each."""
        if not series:
            return
        ordered = sorted(series, key=lambda pair: (pair[0], pair[1].sensor))
        counts = [one.value.size for _, one in ordered]
        texts = [(gpu, one.sensor, one.unit, one.source, self.source) for gpu, one in ordered]
        self.con.execute(
            "CREATE OR REPLACE TEMP TABLE kinds (number INTEGER, gpu VARCHAR, sensor VARCHAR, "
            "unit VARCHAR, origin VARCHAR, source VARCHAR)"
        )
        self.con.executemany("INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?)", [(n, *row) for n, row in enumerate(texts)])
        columns = {
            "number": np.repeat(np.arange(len(ordered), dtype=np.int32), counts),
            "t_ns": np.concatenate([one.t_ns for _, one in ordered]),
            "value": np.concatenate([one.value for _, one in ordered]),
        }
        self.con.register("incoming", columns)
        # The columns are sorted, and joining a few kinds preserves the order.
        chosen = "gpu, sensor, t_ns / 1e9 AS t_s, value, unit, origin, source"
        self._write("readings", f"SELECT {chosen} FROM incoming JOIN kinds USING (number)")  # noqa: S608 - our names
        self.con.unregister("incoming")

    def done(self, *, kind: str, left_out: tuple[str, ...] = ()) -> Staged:
        """Wait until everything is on disk, and count it."""
        counts = dict.fromkeys(TABLES, 0)
        gpus: set[str] = set()
        files = {table: self._whole(table) for table in self._files}
        for table, file in files.items():
            source = f"read_parquet([{parquet.text(damage.literal(file))}])"
            (counts[table],) = self.con.execute(f"SELECT count(*) FROM {source}").fetchone() or (0,)  # noqa: S608 - quoted
            gpus |= {gpu for (gpu,) in self.con.execute(f"SELECT DISTINCT gpu FROM {source}").fetchall()}  # noqa: S608
            sync(file)
        return Staged(files, counts["measurements"], counts["readings"], len(gpus), kind, left_out)

    def constant(self, name: str, constants: Mapping[str, Any]) -> str:
        """SQL of a constant column."""
        if name == "source":
            return parquet.text(self.source)
        value = constants.get(name)
        if value is None:
            return "NULL"
        return parquet.text(value) if isinstance(value, str) else str(value)

    def close(self) -> None:
        """Free the memory."""
        self.con.close()

    def _write(self, table: str, query: str, con: "duckdb.DuckDBPyConnection | None" = None) -> None:
        written = self._files.setdefault(table, [])
        file = self.folder / f"{table}-{len(written)}.parquet"
        (con or self.con).execute(f"COPY ({query}) TO {parquet.text(str(file))} ({_OPTIONS})")
        written.append(file)

    def _whole(self, table: str) -> Path:
        """Merge parts into one file; each part is sorted, which is enough to skip most of it in queries."""
        files = self._files[table]
        if len(files) == 1:
            return files[0]
        file = self.folder / f"{table}.parquet"
        listed = ", ".join(parquet.text(damage.literal(part)) for part in files)
        self.con.execute(f"COPY (FROM read_parquet([{listed}])) TO {parquet.text(str(file))} ({_OPTIONS})")
        return file
