"""Turns what tenants left in shared memory into the records of a trial. Pure: arrays in, tables out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cotenant.analyse.estimates import MOST_POINTS, classify
from cotenant.errors import HUNG_UP
from cotenant.measure.checks import CheckedTenant
from cotenant.measure.tenants.messages import SeatReady, SeatResult
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.objective import slo_columns
from cotenant.tenancy.records import MISSING_NS, Columns, Int64s
from cotenant.workloads.protocol import Properties
from cotenant.workloads.servers import differences

TOKENS = ("tokens_in", "tokens_out", "tokens_reasoning")
"""Columns of the records that count tokens."""
ARRIVALS_PER_POINT, CYCLES_PER_POINT = 8, 2
"""Requests of an open and of a closed load over which their ups and downs average out."""
MODEL_ERROR = "model_error"
"""A simulated tenant's model error."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The trial's absolute times, on the monotonic clock."""

    start_ns: int
    window_start_ns: int
    window_end_ns: int
    deadline_ns: int


@dataclass(frozen=True, slots=True)
class RequestColumns:
    """One tenant's requests, copied from its arena: those recorded, then those due but never started."""

    intended: Int64s
    started: Int64s
    first: Int64s
    done: Int64s
    device: Int64s
    ok: Int64s
    slot_ends: Int64s
    """Slots x recorded requests; missing where a request did not reach that slot."""
    answers: Mapping[str, Int64s] = field(default_factory=dict)
    """For servers: `ANSWER_COLUMNS` of the recorded requests."""


@dataclass(frozen=True, slots=True)
class SeatOutcome:
    """One tenant's part in a trial, however it ended."""

    tenant: Tenant
    rate_rps: float | None
    properties: Properties
    ready: SeatReady | None
    result: SeatResult | None
    fate: str | None
    """How it ended early."""
    requests: RequestColumns | None

    @property
    def stopped_ns(self) -> int | None:
        """When it stopped serving early, so that the mix was incomplete from then on; None if it didn't."""
        early = self.fate is not None or (self.result is not None and self.result.stopped_early)
        if not early or self.requests is None:
            return None
        done = self.requests.done[self.requests.done != MISSING_NS]
        return int(done.max()) if done.size else 0


def queued(recorded: RequestColumns, outstanding: int) -> Int64s:
    """When all requests of a closed load were due, including those still queued at the end."""
    return np.concatenate([recorded.intended, recorded.done[-outstanding:]])


def with_unserved(recorded: RequestColumns, schedule: Int64s, window_end_ns: int) -> RequestColumns:
    """Add the requests due before the window's end that were never started."""
    served = recorded.intended.size
    missed = schedule[served : int(np.searchsorted(schedule, window_end_ns))]
    if not missed.size:
        return recorded
    nothing = np.full(missed.size, MISSING_NS, np.int64)
    return replace(
        recorded,
        intended=np.concatenate([recorded.intended, missed]),
        started=np.concatenate([recorded.started, nothing]),
        first=np.concatenate([recorded.first, nothing]),
        done=np.concatenate([recorded.done, nothing]),
        device=np.concatenate([recorded.device, nothing]),
        ok=np.concatenate([recorded.ok, np.zeros(missed.size, np.int64)]),
    )


def in_window(outcome: SeatOutcome, timing: Timing, complete_until_ns: int | None) -> np.ndarray:
    """Due in the window, and completed (or never) while every tenant was active; excludes what the load dropped."""
    requests = outcome.requests
    if requests is None:
        return np.empty(0, bool)
    due = (requests.intended >= timing.window_start_ns) & (requests.intended < timing.window_end_ns)
    kinds = outcome.result.kinds if outcome.result else ()
    if HUNG_UP in kinds and requests.answers:
        given_up = requests.answers["kind"] == kinds.index(HUNG_UP)
        due[: given_up.size] &= ~given_up
    return due if complete_until_ns is None else due & (requests.done <= complete_until_ns)


