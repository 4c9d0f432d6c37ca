"""SQLite exports of Nsight Systems. Columns are looked up, since they change between releases."""

import re
import sqlite3
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cotenant import opening, sensors
from cotenant.errors import DataError
from cotenant.store.imports.result import Imported, ImportedSeries, Problems, nothing_in
from cotenant.tenancy.records import Columns

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS = "CUPTI_ACTIVITY_KIND_MEMSET"
MAGIC = b"SQLite format 3\x00"
_NAMES = ("demangledName", "shortName", "mangledName", "name")
"""Columns with a kernel's name, most informative first."""
_COPY_KINDS = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH",
               10: "PtoP"}  # fmt: skip
_METRICS = (
    (r"^SMs? Active", *sensors.SM_ACTIVE, 0.01),
    (r"^SM Issue", "sm_issue", "share", 0.01),
    (r"^Tensor Active", *sensors.TENSOR_ACTIVE, 0.01),
    (r"^DRAM Read (Bandwidth|Throughput)", "dram_read_active", "share", 0.01),
    (r"^DRAM Write (Bandwidth|Throughput)", "dram_write_active", "share", 0.01),
    (r"^GPC Clock Frequency", *sensors.SM_CLOCK, 1.0),
)
"""Counter names, with our name, unit and factor; other counters are not imported."""


def recognise(path: Path) -> bool:
    """Whether the file is an SQLite database."""
    try:
        with opening.open_file(path, most=opening.TABLE_BYTES) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read(path: Path, *, skip_bad: bool) -> Imported:
    """Kernels, copies and GPU counters of a profile. Raises DataError."""
    with _opened(path) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}
        if KERNELS not in tables and "GPU_METRICS" not in tables:
            raise nothing_in(path, f"table {KERNELS} and no GPU_METRICS, so no kernel was traced")
        anchor_ns = _anchor_ns(db, tables)
        problems = Problems()
        kernels = _kernels(db, tables, problems)
        series = _series(db, tables, anchor_ns or 0)
        facts = {
            "schema": _meta(db, tables),
            "gpus": _gpus(db, tables),
            "session_start_utc_ns": anchor_ns,
        }
    skipped = problems.settle(path, skip_bad=skip_bad)
    if not kernels and not series:
        raise nothing_in(path, "kernels")
    if kernels and anchor_ns:
        kernels = {**kernels, "start_ns": kernels["start_ns"] + anchor_ns}
    return Imported(
        path=path,
        format="nsys",
        clock="1970 (UTC), by the session's start" if anchor_ns else "the session's start",
        series=series,
        kernels=kernels,
        facts=facts,
        skipped=skipped,
    )


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database, read-only; SQLite's errors become sentences."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            yield db
    except sqlite3.Error as error:
        raise DataError(
            f"{path} can't be read as an export of Nsight Systems: {error}.",
            hint="export it again: nsys export --type sqlite REPORT.nsys-rep",
        ) from None


def _kernels(db: sqlite3.Connection, tables: set[str], problems: Problems) -> Columns:
    rows: list[tuple[Any, ...]] = []
    if KERNELS in tables:
        columns = columns_of(db, KERNELS)
        name = next((candidate for candidate in _NAMES if candidate in columns), None)
        if name is None or "StringIds" not in tables:
            raise DataError(
                f"{KERNELS} has none of the columns {', '.join(_NAMES)} (or there is no table StringIds), so kernels "
                "have no names.",
                hint="export the report again with this machine's nsys",
            )
        rows += _activity(db, KERNELS, f"(SELECT value FROM StringIds s WHERE s.id = a.{name})")  # noqa: S608 - one of our own names
    if COPIES in tables:
        kinds = " ".join(f"WHEN {kind} THEN '{name}'" for kind, name in _COPY_KINDS.items())
        rows += _activity(db, COPIES, f"'[CUDA memcpy ' || CASE copyKind {kinds} ELSE copyKind END || ']'")
    if SETS in tables:
        rows += _activity(db, SETS, "'[CUDA memset]'")
    good: list[tuple[int, tuple[Any, ...]]] = []
    bad: list[tuple[int, tuple[Any, ...]]] = []
    for number, row in enumerate(rows, 1):
        usable = row[1] is not None and row[2] is not None and row[2] >= row[1] and row[0]
        (good if usable else bad).append((number, row))
    if bad:
        problems.add("a kernel without a name, or that ends before it starts", [number for number, _ in bad])
    if not good:
        return {}
    names, starts, ends, devices, streams, pids, correlations = zip(*(row for _, row in good), strict=True)
    return {
        "tenant": np.array(attribute(db, tables, pids, correlations, streams), dtype=object),
        "name": np.array(names, dtype=object),
        "device": np.array([f"GPU {device}" for device in devices], dtype=object),
        "stream": np.array(streams, np.int64),
        "start_ns": np.array(starts, np.int64),
        "duration_ns": np.array(ends, np.int64) - np.array(starts, np.int64),
    }


