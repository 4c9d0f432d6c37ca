"""Writes small SQLite exports of Nsight Systems, as older and newer releases lay them out."""

import sqlite3
from pathlib import Path

PROCESS = 0x1000000


def thread(pid, tid):
    """How nsys names a thread."""
    return pid * PROCESS + tid


class Export:
    """One export; ``new``: the layout with greenContextId, textId and a schema version, else the one before."""

    def __init__(self, path, *, new=True):
        Path(path).unlink(missing_ok=True)
        self._db, self._new, self._strings = sqlite3.connect(path), new, {}
        extra = "greenContextId INT, graphNodeId INT," if new else ""
        self._db.execute(
            f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, {extra} "
            "streamId INT, correlationId INT, globalPid INT, demangledName INT, shortName INT"
            f"{', mangledName INT' if new else ''})"
        )
        if new:
            self._insert("META_DATA_EXPORT", {"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"})

    def kernel(self, start, end, pid, name, *, device=0, stream=7, correlation=1):
        columns = {"start": start, "end": end, "deviceId": device, "contextId": 1, "streamId": stream,
                   "correlationId": correlation, "globalPid": pid * PROCESS, "shortName": self._string("short"),
                   "demangledName": self._string(name) if name else None}  # fmt: skip
        self._insert("CUPTI_ACTIVITY_KIND_KERNEL", columns)

    def copy(self, start, end, pid, kind):
        columns = {"start": start, "end": end, "deviceId": 0, "streamId": 7, "correlationId": 0}
        self._insert(
            "CUPTI_ACTIVITY_KIND_MEMCPY", columns | {"globalPid": pid * PROCESS, "bytes": 1024, "copyKind": kind}
        )

    def launch(self, start, tid, correlation):
        columns = {"start": start, "end": start + 10, "globalTid": tid, "correlationId": correlation}
        self._insert("CUPTI_ACTIVITY_KIND_RUNTIME", columns)

    def range(self, start, end, tid, text):
        named = {"text": None, "textId": self._string(text)} if self._new else {"text": text}
        self._insert("NVTX_EVENTS", {"start": start, "end": end, "eventType": 59, "globalTid": tid} | named)

    def metric(self, type_id, metric_id, name, values):
        columns = {"typeId": type_id, "sourceId": 0, "typeName": "GA100", "metricId": metric_id, "metricName": name}
        self._insert("TARGET_INFO_GPU_METRICS", columns)
        for t, value in values:
            raw = {"rawTimestamp": 0} if self._new else {}
            self._insert(
                "GPU_METRICS", {"timestamp": t, "typeId": type_id, "metricId": metric_id, "value": value} | raw
            )

    def process(self, pid, name):
        self._insert("PROCESSES", {"globalPid": pid * PROCESS, "pid": pid, "name": name})

    def started(self, utc_ns):
        self._insert("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": utc_ns, "utcTime": ""})

    def close(self):
        self._db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)")
        self._db.executemany("INSERT INTO StringIds VALUES (?, ?)", [(n, text) for text, n in self._strings.items()])
        self._db.commit()
        self._db.close()

    def _string(self, text):
        return self._strings.setdefault(text, len(self._strings) + 1)

    def _insert(self, table, columns):
        """Tables come into being with their first row, as nsys does it."""
        names = ", ".join(f'"{name}"' for name in columns)
        self._db.execute(f"CREATE TABLE IF NOT EXISTS {table} ({names})")
        self._db.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})", [*columns.values()])
