"""A device of a plan as a study: the same mix, rates and sharing."""

from collections.abc import Mapping
from typing import Any


def study_of(planned: Mapping[str, Any], *, about: str) -> dict[str, Any]:
    """A study for `cotenant run`.

    Args:
        planned: A device of a plan's document.
        about: The study's description.
    """
    seats: Mapping[str, Mapping[str, Any]] = planned["tenants"]
    name = str(planned.get("name", planned["kind"]))
    study: dict[str, Any] = {
        "about": about,
        "device": planned["kind"] if name.startswith("sim:") else name,
        "tenants": {tenant: _tenant(seat) for tenant, seat in seats.items()},
        "mixes": ["solo"],
    }
    if len(seats) > 1:
        study["mixes"] = [{"groups": {"plan": list(seats)}}]
        study["sharing"] = [sharing_of(planned)]
    settings = {key: planned[key] for key in ("clock_mhz",) if planned.get(key)}
    if settings:
        study["settings"] = [settings]
    return study


def sharing_of(planned: Mapping[str, Any]) -> Any:
    """How the tenants of a plan's device share it, as a study says it: `{mps: [60, 40]}`, or `mps` without shares."""
    shares = [seat.get("share") for seat in planned["tenants"].values()]
    return {planned["sharing"]: shares} if all(share is not None for share in shares) else planned["sharing"]


def usual_batch(seat: Mapping[str, Any]) -> int:
    """Items that run together: the planned batch is the most, for a server that batches what waits."""
    return int(seat.get("together", seat.get("batch", 1)))


def gathered_ms(seat: Mapping[str, Any]) -> float:
    """How long the first item of a batch waits for the last."""
    rate = float(seat.get("rate_rps", 0))
    return (usual_batch(seat) - 1) / rate * 1e3 if rate > 0 else 0.0


def _tenant(seat: Mapping[str, Any]) -> dict[str, Any]:
    """Requests are the usual batches: rarer and less bursty than items, and with less time left, since they filled."""
    batch, rate, cv = usual_batch(seat), float(seat.get("rate_rps", 0)), float(seat.get("cv", 1))
    entry: dict[str, Any] = {**seat["runs"], "batch": batch}
    if seat.get("software", "eager") != "eager":
        entry["software"] = seat["software"]
    if seat.get("priority"):
        entry["priority"] = seat["priority"]
    if rate <= 0:
        return {**entry, "load": "closed(1)"}
    burst, often = cv / batch**0.5, f"{rate / batch:.6g}"
    entry["load"] = f"poisson({often})" if abs(burst - 1) < 1e-9 else f"gamma({often}, {burst:.4g})"
    limits = {
        label: float(one["limit_ms"]) - (0.0 if label.startswith("tpot") else gathered_ms(seat))
        for label, one in (seat.get("expected") or {}).items()
    }
    if limits:
        entry["slo"] = {label: f"{max(limit, 0.001):.6g}ms" for label, limit in limits.items()}
    return entry
