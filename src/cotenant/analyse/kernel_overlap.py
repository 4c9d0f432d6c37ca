"""Kernels by tenant: which take most of its time, and how long kernels of two tenants ran at once."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.tenancy.records import Columns, Int64s

Floats = npt.NDArray[np.float64]
TIMELINE_PARTS = 40
MOST_LAUNCHES = 300
COPY = "[CUDA mem"
"""Prefix of the names of copies: they move data beside the kernels, so they don't count as running."""


@dataclass(frozen=True, slots=True)
class OverlapWindow:
    """The time span under analysis, nanoseconds."""

    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        """Length of the window."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Kernel:
    """All launches of a kernel by a tenant."""

    name: str
    launches: int
    total_ms: float
    mean_us: float
    share: float
    """Share of the time of all the tenant's kernels."""


@dataclass(frozen=True, slots=True)
class TenantKernels:
    """One tenant's kernels."""

    tenant: str
    launches: int
    running_share: float
    """Share of the window in which any of its kernels ran."""
    copying_share: float
    """The same for its copies to and from the device."""
    top: tuple[Kernel, ...]
    others: int
    """Kernels beyond these."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """How long two tenants' kernels ran at the same time on the same device."""

    one: str
    other: str
    share: float
    """Of the window."""
    share_of_one: float
    """Share of the time in which the first tenant's kernels ran."""
    share_of_other: float


@dataclass(frozen=True, slots=True)
class KernelActivity:
    """One counter of the device over the window, where the profiler sampled it."""

    device: str
    sensor: str
    unit: str
    mean: float
    highest: float
    """Highest mean of any part of the timeline."""
    timeline: tuple[float, ...]
    """Means over equal parts of the window; NaN where there is no reading."""


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One kernel of an excerpt."""

    tenant: str
    name: str
    start_us: float
    """From the excerpt's start."""
    duration_us: float


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The middle of the window, short enough for single kernels to be visible."""

    start_s: float
    """From the window's start."""
    length_ms: float
    launches: tuple[KernelLaunch, ...]


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """Kernel statistics of a mix."""

    mix: str
    sharing: str
    window_s: float
    kernels: int
    tenants: tuple[TenantKernels, ...]
    overlaps: tuple[Overlap, ...]
    activity: tuple[KernelActivity, ...] = ()
    excerpt: Excerpt | None = None


def profile_of(
    kernels: Columns,
    readings: Sequence[tuple[str, str, str, Int64s, Floats]],
    *,
    mix: str,
    sharing: str,
    window: OverlapWindow | None = None,
    top: int = 10,
) -> KernelProfile:
    """Analyse the kernels of a mix.

    Args:
        kernels: As in the table `kernels`; may be empty.
        readings: Device, sensor, unit, times and values of each counter.
        mix: Its name.
        sharing: How the device was shared.
        window: The time span; None: from the first kernel (or reading) to the last.
        top: Kernels listed per tenant.
    """
    some = bool(kernels) and len(kernels["start_ns"]) > 0
    if window is None:
        window = (
            window_of(kernels)
            if some
            else OverlapWindow(
                min(int(t_ns[0]) for *_, t_ns, _ in readings), max(int(t_ns[-1]) for *_, t_ns, _ in readings)
            )
        )
    return KernelProfile(
        mix=mix,
        sharing=sharing,
        window_s=window.length_ns / 1e9,
        kernels=int(_clipped(kernels, window)[2].sum()) if some else 0,
        tenants=kernels_by_tenant(kernels, window, top=top) if some else (),
        overlaps=overlaps(kernels, window) if some else (),
        activity=tuple(
            _activity(device, sensor, unit, binned(t_ns, value, window, TIMELINE_PARTS))
            for device, sensor, unit, t_ns, value in readings
            if ((t_ns >= window.start_ns) & (t_ns <= window.end_ns)).any()
        ),
        excerpt=excerpt_of(kernels, window) if some else None,
    )


def excerpt_of(kernels: Columns, window: OverlapWindow, *, most: int = MOST_LAUNCHES) -> Excerpt:
    """The kernels in the middle of the window, up to about this many."""
    count = max(int(_clipped(kernels, window)[2].sum()), 1)
    length = max(1, round(window.length_ns * min(1.0, most / count)))
    begin = window.start_ns + (window.length_ns - length) // 2
    part = OverlapWindow(begin, begin + length)
    starts, ends, inside = _clipped(kernels, part)
    places = np.flatnonzero(inside)[: 2 * most]  # where kernels come in bursts, the middle is denser than the rest
    return Excerpt(
        start_s=(begin - window.start_ns) / 1e9,
        length_ms=length / 1e6,
        launches=tuple(
            KernelLaunch(
                str(kernels["tenant"][k]),
                str(kernels["name"][k]),
                float(starts[k] - begin) / 1e3,
                float(ends[k] - starts[k]) / 1e3,
            )
            for k in places[np.argsort(starts[places], kind="stable")]
        ),
    )


def _activity(device: str, sensor: str, unit: str, parts: Floats) -> KernelActivity:
    return KernelActivity(
        device, sensor, unit, float(np.nanmean(parts)), float(np.nanmax(parts)), tuple(parts.tolist())
    )