def points_to_judge(outcomes: Sequence[SeatOutcome], counted: Sequence[np.ndarray]) -> list[int]:
    """In how many points each tenant's steadiness is judged, at most.

    A tenant is quick while its neighbours have nothing to do and slow while they have much: that is what is measured,
    not a drift. A point therefore spans several requests of each neighbour, and of the tenant itself if its server
    works on several at once.
    """
    most = [
        int(mask.sum()) // (ARRIVALS_PER_POINT if outcome.tenant.load.open else CYCLES_PER_POINT)
        for outcome, mask in zip(outcomes, counted, strict=True)
    ]
    return [
        min([MOST_POINTS, *(other for place, other in enumerate(most) if place != own or _overlap(outcome))])
        for own, outcome in enumerate(outcomes)
    ]


def _overlap(outcome: SeatOutcome) -> bool:
    """Its requests depend on each other: those of a server under an open load."""
    return outcome.tenant.load.open and outcome.requests is not None and bool(outcome.requests.answers)


def facts_of(outcome: SeatOutcome, counted: np.ndarray, *, points: int, short: bool) -> CheckedTenant:
    """The facts about this tenant that the checks use; steadiness is judged over at most `points` means.

    A short window is too short to tell whether it was steady; its windows are judged together.
    """
    requests = outcome.requests
    if requests is None or outcome.result is None:
        return CheckedTenant(outcome.tenant.name, fate=outcome.fate or "did not serve")
    finished = requests.done != MISSING_NS
    served = counted & (requests.ok == 1)
    latency = (requests.done - requests.intended)[served]
    return CheckedTenant(
        name=outcome.tenant.name,
        fate=outcome.fate or _shortage(outcome.result),
        served=int(served.sum()),
        failed=int((counted & finished & (requests.ok == 0)).sum()),
        unfinished=int((counted & ~finished).sum()),
        error=outcome.result.error,
        gave_up=outcome.result.gave_up,
        overflowed=outcome.result.overflowed,
        idle_lag_p99_ns=_idle_lag_p99(outcome, requests, counted) if outcome.tenant.load.open else None,
        median_latency_ns=float(np.median(latency)) if latency.size else None,
        # Latency under an open load varies with the queue, not with the tenant: use service time.
        warmup=classify((requests.done - requests.started)[served], points) if latency.size and not short else None,
    )


def _shortage(result: SeatResult) -> str | None:
    return f"ran out of memory at request {result.recorded}: {result.error}" if result.out_of_memory else None


def _idle_lag_p99(outcome: SeatOutcome, requests: RequestColumns, counted: np.ndarray) -> float | None:
    """99th percentile of started - intended over requests that found the tenant idle: the pacer's error.

    A client of a server is never busy: it sends requests when due, whatever is in flight.
    """
    idle = counted.copy()
    if outcome.ready is None or not outcome.ready.concurrent:
        idle[1:] &= requests.done[:-1] < requests.intended[1:]
    idle &= requests.started != MISSING_NS
    lag = (requests.started - requests.intended)[idle]
    return float(np.quantile(lag, 0.99)) if lag.size >= 10 else None


def request_table(outcomes: Sequence[SeatOutcome], counted: Sequence[np.ndarray]) -> Columns:
    """The `requests` table of all tenants of the trial."""
    parts: dict[str, list[np.ndarray]] = {}
    for outcome, mask in zip(outcomes, counted, strict=True):
        if outcome.requests is None:
            continue
        requests = outcome.requests
        columns = {
            "tenant": np.full(requests.intended.size, outcome.tenant.name),
            "seq": np.arange(requests.intended.size, dtype=np.int64),
            "intended_ns": requests.intended,
            "started_ns": requests.started,
            "first_ns": requests.first,
            "done_ns": requests.done,
            "device_ns": requests.device,
            **_answers(outcome, requests),
            "in_window": mask,
            "ok": requests.ok == 1,
        }
        for name, values in columns.items():
            parts.setdefault(name, []).append(values)
    table = {name: np.concatenate(values) for name, values in parts.items()}
    nothing = {**dict.fromkeys(TOKENS, MISSING_NS), "error": None}
    return {name: values for name, values in table.items() if name not in nothing or (values != nothing[name]).any()}


