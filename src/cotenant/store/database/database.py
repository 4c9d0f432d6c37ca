"""Query the database: its contents, a kind of work, a GPU, sensor readings."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from cotenant import opening
from cotenant.analyse.variability import PLACES, UNKNOWN, AtSetting, Drawn, FleetReadings
from cotenant.errors import DatabaseError
from cotenant.store import damage, parquet, seals
from cotenant.store.database import index
from cotenant.store.database.staging import TABLES

if TYPE_CHECKING:
    import duckdb

    from cotenant.analyse.estimates import Floats

MEMORY_LIMIT = "256MiB"
ROWS_AT_ONCE = 400_000
_USABLE = "time_ms > 0 AND isfinite(time_ms)"
_ONE_WORK = (
    f"{_USABLE} AND work = $work AND conditions = $conditions AND simulated = $simulated "
    "AND model IS NOT DISTINCT FROM $model"
)


class MeasuredWork(NamedTuple):
    """A kind of work under a set of conditions: the unit of comparison between GPUs."""

    work: str
    conditions: str
    simulated: bool
    measurements: int
    gpus: int
    first_s: float | None
    last_s: float | None
    model: str | None = None
    """GPU model; None if unknown."""
    models: int = 1
    """Number of GPU models with the same work."""

    @property
    def name(self) -> str:
        """Its name in tables and sentences, with the GPU model if there are several."""
        on = f" on {self.model or 'unknown GPUs'}" if self.models > 1 else ""
        return f"{self.work}{on} ({self.conditions})" if self.conditions else f"{self.work}{on}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**self._asdict(), "name": self.name}


class SensorUse(NamedTuple):
    """A sensor of a GPU in a source."""

    gpu: str
    source: str
    sensor: str
    unit: str
    origin: str
    """The tool or driver that reported it."""
    readings: int


@dataclass(slots=True)
class Database:
    """An open database; use `Database.open`."""

    home: Path
    sources: dict[str, index.Source]
    _con: "duckdb.DuckDBPyConnection"

    @classmethod
    @contextlib.contextmanager
    def open(cls, home: Path) -> Iterator[Self]:
        """Open it for reading, with a shared lock.

        Raises:
            DatabaseError: It isn't a database, is damaged, or is empty.
        """
        import duckdb

        with index.locked(home, shared=True):
            sources = index.read(home)
            if not sources:
                raise DatabaseError(
                    f"The database {home} is empty.",
                    hint="add run folders or files of nvidia-smi, dcgmi, nvprof, tegrastats: cotenant db add RUN",
                )
            _check_seals(home, sources)
            con = parquet.memory(memory_limit=MEMORY_LIMIT)
            try:
                for table in TABLES:
                    con.execute(f"CREATE VIEW {table} AS {_view(home, table, sources)}")
                yield cls(home, sources, con)
            except duckdb.OutOfMemoryException:
                raise DatabaseError(
                    f"The query to {home} needs more than {MEMORY_LIMIT} of memory.",
                    hint="select one kind of work: --work NAME",
                ) from None
            except duckdb.Error as error:
                raise DatabaseError(
                    f"{home} is damaged: {str(error).splitlines()[0]}.", hint="add everything again to another folder"
                ) from None
            finally:
                con.close()

    def works(self) -> list[MeasuredWork]:
        """Every kind of work, most measured first."""
        rows = self._con.execute(
            f"""
            SELECT work, conditions, simulated, count(*), count(DISTINCT gpu), min(at_s), max(at_s), model,
                count(*) OVER (PARTITION BY work, conditions, simulated)
            FROM measurements WHERE {_USABLE} GROUP BY work, conditions, simulated, model
            ORDER BY count(*) DESC, work, conditions, model
            """  # noqa: S608 - constants
        ).fetchall()
        return [MeasuredWork(*row) for row in rows]

    def find_work(self, part: str | None) -> list[MeasuredWork]:
        """The work of this name, else those whose name contains the text, ignoring case; all without a text.

        Raises:
            DatabaseError: There is none.
        """
        every = self.works()
        exact = [work for work in every if part is not None and work.name.lower() == part.lower()]
        found = exact or [work for work in every if part is None or part.lower() in work.name.lower()]
        if not found and part is not None:
            known = ", ".join(work.name for work in every[:8]) or "none yet"
            raise DatabaseError(f"No work in the database is called {part!r}.", hint=f"it holds {known}")
        return found

    def find_gpu(self, part: str) -> str:
        """The GPU whose identity starts with or contains this text.

        Raises:
            DatabaseError: There is none, or there are several.
        """
        rows = self._con.execute(
            "SELECT DISTINCT gpu FROM (SELECT gpu FROM measurements UNION ALL SELECT gpu FROM readings) "
            "WHERE contains(lower(gpu), ?) ORDER BY gpu",
            [part.lower()],
        ).fetchall()
        names = [str(gpu) for (gpu,) in rows]
        if part in names:
            return part
        if len(ending := [name for name in names if name.endswith(f" {part}")]) == 1:  # `cpu:1`, beside `cpu:10`
            return ending[0]
        if len(names) == 1:
            return names[0]
        if not names:
            raise DatabaseError(f"No GPU in the database is called {part!r}.", hint="all of them: cotenant db gpus")
        raise DatabaseError(f"{part!r} matches {len(names)} GPUs.", hint=f"the first are {', '.join(names[:4])}")

    def readings(self, work: MeasuredWork) -> FleetReadings:
        """All measurements of a kind of work, in columns; read GPU by GPU to bound memory."""
        con, chosen = self._con, _ONE_WORK
        given = {name: getattr(work, name) for name in ("work", "conditions", "simulated", "model")}
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE gpus AS SELECT gpu, count(*) AS n, mode(reason) AS reason, "  # noqa: S608
            f"(row_number() OVER (ORDER BY gpu) - 1)::INTEGER AS code FROM measurements WHERE {chosen} GROUP BY gpu",
            given,
        )
        names = {}
        for place in PLACES:
            con.execute(
                f"CREATE OR REPLACE TEMP TABLE {place}s AS SELECT {place}, "  # noqa: S608 - our own names
                f"(row_number() OVER (ORDER BY {place}) - 1)::INTEGER AS code "
                f"FROM (SELECT DISTINCT {place} FROM measurements WHERE {chosen} AND {place} IS NOT NULL)",
                given,
            )
            found = con.execute(f"SELECT {place} FROM {place}s ORDER BY code").fetchall() if place != "job" else ()  # noqa: S608
            names[place] = tuple(str(name) for (name,) in found)
        gpus = con.execute("SELECT gpu, n, reason FROM gpus ORDER BY code").fetchall()
        columns = _filled(con, chosen, given, gpus)
        low, high = con.execute(
            f"SELECT min(power_limit_w), max(power_limit_w) FROM measurements WHERE {chosen}",  # noqa: S608 - constants
            given,
        ).fetchone() or (None, None)
        reasons = tuple(str(reason or "") for _, _, reason in gpus)
        return FleetReadings(
            gpus=tuple(str(gpu) for gpu, _, _ in gpus),
            **columns,
            names=names,
            power_limit_w=low if low == high else None,
            reasons=reasons if any(reasons) else (),
        )

    def sensors(self, gpu: str | None = None) -> list[SensorUse]:
        """Sensors, by GPU and source."""
        rows = self._con.execute(
            "SELECT gpu, source, sensor, any_value(unit), coalesce(any_value(origin), ''), count(*) FROM readings "
            "WHERE $gpu IS NULL OR gpu = $gpu "
            "GROUP BY gpu, source, sensor ORDER BY gpu, source, sensor",
            {"gpu": gpu},
        ).fetchall()
        return [SensorUse(*row) for row in rows]

    def series(self, sensor: SensorUse) -> "tuple[Floats, Floats]":
        """Times and values of a sensor, in order of time."""
        found = self._con.execute(
            "SELECT t_s, value FROM readings WHERE gpu = ? AND source = ? AND sensor = ? ORDER BY t_s",
            [sensor.gpu, sensor.source, sensor.sensor],
        ).fetchnumpy()
        return np.ma.getdata(found["t_s"]), np.ma.getdata(found["value"])

    def source_names(self) -> dict[str, str]:
        """The name of each source, by its key."""
        return {key: source.name for key, source in self.sources.items()}

    def drawn(self, gpu: str) -> list[Drawn]:
        """Every trial of a GPU with a power reading."""
        rows = self._con.execute(
            f"""
            SELECT source, coalesce(settings, ''), simulated, trial, work,
                coalesce(len(string_split(nullif(regexp_extract(conditions, 'beside ([^;]*)', 1), ''), ', ')), 0),
                time_ms, requests, power_w
            FROM measurements
            WHERE {_USABLE} AND gpu = ? AND power_w > 0 AND requests > 0 AND trial IS NOT NULL ORDER BY ALL
            """,  # noqa: S608 - constants
            [gpu],
        ).fetchall()
        return [Drawn(*row) for row in rows]

    def at_settings(self) -> list[AtSetting]:
        """Medians of every GPU alone under every setting of its controls."""
        rows = self._con.execute(
            f"""
            SELECT work, model, gpu, simulated, settings, median(clock_mhz), median(time_ms), median(power_w), count(*)
            FROM measurements
            WHERE {_USABLE} AND clock_mhz IS NOT NULL AND length(settings) > 2 AND NOT contains(conditions, 'beside ')
            GROUP BY work, model, gpu, simulated, settings ORDER BY ALL
            """  # noqa: S608 - constants
        ).fetchall()
        return [AtSetting(*row) for row in rows]


def _filled(
    con: "duckdb.DuckDBPyConnection", chosen: str, given: dict[str, Any], gpus: list[tuple[str, int, Any]]
) -> dict[str, Any]:
    rows = sum(n for _, n, _ in gpus)
    kinds = {"gpu": np.int32, "time_ms": np.float64, "clock_mhz": np.float32, "temperature_c": np.float32}
    kinds |= {"power_w": np.float32, "at_s": np.float64, **dict.fromkeys(PLACES, np.int32)}
    columns = {name: np.empty(rows, kind) for name, kind in kinds.items()}
    codes = ", ".join(f"coalesce({place}s.code, {UNKNOWN}) AS {place}" for place in PLACES)
    joins = " ".join(f"LEFT JOIN {place}s ON m.{place} = {place}s.{place}" for place in PLACES)
    begin = 0
    for first, last in _chunks([n for _, n, _ in gpus]):
        found = con.execute(
            f"""
            SELECT gpus.code AS gpu, time_ms, clock_mhz, temperature_c, power_w, at_s, {codes}
            FROM (SELECT * FROM measurements WHERE {chosen} AND gpu BETWEEN $first AND $last) AS m
                JOIN gpus ON m.gpu = gpus.gpu {joins}
            ORDER BY gpus.code, at_s
            """,  # noqa: S608 - our own names
            {**given, "first": gpus[first][0], "last": gpus[last][0]},
        ).fetchnumpy()
        end = begin + len(found["gpu"])
        for name, column in columns.items():
            values = found[name]
            column[begin:end] = values.filled(np.nan) if np.ma.isMaskedArray(values) else values
        begin = end
    return columns


def _chunks(counts: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of consecutive GPUs with at most `ROWS_AT_ONCE` rows in total, or a single GPU."""
    first, total = 0, 0
    for number, count in enumerate(counts):
        if number > first and total + count > ROWS_AT_ONCE:
            yield first, number - 1
            first, total = number, 0
        total += count
    if counts:
        yield first, len(counts) - 1


def _check_seals(home: Path, sources: dict[str, index.Source]) -> None:
    """Compare every file with the index. Raises DatabaseError."""
    for source in sources.values():
        for table, digest in source.sha256.items():
            file = home / table / source.file
            try:
                how = None if seals.matches(file, digest) else "its content has changed since it was written"
            except OSError as error:
                how = opening.why(error)
            if how:
                raise DatabaseError(
                    f"{file} ({source.name}) is damaged: {how}.", hint="add everything again to another folder"
                )


def _view(home: Path, table: str, sources: dict[str, index.Source]) -> str:
    files = [home / table / source.file for source in sources.values() if getattr(source, table)]
    if not files:
        nulls = ", ".join(f"CAST(NULL AS {column.type}) AS {column.name}" for column in TABLES[table])
        return f"SELECT {nulls} WHERE false"
    listed = ", ".join(parquet.text(damage.literal(file)) for file in files)
    found = f"SELECT * FROM read_parquet([{listed}], union_by_name=true)"  # noqa: S608 - quoted
    # A database that was begun before a column was thought of has none.
    return f"SELECT NULL::VARCHAR AS model WHERE false UNION ALL BY NAME {found}" if table == "measurements" else found
