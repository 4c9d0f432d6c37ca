"""The readings of one tenant so far."""

import threading
import time
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.analyse.neighbours.totals import Totals
from cotenant.analyse.neighbours.watching import Grant, TenantTotals, Watched, watched_of
from cotenant.clients.exposition import Exposed
from cotenant.clients.prometheus import PrometheusServer, Recorded
from cotenant.clients.published import KNOWN_SOFTWARE, Software, read_published
from cotenant.errors import WatchError
from cotenant.measure.watch.session import WatchRecorder
from cotenant.measure.watch.targets import own_name
from cotenant.text import duration, listed, percent


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

    def add_buckets(self, buckets: Mapping[str, Mapping[float, float]]) -> None:
        """A reading of histograms: what was added since the one before counts, unless the server restarted."""
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


# --- watching back in time: the same readings, from a Prometheus server that scraped them

CLOCKS_APART_S = 5.0
DEVICE_METRICS: Mapping[str, str] = {
    "DCGM_FI_PROF_SM_ACTIVE": "its SMs were active",
    "DCGM_FI_PROF_DRAM_ACTIVE": "its memory was read or written",
}
"""Of DCGM's exporter: shares of time, for all tenants of a GPU together."""
_TARGET = ("job", "instance", "namespace", "pod", "exported_instance")


def read_history(
    server: PrometheusServer, *, since_s: float | None, seconds: float, where: str, histograms: Sequence[Software],
    device: str, root: Path,
) -> tuple[Watched, Path]:  # fmt: skip
    """What a Prometheus server recorded in a period, and the run it was stored as.

    Args:
        server: The Prometheus server.
        since_s: Start of the period, in seconds since 1970; by default it ends now.
        seconds: Its length.
        where: Further matchers, as in a query.
        histograms: Other histograms to read.
        device: The name of the device that the tenants share.
        root: Where runs are stored.

    Raises:
        WatchError: The server doesn't answer, or recorded nothing of servers that are known.
        RunFolderError: The run can't be written.
    """
    now_s = server.now_s()
    notes = []
    apart = now_s - time.time()
    if abs(apart) > CLOCKS_APART_S:
        notes.append(
            f"The clock of `{server.name}` is {duration(abs(apart))} {'ahead of' if apart > 0 else 'behind'} this "
            "machine's; times are by its clock."
        )
    start_s = now_s - seconds if since_s is None else since_s
    known = (*histograms, *KNOWN_SOFTWARE)
    names = frozenset[str]().union(*(one.metrics for one in known))
    recorded = server.recorded({*names, *DEVICE_METRICS}, start_s, min(now_s, start_s + seconds), where)
    tracks = _tracks([one for one in recorded if one.metric in names], known)
    if not tracks:
        raise WatchError(
            f"`{server.name}` recorded nothing of servers that are known in these {duration(seconds)}",
            hint="name a histogram that it scrapes: --histogram http_request_duration_seconds; or look further back: "
            "--for 6h",
        )
    notes += _device_notes(recorded)
    unseen = ["CPU and GPU use of each tenant isn't in these metrics; watching on the machine itself shows it."]
    recorder = WatchRecorder(root, device, [f"--prometheus {server.name}"])
    recorder.write(tracks, "processes", notes, unseen, last=True)
    watched = watched_of([one.totals() for one in tracks], device=device, notes=notes, unseen=unseen)
    return watched, recorder.path


def _tracks(recorded: Sequence[Recorded], known: Sequence[Software]) -> list[Track]:
    """Each target's scrapes, put together again: all samples of a scrape have the same time."""
    targets: dict[tuple[str, ...], dict[float, list[Exposed]]] = {}
    for one in recorded:
        scrapes = targets.setdefault(tuple(one.labels.get(label, "") for label in _TARGET), {})
        for t_s, value in zip(one.t_s, one.value, strict=True):
            if value == value:  # NaN: the target was gone  # noqa: PLR0124
                scrapes.setdefault(t_s, []).append(Exposed(one.metric, one.labels, value))
    found: list[Track] = []
    for target, scrapes in sorted(targets.items()):
        job, instance = target[0], target[1]
        mine: dict[str, Track] = {}
        for t_s in sorted(scrapes):
            for published in read_published(scrapes[t_s], known):
                track = mine.get(published.tenant)
                if track is None:
                    name = own_name(published.tenant or job or instance, instance, {one.tenant for one in found})
                    track = mine[published.tenant] = Track(name, published.software)
                    track.facts |= {"job": job, "instance": instance}
                    found.append(track)
                track.add(t_s, published.totals, f"{published.software}: {instance}")
                track.add_buckets(published.buckets)
    return found


def _device_notes(recorded: Sequence[Recorded]) -> list[str]:
    """How busy GPUs were, where DCGM's exporter was scraped."""
    by_gpu: dict[str, list[str]] = {}
    for one in recorded:
        if one.metric in DEVICE_METRICS and one.value:
            gpu = f"GPU {one.labels.get('gpu', '?')} of {one.labels.get('Hostname') or one.labels.get('instance', '?')}"
            by_gpu.setdefault(gpu, []).append(f"{DEVICE_METRICS[one.metric]} {percent(float(np.mean(one.value)))}")
    return [f"{gpu}: {listed(said)} of the time, by all its tenants." for gpu, said in sorted(by_gpu.items())]
