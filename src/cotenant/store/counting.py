"""A trial's requests, counted by tenant: what an observation is made of, before any division.

Counted here for a trial that is still in memory, without a database: a run does it after every trial. `observe` counts
runs on disk by a query, and its tests hold the two to the same results.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cotenant.tenancy.records import CANARY, MISSING_NS, Int64s, TrialRecords

Bools = npt.NDArray[np.bool_]


class Counted(NamedTuple):
    """One tenant of one trial, in the order of the query's columns."""

    run: str
    trial: int
    block: int
    mix: str
    sharing: str
    settings: str
    load: str
    device: str
    simulated: bool
    solo: bool
    tenant: str
    of: str
    verdict: Any
    failed_checks: Sequence[str] | None
    window_start_ns: int | None
    window_s: float
    slo_ms: float | None
    slo_quantile: float | None
    member: str | None
    closed: bool
    n: int
    due: int
    latency_ns: int | None
    device_ns: int | None
    device_n: int | None
    slo_met: int | None
    first_started_ns: int | None
    last_done_ns: int | None
    never_done: int | None
    canary_us: float | None
    model_error: str | None


def count_trial(records: TrialRecords, run: str) -> list[tuple[Counted, Int64s]]:
    """Every tenant of a trial with its latencies, in the order of their names."""
    trial = records.trial
    counted = []
    for place, tenant in enumerate(records.tenants):
        mine = _Requests(records, place, str(tenant["tenant"]))
        latency = mine.latency()
        device = mine.device_ns[mine.device_known & mine.served]
        slo_ms = _number(tenant, "slo_ms")
        counted.append(
            (
                Counted(
                    run=run,
                    trial=int(trial["trial"]),
                    block=trial["block"],
                    mix=trial["mix"],
                    sharing=trial["sharing"],
                    settings=trial["settings"],
                    load=trial["load"],
                    device=trial["device"],
                    simulated=bool(trial.get("simulated")),
                    solo=bool(trial.get("solo")),
                    tenant=str(tenant["tenant"]),
                    of=str(tenant.get("of") or tenant["tenant"]),
                    verdict=trial["verdict"],
                    failed_checks=trial.get("failed_checks"),
                    window_start_ns=_whole(trial, "window_start_ns"),
                    window_s=float(trial["window_s"]),
                    slo_ms=slo_ms,
                    slo_quantile=_number(tenant, "slo_quantile"),
                    member=tenant.get("member"),
                    closed=str(tenant.get("load") or trial["load"]).startswith("closed"),
                    n=int(mine.served.sum()),
                    due=mine.served.size,
                    latency_ns=int(latency.sum()) if latency.size else None,
                    device_ns=int(device.sum()) if device.size else None,
                    device_n=device.size,
                    slo_met=0 if slo_ms is None else int((latency <= slo_ms * 1e6).sum()),
                    first_started_ns=_extreme(mine.started_ns[mine.started_known], np.min),
                    last_done_ns=_extreme(mine.done_ns[mine.done_known], np.max),
                    never_done=int((~mine.done_known).sum()),
                    canary_us=_canary(records, str(tenant["tenant"])),
                    model_error=tenant.get("model_error"),
                ),
                latency,
            )
        )
    return sorted(counted, key=lambda one: (one[0].of, one[0].tenant))


class _Requests:
    """One tenant's requests that were due in the window."""

    def __init__(self, records: TrialRecords, place: int, name: str) -> None:
        columns = records.requests
        self._size = next((np.size(values) for values in columns.values()), 0)
        self._columns = columns
        owner = np.asarray(columns["tenant"]) if "tenant" in columns else np.empty(0)
        self._due = _true(columns, "in_window", self._size) & (owner == (place if owner.dtype.kind in "iu" else name))
        self.intended_ns, self.intended_known = self._times("intended_ns")
        self.started_ns, self.started_known = self._times("started_ns")
        self.done_ns, self.done_known = self._times("done_ns")
        self.device_ns, self.device_known = self._times("device_ns")
        self.served = _true(columns, "ok", self._size)[self._due] & self.done_known

    def latency(self) -> Int64s:
        """From when each served one was due to when it was done."""
        whole = self.served & self.intended_known
        return np.asarray(self.done_ns[whole] - self.intended_ns[whole])

    def _times(self, column: str) -> tuple[Int64s, Bools]:
        """A column of times, and which of them exist."""
        if column not in self._columns:
            return np.zeros(int(self._due.sum()), np.int64), np.zeros(int(self._due.sum()), np.bool_)
        values = np.asarray(self._columns[column])[self._due]
        known = values != MISSING_NS
        if values.dtype.kind == "f":
            known &= ~np.isnan(values)
            values = np.where(known, np.rint(values), 0.0)
        return values.astype(np.int64, copy=False), known


def _canary(records: TrialRecords, tenant: str) -> float | None:
    if "sensor" not in records.samples:
        return None
    mine = (records.samples["sensor"] == CANARY) & (records.samples["source"] == tenant)
    return float(records.samples["value"][mine].mean()) if mine.any() else None


def _true(columns: Mapping[str, Any], name: str, size: int) -> Bools:
    """Where a column of truths is true; one that is absent or unknown is not."""
    if name not in columns:
        return np.zeros(size, np.bool_)
    values = np.asarray(columns[name])
    return values if values.dtype == np.bool_ else np.asarray(values == 1)


def _extreme(values: Int64s, which: Any) -> int | None:
    return int(which(values)) if values.size else None


def _number(row: Mapping[str, Any], key: str) -> float | None:
    value = row.get(key)
    return None if value is None else float(value)


def _whole(row: Mapping[str, Any], key: str) -> int | None:
    value = row.get(key)
    return None if value is None else int(value)