def _answers(outcome: SeatOutcome, requests: RequestColumns) -> dict[str, np.ndarray]:
    """Tokens and kinds of error: reported by a server, or counted from the stages."""
    size = requests.intended.size
    recorded = requests.slot_ends.shape[1]
    tokens = {name: np.full(size, MISSING_NS, np.int64) for name in TOKENS}
    error = np.full(size, None, object)
    slots = () if outcome.ready is None else outcome.ready.slots
    if requests.answers:
        for name in TOKENS:
            tokens[name][:recorded] = requests.answers[name]
        kinds = outcome.result.kinds if outcome.result else ()
        for position, kind in enumerate(kinds):
            error[:recorded][requests.answers["kind"] == position] = kind
    elif "prefill" in slots and "decode" in slots:  # a generating model produces a token in each of them
        tokens["tokens_out"][:recorded] = 1 + slots.count("decode")
    return {**tokens, "error": error}


def stage_table(outcomes: Sequence[SeatOutcome]) -> Columns:
    """The `stages` table: each slot starts where the previous slot ended; skipped slots have no row."""
    parts: dict[str, list[np.ndarray]] = {}
    for outcome in outcomes:
        if outcome.requests is None or outcome.ready is None:
            continue
        ends = outcome.requests.slot_ends
        begin = outcome.requests.started[: ends.shape[1]]
        for slot, stage in enumerate(outcome.ready.slots):
            came = ends[slot] != MISSING_NS
            seq = np.flatnonzero(came)
            columns = {
                "tenant": np.full(seq.size, outcome.tenant.name),
                "seq": seq,
                "stage": np.full(seq.size, stage),
                "start_ns": begin[came],
                "duration_ns": (ends[slot] - begin)[came],
            }
            for name, values in columns.items():
                parts.setdefault(name, []).append(values)
            begin = np.where(came, ends[slot], begin)
    return {name: np.concatenate(values) for name, values in parts.items()}


def unequal_copies(outcomes: Sequence[SeatOutcome]) -> tuple[str, ...]:
    """A sentence for each quantity that copies of a server resolved differently, by their logs and metrics."""
    copies: dict[str, list[tuple[str, Mapping[str, int]]]] = {}
    for outcome in outcomes:
        if outcome.ready is not None and outcome.tenant.workload.server is not None:
            facts = outcome.ready.facts
            resolved = {**facts.get("resolved", {}), **facts.get("cache", {})}
            copies.setdefault(outcome.tenant.of, []).append((outcome.tenant.name, resolved))
    return tuple(sentence for group in copies.values() for sentence in differences(group))


def tenant_row(outcome: SeatOutcome, facts: CheckedTenant) -> Mapping[str, Any]:
    """The tenant's row of the `tenants` table."""
    tenant, ready, result = outcome.tenant, outcome.ready, outcome.result
    row: dict[str, Any] = {
        "tenant": tenant.name,
        "of": tenant.of,
        "workload": tenant.workload.name,
        "batch": tenant.workload.batch,
        "seq": tenant.workload.seq,
        "dtype": tenant.workload.dtype,
        "software": tenant.workload.software,
        "load": str(tenant.load),
        "rate_rps": outcome.rate_rps,
        **slo_columns(tenant.slo),
        "priority": tenant.priority,
        "share": None if tenant.share is None else str(tenant.share),
        "member": tenant.member,
        "threads": tenant.threads,
        "params": outcome.properties.params,
        "flops_per_request": outcome.properties.flops,
        "bytes_per_request": outcome.properties.bytes_moved,
        "warmup": facts.warmup,
        "error": outcome.fate or (result.error if result else None),
    }
    if ready is not None:
        row |= {
            "seq": ready.seq,
            "dtype": ready.dtype,
            "weights": ready.weights,
            "facts": json.dumps({k: v for k, v in ready.facts.items() if k != MODEL_ERROR}, default=str),
            MODEL_ERROR: json.dumps(ready.facts[MODEL_ERROR]) if MODEL_ERROR in ready.facts else None,
            "pid": ready.pid,
            "threads": ready.observed.get("threads", tenant.threads),
            "observed": json.dumps(dict(ready.observed), default=str),
        }
    if result is not None:
        row |= {
            "observed": json.dumps(dict(result.observed), default=str),
            "cpu_time_ns": result.cpu_time_ns,
            "switches_voluntary": result.switches_voluntary,
            "switches_forced": result.switches_forced,
            "peak_memory_bytes": result.memory_bytes,
        }
    return row
