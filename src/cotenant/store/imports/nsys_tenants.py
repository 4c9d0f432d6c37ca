"""Attribute kernels to tenants: by process, and within a process by the open range of the launching thread."""

import sqlite3
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence

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