def _activity(db: sqlite3.Connection, table: str, name: str) -> list[tuple[Any, ...]]:
    """Rows of a kind of device activity: name, start, end, device, stream, process, correlation."""
    columns = columns_of(db, table)
    wanted = (("start", "NULL"), ("end", "NULL"), ("deviceId", "0"), ("streamId", "-1"), ("globalPid", "0"),
              ("correlationId", "-1"))  # fmt: skip
    chosen = ", ".join(f'a."{column}"' if column in columns else fallback for column, fallback in wanted)
    return db.execute(f'SELECT {name}, {chosen} FROM {table} a ORDER BY a."start"').fetchall()  # noqa: S608 - our own names


def _series(db: sqlite3.Connection, tables: set[str], anchor_ns: int) -> tuple[ImportedSeries, ...]:
    """GPU counters by device; a metric's number is only meaningful together with its type."""
    if not {"GPU_METRICS", "TARGET_INFO_GPU_METRICS"} <= tables:
        return ()
    if not {"typeId", "metricId", "metricName"} <= columns_of(db, "TARGET_INFO_GPU_METRICS"):
        return ()
    series = []
    listed = db.execute("SELECT DISTINCT typeId, metricId, metricName FROM TARGET_INFO_GPU_METRICS").fetchall()
    for type_id, metric_id, metric in listed:
        known = next((pattern for pattern in _METRICS if re.match(pattern[0], str(metric))), None)
        if known is None:
            continue
        _, sensor, unit, factor = known
        cursor = db.execute(
            "SELECT timestamp, value FROM GPU_METRICS WHERE typeId = ? AND metricId = ? ORDER BY timestamp",
            (type_id, metric_id),
        )
        rows = np.fromiter(cursor, dtype=[("t", np.int64), ("v", np.float64)])
        if rows.size:
            source = f"nsys {metric}"
            series.append(
                ImportedSeries(f"GPU {type_id & 0xFF}", sensor, unit, source, rows["t"] + anchor_ns, rows["v"] * factor)
            )
    return tuple(series)


def _anchor_ns(db: sqlite3.Connection, tables: set[str]) -> int | None:
    table = "TARGET_INFO_SESSION_START_TIME"
    if table not in tables or "utcEpochNs" not in columns_of(db, table):
        return None
    row = db.execute(f"SELECT utcEpochNs FROM {table} LIMIT 1").fetchone()  # noqa: S608 - our own name
    return int(row[0]) if row and row[0] is not None else None


def _meta(db: sqlite3.Connection, tables: set[str]) -> str | None:
    if "META_DATA_EXPORT" not in tables:
        return None
    row = db.execute("SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'").fetchone()
    return str(row[0]) if row else None


def _gpus(db: sqlite3.Connection, tables: set[str]) -> Sequence[str]:
    if "TARGET_INFO_GPU" not in tables or "name" not in columns_of(db, "TARGET_INFO_GPU"):
        return ()
    return [str(name) for (name,) in db.execute("SELECT name FROM TARGET_INFO_GPU")]


TENANT_RANGE = "cotenant:"
"""Prefix of the NVTX ranges by which a profile pass marks its tenants, followed by the name."""
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_ID = 0x1000000
"""Thread ids are process * this + thread; process ids the same with thread 0."""


