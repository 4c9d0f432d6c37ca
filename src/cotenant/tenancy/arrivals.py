"""Absolute arrival times of open loads: the same seed gives the same schedule, whatever the server does."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cotenant.errors import CotenantError
from cotenant.tenancy.load import MOST_ARRIVALS, Load
from cotenant.tenancy.records import Int64s
from cotenant.workloads.traces import read_trace

NS = 1_000_000_000
Floats = npt.NDArray[np.float64]


def arrivals_ns(load: Load, *, seed: int, horizon_s: float) -> Int64s:
    """Offsets from the start, in ns and in order, of all requests due before the horizon."""
    if not load.open:
        raise ValueError("a closed load has no schedule")
    if load.kind == "trace":
        return _from_trace(load, seed, horizon_s)
    if load.rate_rps is None:
        raise ValueError(f"the rate of {load} has not been resolved")
    _require_room(load, load.rate_rps * horizon_s)
    random = np.random.default_rng(seed)
    expected = load.rate_rps * horizon_s
    times: Floats = np.empty(0)
    while times.size == 0 or times[-1] < horizon_s:
        count = int(expected + 6 * np.sqrt(expected) * max(1.0, load.cv) + 16)
        gaps = _gaps(load, random, count)
        times = np.concatenate([times, (times[-1] if times.size else 0.0) + np.cumsum(gaps)])
    return (times[times < horizon_s] * NS).astype(np.int64)


def _gaps(load: Load, random: np.random.Generator, count: int) -> Floats:
    assert load.rate_rps is not None
    mean = 1 / load.rate_rps
    if load.kind == "poisson":
        return random.exponential(mean, count)
    shape = 1 / load.cv**2
    return random.gamma(shape, mean / shape, count)


def _from_trace(load: Load, seed: int, horizon_s: float) -> Int64s:
    """A trace repeated cyclically from an arrival chosen by the seed; 0: from its first.

    A trial is shorter than most traces: blocks that all start at the beginning would miss the rest, and copies of a
    tenant would receive all their requests at the same time.
    """
    times = _times(load)
    gap = times[-1] / (len(times) - 1)
    if load.rate_rps is not None:
        times, gap = times / (gap * load.rate_rps), 1 / load.rate_rps
    _require_room(load, horizon_s / gap)
    begin = times[seed % len(times)]
    period = times[-1] + gap  # the gap from its end to its beginning is one mean gap
    repeats = int(np.ceil((begin + horizon_s) / period))
    repeated: Floats = (times[None, :] + period * np.arange(repeats)[:, None]).ravel() - begin
    return (repeated[(repeated >= 0) & (repeated < horizon_s)] * NS).astype(np.int64)


def first_arrival(load: Load, *, seed: int) -> int:
    """Position in its trace of the first arrival that `arrivals_ns` returns; 0 for loads without a trace."""
    if load.kind != "trace":
        return 0
    times = _times(load)
    return int(np.searchsorted(times, times[seed % len(times)]))


def _times(load: Load) -> Floats:
    """Offsets from the first arrival. Called in every trial, so an unchanged file is read once."""
    assert load.path is not None
    path = Path(load.path)
    return _times_in(path, path.stat().st_mtime_ns if path.exists() else 0)


@lru_cache(maxsize=8)
def _times_in(path: Path, _changed_ns: int) -> Floats:
    times: Floats = read_trace(path).times_s
    from_first: Floats = times - times[0]
    return from_first


def _require_room(load: Load, expected: float) -> None:
    if expected > MOST_ARRIVALS:
        raise CotenantError(
            f"{load} means {expected:.2g} requests in one trial; at most {MOST_ARRIVALS:,} are sent",
            hint="lower the rate or shorten the window",
        )
