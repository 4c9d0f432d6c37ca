"""The readings of a tenant so far."""

import threading
from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from cotenant.analyse.neighbours import OF_PROCESS, Grant, TenantTotals, Totals


class Track:
    """Grows while its tenant is watched; read by other threads."""

    def __init__(self, tenant: str, software: str) -> None:
        self.tenant, self.software = tenant, software
        self.facts: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        """By role: what it was read from."""
        self._lock = threading.Lock()
        self._times: dict[str, array[float]] = {}
        self._values: dict[str, array[float]] = {}
        self._buckets: dict[str, dict[float, float]] = {}
        self._counted: dict[str, dict[float, float]] = {}
        self._grants: dict[tuple[str, str], Grant] = {}

    def add(self, t_s: float, totals: Mapping[str, float], source: str) -> None:
        """A reading of some totals."""
        with self._lock:
            for role, value in totals.items():
                self._times.setdefault(role, array("d")).append(t_s)
                self._values.setdefault(role, array("d")).append(value)
                self.sources[role] = source

    def repeat(self, t_s: float) -> None:
        """A reading like the last one."""
        with self._lock:
            for role, values in self._values.items():
                if role not in OF_PROCESS:  # read apart
                    self._times[role].append(t_s)
                    values.append(values[-1])

    def add_buckets(self, buckets: Mapping[str, Mapping[float, float]]) -> None:
        """A reading of histograms: what was added since the previous reading counts, unless the server restarted."""
        with self._lock:
            for measured, counts in buckets.items():
                before = self._buckets.get(measured)
                self._buckets[measured] = dict(counts)
                if before is None or any(counts.get(bound, 0.0) < count for bound, count in before.items()):
                    continue
                sums = self._counted.setdefault(measured, {})
                for bound, count in counts.items():
                    sums[bound] = sums.get(bound, 0.0) + count - before.get(bound, 0.0)

    def grant(self, grant: Grant) -> None:
        """What the tenant was granted, as of now."""
        with self._lock:
            self._grants[grant.what, grant.by] = grant

    def counted(self) -> dict[str, dict[float, float]]:
        """Histograms over the watched time."""
        with self._lock:
            return {measured: dict(counts) for measured, counts in self._counted.items()}

    def latest(self) -> dict[str, tuple[float, float]]:
        """By role: the latest time and value."""
        with self._lock:
            return {role: (times[-1], self._values[role][-1]) for role, times in self._times.items()}

    def rate(self, role: str, over_s: float) -> float | None:
        """Growth per second over the last seconds; None if too little was read, or the total fell."""
        with self._lock:
            times, values = self._times.get(role), self._values.get(role)
            if times is None or values is None or len(times) < 2:
                return None
            first = len(times) - 1
            while first > 0 and times[-1] - times[first] < over_s:
                first -= 1
            grown, seconds = values[-1] - values[first], times[-1] - times[first]
        return grown / seconds if seconds > 0 and grown >= 0 else None

    def since(self, start: Mapping[str, int]) -> dict[str, tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]]:
        """By role: the times and values after the first so many readings."""
        with self._lock:
            return {
                role: (np.array(times[start.get(role, 0) :]), np.array(self._values[role][start.get(role, 0) :]))
                for role, times in self._times.items()
            }

    def totals(self) -> TenantTotals:
        """Everything so far, for the analysis."""
        with self._lock:
            totals = {role: Totals.of(np.array(times), np.array(self._values[role]))
                      for role, times in self._times.items()}  # fmt: skip
            grants = tuple(self._grants.values())
        return TenantTotals(self.tenant, self.software, totals, self.counted(), dict(self.facts), grants)
