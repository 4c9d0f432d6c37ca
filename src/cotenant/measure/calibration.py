"""Trials before the first block: each tenant's capacity alone, and the overhead of the instrument."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import ALONE, Sharing, Tenant, Trial
from cotenant.tenancy.records import MISSING_NS, TrialRecords
from cotenant.workloads.protocol import WorkloadSpec

CALIBRATION_BLOCK = -1
FIRST_NUMBER = 1_000_000
"""Calibration trials are numbered from here, so that numbers in the blocks don't depend on their count."""
NUMBERS = range(FIRST_NUMBER, 2 * FIRST_NUMBER)
INSTRUMENT_RATE_RPS = 1000


def instrument_trials(seed: int) -> tuple[Trial, Trial]:
    """A tenant that does nothing, back to back and on a schedule: its time is the instrument's overhead."""
    loads = (Load(kind="closed"), Load(kind="poisson", rate_rps=INSTRUMENT_RATE_RPS))
    return tuple(  # type: ignore[return-value]  # two loads give two trials
        _alone(
            Tenant(name="null", of="null", workload=WorkloadSpec(name="null"), load=load),
            number=FIRST_NUMBER + index,
            window_s=0.3,
            lead_s=0.05,
            seed=seed,
        )
        for index, load in enumerate(loads)
    )


def capacity_trials(tenants: Sequence[Tenant], *, window_s: float, lead_s: float, seed: int) -> tuple[Trial, ...]:
    """Each tenant alone and always busy: its throughput defines a load of 100 %."""
    return tuple(
        _alone(tenant, number=FIRST_NUMBER + 2 + index, window_s=window_s, lead_s=lead_s, seed=seed)
        for index, tenant in enumerate(tenants)
    )


def instrument_facts(back_to_back: TrialRecords, scheduled: TrialRecords) -> Mapping[str, Any]:
    """Overhead of the harness per request, and how late it starts requests."""
    closed, open_ = _counted(back_to_back), _counted(scheduled)
    if not closed["done_ns"].size or not open_["done_ns"].size:
        return {"error": "the null tenant did not serve"}
    span = closed["done_ns"][-1] - closed["started_ns"][0]
    late = (open_["started_ns"] - open_["intended_ns"])[open_["started_ns"] != MISSING_NS]
    return {
        "per_request_ns": round(float(span / closed["done_ns"].size), 1),
        "per_request_n": int(closed["done_ns"].size),
        "schedule_rate_rps": INSTRUMENT_RATE_RPS,
        "schedule_error_ns": {"p50": float(np.quantile(late, 0.5)), "p99": float(np.quantile(late, 0.99))},
        "schedule_error_n": int(late.size),
    }


def _counted(records: TrialRecords) -> dict[str, np.ndarray]:
    if not records.requests:
        return {name: np.empty(0) for name in ("intended_ns", "started_ns", "done_ns")}
    keep = records.requests["in_window"] & records.requests["ok"]
    return {name: records.requests[name][keep] for name in ("intended_ns", "started_ns", "done_ns")}


def _alone(tenant: Tenant, *, number: int, window_s: float, lead_s: float, seed: int) -> Trial:
    return Trial(
        number=number,
        block=CALIBRATION_BLOCK,
        order=number - FIRST_NUMBER,
        mix=tenant.name,
        tenants=(tenant,),
        sharing=Sharing(mode=ALONE),
        load=str(tenant.load),
        window_s=window_s,
        lead_s=lead_s,
        seed=seed,
    )
