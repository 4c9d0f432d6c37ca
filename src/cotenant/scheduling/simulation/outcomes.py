"""The outcome of each request, and statistics by tenant."""

from collections.abc import Mapping
from typing import NamedTuple

from cotenant.scheduling.instructions import Why


class RequestOutcome(NamedTuple):
    """One request. ``done`` is None if it was shed (``why`` gives the reason) or unfinished."""

    tenant: str
    arrived: float
    done: float | None
    met: bool
    why: Why | None
    retry_after_s: float | None

    @property
    def latency_s(self) -> float | None:
        """From arrival to completion."""
        return None if self.done is None else self.done - self.arrived


class Result(NamedTuple):
    """A simulation: ``outcomes`` in order of arrival, the time of the last event, and device statistics.

    ``busy_s``: total time of chunks. ``replaced``: queued chunks replaced by a newer choice; ``late``: newer choices
    that arrived after the queued chunk had begun.
    """

    outcomes: tuple[RequestOutcome, ...]
    duration_s: float
    busy_s: float
    chunks: int
    replaced: int
    late: int

    def attainment(self) -> dict[str, float]:
        """By tenant, the fraction of all its requests served in time."""
        asked: dict[str, int] = {}
        met: dict[str, int] = {}
        for outcome in self.outcomes:
            asked[outcome.tenant] = asked.get(outcome.tenant, 0) + 1
            met[outcome.tenant] = met.get(outcome.tenant, 0) + outcome.met
        return {tenant: met[tenant] / asked[tenant] for tenant in asked}

    def goodput(self, worth_s: Mapping[str, float], load_s: float) -> float:
        """Requests served in time, each worth its tenant's device-seconds, per second of load."""
        return sum(worth_s[outcome.tenant] for outcome in self.outcomes if outcome.met) / load_s
