"""Stage rows of a source as Parquet, so that they can become visible in a single step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant.opening import sync
from cotenant.store import damage, parquet
from cotenant.tenancy.records import Column, Columns

if TYPE_CHECKING:
    import duckdb

    from cotenant.store.imports import ImportedSeries


# --- the tables of the database, their columns and units

VERSION = 1

TABLES: Mapping[str, tuple[Column, ...]] = {
    "measurements": (
        Column("gpu", "VARCHAR", "the GPU's persistent identity (UUID), or the best name in its source"),
        Column("model", "VARCHAR", "GPU model; NULL: unknown"),
        Column("at_s", "DOUBLE", "start, seconds since 1970"),
        Column("work", "VARCHAR", "what ran: workload, batch, sequence length, number format"),
        Column("conditions", "VARCHAR", "settings, neighbours, GPUs busy at once; empty: alone with default settings"),
        Column("settings", "VARCHAR", "clocks, power limit and other controls, as JSON"),
        Column("time_ms", "DOUBLE", "mean time of a request"),
        Column("requests", "BIGINT", "requests behind it"),
        Column("clock_mhz", "FLOAT", "median clock over the window"),
        Column("temperature_c", "FLOAT", "median temperature over the window"),
        Column("power_w", "FLOAT", "median power over the window"),
        Column("power_limit_w", "FLOAT", "the power limit in effect"),
        Column("energy_j", "DOUBLE", "per request; only where the GPU was not shared"),
        Column("reason", "VARCHAR", "the longest throttling reason, by the driver"),
        Column("cabinet", "VARCHAR", "location of its machine"),
        Column("node", "VARCHAR", "its machine"),
        Column("job", "VARCHAR", "the job it belonged to"),
        Column("simulated", "BOOLEAN", "true if computed by a model, not measured"),
        Column("verdict", "VARCHAR", "`valid` or `unstable`; NULL: unknown"),
        Column("trial", "INTEGER", "number within the run it comes from"),
        Column("source", "VARCHAR", "its source: key in the index"),
    ),
    "readings": (
        Column("gpu", "VARCHAR", "as in `measurements`"),
        Column("sensor", "VARCHAR", "name of the sensor"),
        Column("t_s", "DOUBLE", "time of the reading, seconds since 1970 if known"),
        Column("value", "DOUBLE", "what it read"),
        Column("unit", "VARCHAR", "unit of the value"),
        Column("origin", "VARCHAR", "the tool or driver that reported it"),
        Column("source", "VARCHAR", "its source: key in the index"),
    ),
}


# --- map columns of foreign files to rows of the database

LASTING = ("GPU-", "MIG-")
"""Prefixes of UUIDs."""
MEASUREMENTS = {
    "gpu": "gpu",
    "at_s": "started_s",
    "work": "workload",
    "time_ms": "time_ms",
    "clock_mhz": "sm_clock_mhz",
    "temperature_c": "temperature_c",
    "power_w": "power_w",
    "cabinet": "cabinet",
    "node": "node",
    "job": "job",
}
"""Columns of `measurements` and the matching columns of runs."""
CONSTANTS = {"conditions": "", "simulated": False}
"""Constant columns of all runs of a foreign file."""


def gpu_name(path: Path, device: str) -> str:
    """A UUID is kept; `GPU 0` is a different GPU in every file."""
    return device if device.startswith(LASTING) else f"{path.name}: {device}"


def silences(refused: Mapping[str, tuple[int, int]]) -> list[str]:
    """Sentences about failed sensor readings, by source."""
    return [
        f"{source} had no value in {silent:,} of {every:,} readings"
        for source, (silent, every) in refused.items()
        if silent
    ]


MEMORY_LIMIT = "640MiB"
ROWS_TOGETHER = 122_880
"""Rows per Parquet group; sorted by GPU, so that a query about some GPUs skips the rest."""

_OPTIONS = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROWS_TOGETHER}"


@dataclass(frozen=True, slots=True)
class StagedSource:
    """Staged rows, not yet visible."""

    files: Mapping[str, Path]
    """By table."""
    measurements: int
    readings: int
    gpus: int
    kind: str
    left_out: tuple[str, ...]


class Staging:
    """Writes the rows of a source into a separate folder. Close it when done."""

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
        """Rows from a query on another connection with the table's columns; it may spill, too."""
        con.execute(f"SET temp_directory = {parquet.text(str(self.folder / 'spill'))}")
        self._write(table, query, con)

    def readings(self, series: Sequence[tuple[str, "ImportedSeries"]]) -> None:
        """Series with the GPU of each."""
        if not series:
            return
        ordered = sorted(series, key=lambda pair: (pair[0], pair[1].sensor))
        counts = [read.value.size for _, read in ordered]
        texts = [(gpu, read.sensor, read.unit, read.source, self.source) for gpu, read in ordered]
        self.con.execute(
            "CREATE OR REPLACE TEMP TABLE kinds (number INTEGER, gpu VARCHAR, sensor VARCHAR, "
            "unit VARCHAR, origin VARCHAR, source VARCHAR)"
        )
        self.con.executemany("INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?)", [(n, *row) for n, row in enumerate(texts)])
        columns = {
            "number": np.repeat(np.arange(len(ordered), dtype=np.int32), counts),
            "t_ns": np.concatenate([read.t_ns for _, read in ordered]),
            "value": np.concatenate([read.value for _, read in ordered]),
        }
        self.con.register("incoming", columns)
        # The columns are sorted, and joining a few kinds preserves the order.
        chosen = "gpu, sensor, t_ns / 1e9 AS t_s, value, unit, origin, source"
        self._write("readings", f"SELECT {chosen} FROM incoming JOIN kinds USING (number)")  # noqa: S608 - our names
        self.con.unregister("incoming")

    def done(self, *, kind: str, left_out: tuple[str, ...] = ()) -> StagedSource:
        """Wait until everything is on disk, and count it."""
        counts = dict.fromkeys(TABLES, 0)
        gpus: set[str] = set()
        files = {table: self._whole(table) for table in self._files}
        for table, file in files.items():
            source = f"read_parquet([{parquet.text(damage.literal(file))}])"
            (counts[table],) = self.con.execute(f"SELECT count(*) FROM {source}").fetchone() or (0,)  # noqa: S608 - quoted
            gpus |= {gpu for (gpu,) in self.con.execute(f"SELECT DISTINCT gpu FROM {source}").fetchall()}  # noqa: S608
            sync(file)
        return StagedSource(files, counts["measurements"], counts["readings"], len(gpus), kind, left_out)

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
        """Merge parts into a single file; each part is sorted, which is enough to skip most of it in queries."""
        files = self._files[table]
        if len(files) == 1:
            return files[0]
        file = self.folder / f"{table}.parquet"
        listed = ", ".join(parquet.text(damage.literal(part)) for part in files)
        self.con.execute(f"COPY (FROM read_parquet([{listed}])) TO {parquet.text(str(file))} ({_OPTIONS})")
        return file
