"""A device of a plan as a study: the same mix, rates and sharing."""

from typing import Any

from cotenant.tenancy.device_name import DeviceName
from cotenant.tenancy.plan import PlanDevice, PlanSeat
from cotenant.tenancy.sharing import sharing_written
from cotenant.workloads.protocol import in_steps


def study_of(planned: PlanDevice, *, about: str) -> dict[str, Any]:
    """A study for `cotenant run`.

    Args:
        planned: A device of a plan.
        about: The study's description.
    """
    study: dict[str, Any] = {
        "about": about,
        "device": planned.kind if DeviceName(planned.name).simulated else planned.name,
        "tenants": {tenant: _tenant(seat) for tenant, seat in planned.tenants.items()},
        "mixes": ["solo"],
    }
    if len(planned.tenants) > 1:
        study["mixes"] = [{"groups": {"plan": list(planned.tenants)}}]
        study["sharing"] = [sharing_written(planned.way)]
    if planned.clock_mhz:
        study["settings"] = [{"clock_mhz": planned.clock_mhz}]
    return study


def _tenant(seat: PlanSeat) -> dict[str, Any]:
    """What usually runs together is one request: rarer, less bursty, and with less time left, since it gathered."""
    engine = in_steps(seat.entry.spec())
    together = 1 if engine else seat.usually_together
    runs = seat.runs.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    entry: dict[str, Any] = {**runs, "batch": together * seat.runs.batch}
    if engine:
        entry["at_once"] = seat.at_once
    if seat.software != "eager":
        entry["software"] = seat.software
    if seat.priority:
        entry["priority"] = seat.priority
    if seat.rate_rps <= 0:
        return {**entry, "load": "closed(1)"}
    burst, often = seat.cv / together**0.5, f"{seat.rate_rps / together:.6g}"
    entry["load"] = f"poisson({often})" if abs(burst - 1) < 1e-9 else f"gamma({often}, {burst:.4g})"
    limits = {
        label: one.limit_ms - (0.0 if label.startswith("tpot") or engine else seat.gathered_ms)
        for label, one in seat.expected.items()
    }
    if limits:
        entry["slo"] = {label: f"{max(limit, 0.001):.6g}ms" for label, limit in limits.items()}
    return entry
