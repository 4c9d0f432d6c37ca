"""Count a trial's requests by tenant: the raw counts behind an observation.

Used for a trial in memory, without a database, after every trial of a run. `observe` counts runs on disk with a query;
its tests check that both agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cotenant.tenancy.records import CANARY, MISSING_NS, TOKEN_STAGES, Int64s, TenantInTrial, TokenTimes, TrialRecords

Bools = npt.NDArray[np.bool_]


DEFAULT_SOFTWARE = "eager"


@dataclass(frozen=True, slots=True)
class Counted(TenantInTrial):
    """A tenant of a trial, in the order of the query's columns."""

    verdict: Any
    failed_checks: Sequence[str] | None
    window_start_ns: int | None
    window_s: float
    slo_ms: float | None
    slo_quantile: float | None
    ttft_slo_ms: float | None
    ttft_slo_quantile: float | None
    tpot_slo_ms: float | None
    tpot_slo_quantile: float | None
    member: str | None
    closed: bool
    n: int
    due: int
    latency_ns: int | None
    device_ns: int | None
    device_n: int | None
    slo_met: int | None
    ttft_met: int | None
    tpot_met: int | None
    all_met: int | None
    first_started_ns: int | None
    last_done_ns: int | None
    never_done: int | None
    canary_us: float | None
    foreign_share: float | None
    model_error: str | None
    tokens_out: int | None
    rate_rps: float | None
    ttft_ns: float | None
    tpot_ns: float | None
    software: str | None


def count_trial(records: TrialRecords, run: str) -> list[tuple[Counted, Int64s, TokenTimes | None]]:
    """Every tenant of a trial with its latencies and token times, sorted by name."""
    trial = records.trial
    counted = []
    for place, tenant in enumerate(records.tenants):
        mine = _Requests(records, place, str(tenant["tenant"]))
        latency = mine.latency()
        device = mine.device_ns[mine.device_known & mine.served]
        slo_ms, ttft_ms, tpot_ms = (_number(tenant, name) for name in ("slo_ms", "ttft_slo_ms", "tpot_slo_ms"))
        times = mine.token_times(_gaps(records, str(tenant["tenant"])))
        kept = (mine.latency_within(slo_ms), mine.ttft_within(ttft_ms), mine.tpot_within(tpot_ms))
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
                    ttft_slo_ms=ttft_ms,
                    ttft_slo_quantile=_number(tenant, "ttft_slo_quantile"),
                    tpot_slo_ms=tpot_ms,
                    tpot_slo_quantile=_number(tenant, "tpot_slo_quantile"),
                    member=tenant.get("member"),
                    closed=str(tenant.get("load") or trial["load"]).startswith("closed"),
                    n=int(mine.served.sum()),
                    due=mine.served.size,
                    latency_ns=int(latency.sum()) if latency.size else None,
                    device_ns=int(device.sum()) if device.size else None,
                    device_n=device.size,
                    slo_met=0 if slo_ms is None else int(kept[0].sum()),
                    ttft_met=0 if ttft_ms is None else int(kept[1].sum()),
                    tpot_met=0 if tpot_ms is None else int(kept[2].sum()),
                    all_met=int((kept[0] & kept[1] & kept[2]).sum()),
                    first_started_ns=_extreme(mine.started_ns[mine.started_known], np.min),
                    last_done_ns=_extreme(mine.done_ns[mine.done_known], np.max),
                    never_done=int((~mine.done_known).sum()),
                    canary_us=_canary(records, str(tenant["tenant"])),
                    foreign_share=_number(trial, "foreign_share"),
                    model_error=tenant.get("model_error"),
                    tokens_out=mine.tokens_made(),
                    rate_rps=_number(tenant, "rate_rps"),
                    ttft_ns=None if times is None else _mean(times.ttft_ns),
                    tpot_ns=None if times is None else _mean(times.tpot_ns),
                    software=_software(tenant),
                ),
                latency,
                times,
            )
        )
    return sorted(counted, key=lambda pair: (pair[0].of, pair[0].tenant))


