"""Watching back in time: the same readings, from a Prometheus server that scraped them."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from cotenant.analyse.neighbours import Watched, watched_of
from cotenant.clients.exposition import Exposed
from cotenant.clients.prometheus import PrometheusServer, Recorded
from cotenant.clients.published import KNOWN_SOFTWARE, Software, read_published
from cotenant.errors import WatchError
from cotenant.measure.watch.recorder import WatchRecorder
from cotenant.measure.watch.targets import own_name
from cotenant.measure.watch.track import Track
from cotenant.text import duration, listed, percent

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
    names = frozenset[str]().union(*(software.metrics for software in known))
    recorded = server.recorded({*names, *DEVICE_METRICS}, start_s, min(now_s, start_s + seconds), where)
    tracks = _tracks([series for series in recorded if series.metric in names], known)
    if not tracks:
        raise WatchError(
            f"`{server.name}` recorded nothing of servers that are known in these {duration(seconds)}",
            hint="name a histogram that it scrapes: --histogram http_request_duration_seconds; or look further back: "
            "--for 6h",
        )
    notes += _device_notes(recorded)
    unseen = ["CPU and GPU use of each tenant isn't in these metrics; watching on the machine itself shows it."]
    recorder = WatchRecorder(root, device, [f"--prometheus {server.name}"])
    recorder.add(tracks, "processes")
    recorder.close()
    recorder.describe(tracks, notes, unseen, last=True)
    watched = watched_of([track.totals() for track in tracks], device=device, notes=notes, unseen=unseen)
    return watched, recorder.path


def _tracks(recorded: Sequence[Recorded], known: Sequence[Software]) -> list[Track]:
    """Each target's scrapes, put together again: all samples of a scrape have the same time."""
    targets: dict[tuple[str, ...], dict[float, list[Exposed]]] = {}
    for series in recorded:
        scrapes = targets.setdefault(tuple(series.labels.get(label, "") for label in _TARGET), {})
        for t_s, value in zip(series.t_s, series.value, strict=True):
            if value == value:  # NaN: the target was gone  # noqa: PLR0124
                scrapes.setdefault(t_s, []).append(Exposed(series.metric, series.labels, value))
    found: list[Track] = []
    for target, scrapes in sorted(targets.items()):
        job, instance = target[0], target[1]
        mine: dict[str, Track] = {}
        for t_s in sorted(scrapes):
            for published in read_published(scrapes[t_s], known):
                track = mine.get(published.tenant)
                if track is None:
                    name = own_name(published.tenant or job or instance, instance, {track.tenant for track in found})
                    track = mine[published.tenant] = Track(name, published.software)
                    track.facts |= {"job": job, "instance": instance}
                    found.append(track)
                track.add(t_s, published.totals, f"{published.software}: {instance}")
                track.add_buckets(published.buckets)
    return found


def _device_notes(recorded: Sequence[Recorded]) -> list[str]:
    """How busy GPUs were, where DCGM's exporter was scraped."""
    by_gpu: dict[str, list[str]] = {}
    for series in recorded:
        if series.metric in DEVICE_METRICS and series.value:
            host = series.labels.get("Hostname") or series.labels.get("instance", "?")
            gpu = f"GPU {series.labels.get('gpu', '?')} of {host}"
            by_gpu.setdefault(gpu, []).append(
                f"{DEVICE_METRICS[series.metric]} {percent(float(np.mean(series.value)))}"
            )
    return [f"{gpu}: {listed(said)} of the time, by all its tenants." for gpu, said in sorted(by_gpu.items())]