def window_of(kernels: Columns) -> OverlapWindow:
    """From the first kernel's start to the last kernel's end."""
    start = kernels["start_ns"]
    return OverlapWindow(int(start.min()), int((start + kernels["duration_ns"]).max()))


def kernels_by_tenant(kernels: Columns, window: OverlapWindow, *, top: int = 10) -> tuple[TenantKernels, ...]:
    """Every tenant with its longest-running kernels, the busiest tenant first."""
    starts, ends, inside = _clipped(kernels, window)
    names = np.asarray(kernels["name"]).astype(str)
    tenants = np.asarray(kernels["tenant"]).astype(str)
    found = []
    for tenant in np.unique(tenants):
        mine = inside & (tenants == tenant)
        copies = np.char.startswith(names, COPY)
        own, counts = np.unique(names[mine], return_inverse=True)
        times = np.bincount(counts, weights=(ends - starts)[mine], minlength=len(own))
        launches = np.bincount(counts, minlength=len(own))
        order = np.argsort(-times, kind="stable")
        total = float(times.sum()) or 1.0
        found.append(
            TenantKernels(
                tenant=str(tenant),
                launches=int(mine.sum()),
                running_share=_length(merged(starts[mine & ~copies], ends[mine & ~copies])) / window.length_ns,
                copying_share=_length(merged(starts[mine & copies], ends[mine & copies])) / window.length_ns,
                top=tuple(
                    Kernel(
                        str(own[k]),
                        int(launches[k]),
                        float(times[k] / 1e6),
                        float(times[k] / launches[k] / 1e3),
                        float(times[k] / total),
                    )
                    for k in order[:top]
                ),
                others=max(0, len(own) - top),
            )
        )
    return tuple(sorted(found, key=lambda share: -share.running_share))


def overlaps(kernels: Columns, window: OverlapWindow) -> tuple[Overlap, ...]:
    """Every pair of tenants: time in which a kernel of each ran on the same device."""
    running = _running(kernels, window)
    tenants = sorted({tenant for tenant, _ in running})
    found = []
    for tenant, other in itertools.combinations(tenants, 2):
        devices = {device for name, device in running if name in {tenant, other}}
        nothing = (np.empty(0, np.int64), np.empty(0, np.int64))
        pairs = [(running.get((tenant, d), nothing), running.get((other, d), nothing)) for d in sorted(devices)]
        both = sum(_shared_ns(first, second) for first, second in pairs)
        alone = [sum(_length(pair[side]) for pair in pairs) for side in (0, 1)]
        # Each device contributes its own window.
        length = window.length_ns * max(len(devices), 1)
        found.append(Overlap(tenant, other, both / length, both / (alone[0] or 1), both / (alone[1] or 1)))
    return tuple(found)


def merged(starts: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
    """The union of intervals, as disjoint intervals in order."""
    if not starts.size:
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate(([True], starts[1:] > ends[:-1]))
    last = np.concatenate((first[1:], [True]))
    return starts[first], ends[last]


def binned(t_ns: Int64s, value: Floats, window: OverlapWindow, bins: int) -> Floats:
    """Means over equal parts of the window; NaN where a part has no reading."""
    place = ((t_ns - window.start_ns) * bins) // max(window.length_ns, 1)
    inside = (place >= 0) & (place < bins)
    count = np.bincount(place[inside], minlength=bins)
    total = np.bincount(place[inside], weights=value[inside], minlength=bins)
    means: Floats = np.divide(total, count, out=np.full(bins, np.nan), where=count > 0)
    return means


def _running(kernels: Columns, window: OverlapWindow) -> dict[tuple[str, str], tuple[Int64s, Int64s]]:
    starts, ends, inside = _clipped(kernels, window)
    inside &= ~np.char.startswith(np.asarray(kernels["name"]).astype(str), COPY)
    tenants = np.asarray(kernels["tenant"]).astype(str)
    devices = np.asarray(kernels["device"]).astype(str) if "device" in kernels else np.full(len(tenants), "")
    return {
        (str(tenant), str(device)): merged(starts[mine], ends[mine])
        for tenant in np.unique(tenants)
        for device in np.unique(devices)
        if (mine := inside & (tenants == tenant) & (devices == device)).any()
    }


def _clipped(kernels: Columns, window: OverlapWindow) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
    """Starts and ends clipped to the window, and the kernels that overlap it."""
    starts = np.asarray(kernels["start_ns"], np.int64)
    ends = starts + np.asarray(kernels["duration_ns"], np.int64)
    inside = (starts < window.end_ns) & (ends > window.start_ns)
    return np.clip(starts, window.start_ns, window.end_ns), np.clip(ends, window.start_ns, window.end_ns), inside


def _length(intervals: tuple[Int64s, Int64s]) -> int:
    return int((intervals[1] - intervals[0]).sum())


def _shared_ns(first: tuple[Int64s, Int64s], other: tuple[Int64s, Int64s]) -> int:
    """Length of the intersection: the sum of both lengths less that of their union."""
    union = merged(np.concatenate((first[0], other[0])), np.concatenate((first[1], other[1])))
    return _length(first) + _length(other) - _length(union)
