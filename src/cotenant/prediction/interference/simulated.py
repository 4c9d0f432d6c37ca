"""Mixes that were simulated, and those predicted from them: their intervals include the simulation's own error."""

from collections.abc import Mapping

from cotenant.analyse.sharing.model_error import Ends, time_range
from cotenant.prediction.interference.forecast import Ranged
from cotenant.tenancy.identity import TenantIdentity
from cotenant.tenancy.records import ModelErrorRecord


def error_of(
    errors: Mapping[tuple[str, TenantIdentity], ModelErrorRecord], sharing: str, key: TenantIdentity
) -> ModelErrorRecord | None:
    """The simulation's error for a tenant under a way to share.

    Of one that was not simulated beside others, the widest of those that were; None if none was.
    """
    if (sharing, key) in errors:
        return errors[sharing, key]
    of_others = [error for (way, _), error in errors.items() if way == sharing]
    return max(of_others, key=lambda one: one.slowdown[1] / one.slowdown[0], default=None)


def in_reality(slowdown: Ranged, error: ModelErrorRecord | None) -> Ranged:
    """A slowdown within the simulation, widened to where a real GPU's may lie; neighbours speed up no tenant."""
    return slowdown if error is None else _widened(slowdown, error.slowdown, least=1.0)


def latency_in_reality(latency: Ranged, error: ModelErrorRecord | None) -> Ranged:
    """The same for a mean time beside others."""
    return latency if error is None else _widened(latency, time_range(error, solo=False))


def _widened(number: Ranged, ends: Ends, *, least: float = 0.0) -> Ranged:
    lo, hi = (number.est if end is None else end for end in (number.lo, number.hi))
    return Ranged(number.est, max(lo * min(ends[0], 1.0), min(lo, least)), hi * max(ends[1], 1.0))