class _Requests:
    """One tenant's requests due in the window."""

    def __init__(self, records: TrialRecords, place: int, name: str) -> None:
        columns = records.requests
        self._size = next((np.size(values) for values in columns.values()), 0)
        self._columns = columns
        owner = np.asarray(columns["tenant"]) if "tenant" in columns else np.empty(0)
        self._due = _true(columns, "in_window", self._size) & (owner == (place if owner.dtype.kind in "iu" else name))
        self.intended_ns, self.intended_known = self._times("intended_ns")
        self.started_ns, self.started_known = self._times("started_ns")
        self.done_ns, self.done_known = self._times("done_ns")
        self.first_ns, self.first_known = self._times("first_ns")
        self.device_ns, self.device_known = self._times("device_ns")
        self.tokens, self.tokens_known = self._times("tokens_out")
        self.seq, _ = self._times("seq")
        self.served: Bools = _true(columns, "ok", self._size)[self._due] & self.done_known

    def latency(self) -> Int64s:
        """Latency of each served request, from due to done."""
        whole = self.served & self.intended_known
        return np.asarray(self.done_ns[whole] - self.intended_ns[whole])

    def latency_within(self, limit_ms: float | None) -> Bools:
        """Mask of requests served within this latency; all served ones without a limit."""
        if limit_ms is None:
            return self.served
        return self.served & self.intended_known & _within(self.done_ns - self.intended_ns, limit_ms)

    def ttft_within(self, limit_ms: float | None) -> Bools:
        """Mask of requests served with their first token within this time."""
        if limit_ms is None:
            return self.served
        known = self.served & self.intended_known & self.first_known
        return known & _within(self.first_ns - self.intended_ns, limit_ms)

    def tpot_within(self, limit_ms: float | None) -> Bools:
        """Mask of requests served within this mean time per later token; requests with a single token pass."""
        if limit_ms is None:
            return self.served
        known = self.served & self.first_known & self.tokens_known
        return known & _within(self.done_ns - self.first_ns, limit_ms * (self.tokens - 1), or_else=self.tokens == 1)

    def token_times(self, gaps: tuple[Int64s, Int64s]) -> TokenTimes | None:
        """Times to first token and per output token of served requests; None if no token counts are known.

        ``gaps``: request indices, and times between their tokens.
        """
        known = self.served & self.first_known & self.tokens_known & self.intended_known
        if not known.any():
            return None
        several = known & (self.tokens > 1)
        spent = (self.done_ns - self.first_ns)[several] / (self.tokens[several] - 1)
        of_served = np.isin(gaps[0], self.seq[self.served])
        return TokenTimes(
            (self.first_ns - self.intended_ns)[known], np.rint(spent).astype(np.int64), gaps[1][of_served]
        )

    def tokens_made(self) -> int | None:
        """Total tokens of served requests."""
        known = self.served & self.tokens_known
        return int(self.tokens[known].sum()) if known.any() else None

    def _times(self, column: str) -> tuple[Int64s, Bools]:
        """A column of times, and a mask of those that exist."""
        if column not in self._columns:
            return np.zeros(int(self._due.sum()), np.int64), np.zeros(int(self._due.sum()), np.bool_)
        values = np.asarray(self._columns[column])[self._due]
        known = values != MISSING_NS
        if values.dtype.kind == "f":
            known &= ~np.isnan(values)
            values = np.where(known, np.rint(values), 0.0)
        return values.astype(np.int64, copy=False), known


def _gaps(records: TrialRecords, tenant: str) -> tuple[Int64s, Int64s]:
    """For tokens after the first: index of the request, and time since the previous token."""
    stages = records.stages
    if "stage" not in stages:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    mine = (np.asarray(stages["tenant"]) == tenant) & np.isin(stages["stage"], TOKEN_STAGES)
    return np.asarray(stages["seq"])[mine], np.asarray(stages["duration_ns"])[mine]


def _mean(values: Int64s) -> float | None:
    return float(values.mean()) if values.size else None


def _within(times_ns: Int64s, limit_ms: Any, *, or_else: Any = False) -> Bools:
    return np.asarray((times_ns <= limit_ms * 1e6) | or_else, np.bool_)


def _canary(records: TrialRecords, tenant: str) -> float | None:
    if "sensor" not in records.samples:
        return None
    mine = (records.samples["sensor"] == CANARY) & (records.samples["source"] == tenant)
    return float(records.samples["value"][mine].mean()) if mine.any() else None


def _true(columns: Mapping[str, Any], name: str, size: int) -> Bools:
    """Mask of true values; absent or unknown ones are false."""
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


def _software(tenant: Mapping[str, Any]) -> str | None:
    """A model without a stated software runs operator by operator."""
    stated = tenant.get("software")
    return str(stated) if stated is not None else DEFAULT_SOFTWARE if tenant.get("params") is not None else None
