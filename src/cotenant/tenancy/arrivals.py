"""Absolute arrival times of open loads: the same seed gives the same schedule, whatever the server does."""

import csv
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cotenant import opening
from cotenant.errors import CotenantError
from cotenant.tenancy.load import MOST_ARRIVALS, Load
from cotenant.tenancy.records import Int64s

NS = 1_000_000_000
Floats = npt.NDArray[np.float64]


LARGEST_TRACE = 256 << 20
"""Bytes of a file of arrival times."""


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
    """A trace in a circle, begun at the arrival that the seed says; 0: at its first.

    A trial is shorter than most traces: blocks that all began at the beginning would know nothing of the rest, and
    copies of a tenant would meet all their requests at the same time.
    """
    assert load.path is not None
    times = read_trace(Path(load.path))
    times = times - times[0]
    gap = times[-1] / (len(times) - 1)
    if load.rate_rps is not None:
        times, gap = times / (gap * load.rate_rps), 1 / load.rate_rps
    _require_room(load, horizon_s / gap)
    begin = times[seed % len(times)]
    period = times[-1] + gap  # from its end to its beginning is one mean gap
    repeats = int(np.ceil((begin + horizon_s) / period))
    repeated: Floats = (times[None, :] + period * np.arange(repeats)[:, None]).ravel() - begin
    return (repeated[(repeated >= 0) & (repeated < horizon_s)] * NS).astype(np.int64)


def _require_room(load: Load, expected: float) -> None:
    if expected > MOST_ARRIVALS:
        raise CotenantError(
            f"{load} means {expected:.2g} requests in one trial; at most {MOST_ARRIVALS:,} are sent",
            hint="lower the rate or shorten the window",
        )


def read_trace(path: Path) -> Floats:
    """Arrival times in seconds from a CSV: its `arrival_s` column, or its first one. Refuses anything doubtful."""
    try:
        text = opening.read_text(path, most=LARGEST_TRACE, encoding="utf-8-sig")
        reader = csv.reader(text.splitlines(keepends=True), skipinitialspace=True)
        rows = [(reader.line_num, row) for row in reader if row and not row[0].startswith("#")]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = opening.why(error) if isinstance(error, OSError) else str(error)
        raise CotenantError(
            f"the trace {path} can't be read: {reason}", hint="give a CSV in UTF-8 with one arrival time per row"
        ) from error
    names = rows[0][1] if rows else []
    column = names.index("arrival_s") if "arrival_s" in names else 0
    header = 1 if names and not _is_number(names[column]) else 0
    times = []
    for line, row in rows[header:]:
        if column >= len(row) or not _is_number(row[column]):
            raise CotenantError(
                f"the trace {path} has no arrival time in line {line}", hint="give one number of seconds per row"
            )
        times.append(float(row[column]))
    result = np.asarray(times)
    if result.size < 2 or not np.all(np.isfinite(result)) or np.any(np.diff(result) < 0) or result[-1] <= result[0]:
        raise CotenantError(
            f"the trace {path} needs at least two arrival times, in seconds, in order, not all the same",
            hint="the column `arrival_s`, or else the first one, is read",
        )
    return result


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
