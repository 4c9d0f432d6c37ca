"""How many requests each tenant with an objective has had, against the number that can decide about it."""

from collections import Counter
from collections.abc import Iterable

from cotenant.analyse.sharing.cells import counts
from cotenant.analyse.sharing.slo import queries_needed
from cotenant.tenancy.records import TenantObservation

LATE = 2
"""Late requests that the number allows for. It is fixed beforehand: stopping as soon as the requests so far happen to
decide would decide too often."""

CellKey = tuple[str, str, str]
"""Mix, sharing and load."""


class ObjectiveRequests:
    """Requests so far by cell and tenant."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[CellKey, str, float]] = Counter()

    def add(self, observations: Iterable[TenantObservation]) -> None:
        """Count the requests of tenants with an objective."""
        for seen in filter(counts, observations):
            quantiles = [goal.quantile for goal in seen.token_goals]
            if seen.slo_met is not None:
                quantiles.append(seen.slo_quantile or 0.99)
            if quantiles:
                self._seen[(seen.mix, str(seen.sharing), seen.load), seen.role, max(quantiles)] += (
                    seen.n + seen.unfinished
                )

    def lacking(self) -> dict[CellKey, float]:
        """Cells with too few, and how many times as many they need."""
        found: dict[CellKey, float] = {}
        for (cell, _, quantile), n in self._seen.items():
            times = queries_needed(quantile, LATE) / max(n, 1)
            if times > 1:
                found[cell] = max(times, found.get(cell, 0.0))
        return found