def attribute(
    db: sqlite3.Connection,
    tables: set[str],
    pids: Sequence[int],
    correlations: Sequence[int],
    streams: Sequence[int],
) -> list[str]:
    """The tenant of each kernel, by its process, correlation and stream."""
    ranges = _tenant_ranges(db, tables)
    by_process: dict[int, set[str]] = defaultdict(set)
    for thread, marks in ranges.items():
        by_process[thread // _ID].update(name for _, _, name in marks)
    names = _process_names(db, tables)
    launches = _launches(db, tables) if any(len(found) > 1 for found in by_process.values()) else {}

    def launcher(pid: int, correlation: int) -> str | None:
        thread, at = launches.get((pid // _ID, correlation), (None, 0))
        return None if thread is None else _open_at(ranges.get(thread, []), at)

    direct: list[str | None] = []
    votes: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for pid, correlation, stream in zip(pids, correlations, streams, strict=True):
        found = by_process.get(pid // _ID, set())
        tenant = next(iter(found)) if len(found) == 1 else launcher(pid, correlation) if found else None
        direct.append(tenant)
        if tenant is not None:
            votes[pid, stream][tenant] += 1
    # Work launched by another thread (a backward pass) belongs to the other user of the stream.
    return [
        tenant
        or (votes[pid, stream].most_common(1)[0][0] if votes.get((pid, stream)) else names.get(pid // _ID))
        or f"process {pid // _ID % _ID}"
        for tenant, pid, stream in zip(direct, pids, streams, strict=True)
    ]


def columns_of(db: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table in this file; empty if it doesn't exist."""
    return {row[1] for row in db.execute(f"PRAGMA table_info({table})")}


def _tenant_ranges(db: sqlite3.Connection, tables: set[str]) -> dict[int, list[tuple[int, int, str]]]:
    """Thread -> start, end and name of its tenants' ranges."""
    if "NVTX_EVENTS" not in tables:
        return {}
    columns = columns_of(db, "NVTX_EVENTS")
    if not {"start", "end", "globalTid"} <= columns:
        return {}
    text = "n.text" if "text" in columns else "NULL"
    if "textId" in columns and "StringIds" in tables:
        text = f"coalesce({text}, (SELECT value FROM StringIds s WHERE s.id = n.textId))"  # noqa: S608 - our own names
    found: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    rows = db.execute(f'SELECT n.globalTid, n.start, n."end", {text} FROM NVTX_EVENTS n ORDER BY n.start')  # noqa: S608 - our own names
    for thread, start, end, name in rows:
        if isinstance(name, str) and name.startswith(TENANT_RANGE):
            found[thread].append(
                (start, end if end is not None and end >= start else 1 << 62, name[len(TENANT_RANGE) :])
            )
    return found


def _open_at(marks: Sequence[tuple[int, int, str]], at: int) -> str | None:
    place = bisect_right(marks, at, key=lambda mark: mark[0]) - 1
    return marks[place][2] if place >= 0 and at <= marks[place][1] else None


def _launches(db: sqlite3.Connection, tables: set[str]) -> dict[tuple[int, int], tuple[int, int]]:
    """(process, correlation) -> launching thread and when."""
    if RUNTIME not in tables or not {"globalTid", "correlationId", "start"} <= columns_of(db, RUNTIME):
        return {}
    rows = db.execute(f"SELECT globalTid, correlationId, start FROM {RUNTIME}")  # noqa: S608 - our own name
    return {(thread // _ID, correlation): (thread, start) for thread, correlation, start in rows}


def _process_names(db: sqlite3.Connection, tables: set[str]) -> dict[int, str]:
    if "PROCESSES" not in tables or not {"globalPid", "name"} <= columns_of(db, "PROCESSES"):
        return {}
    rows = db.execute("SELECT globalPid, name FROM PROCESSES").fetchall()
    return {pid // _ID: f"{str(name).rpartition('/')[2]} ({pid // _ID % _ID})" for pid, name in rows if name}
