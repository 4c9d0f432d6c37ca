"""How much a tenant slows another, from their ordinary activity; or why that can't be known yet."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

import numpy as np

from cotenant.analyse.estimates.distributions import student_t
from cotenant.analyse.estimates.intervals import anytime_factor
from cotenant.analyse.neighbours.regression import (
    FEWEST,
    LEVELS,
    Bools,
    Effect,
    Level,
    Levels,
    Rows,
    effects,
    levels_of,
    residuals,
)
from cotenant.analyse.neighbours.totals import Floats
from cotenant.tenancy.interval import Estimate, Missing, Number

Verdict = Literal["slows", "hardly", "can't tell"]

BLOCKS_S = (300.0, 120.0, 60.0, 30.0, 600.0, 1200.0, 2400.0, 4800.0)
"""Lengths of blocks, the preferred first. Shorter blocks serve short watching: an event in a block still affects the
next. Longer ones serve neighbours that rarely change: more drift is left inside."""
INTERVALS_IN_SHORT = 6
"""Intervals of the shortest block."""
FEWEST_BLOCKS = 5
"""Blocks with both levels before there is an interval."""
ENOUGH_BLOCKS = 8
SMALL = 1.10
"""A neighbour that slows by less than this hardly slows."""
PRECISE = 0.10
"""Half-width that an experiment is asked to reach."""
LEVEL = 0.95
_DOUBT = 0.99
"""Level of the test for causes that come before their effect: it runs for every pair, so it must rarely be wrong."""


@dataclass(frozen=True, slots=True)
class TenantSeries:
    """What a tenant did in each interval; NaN where that isn't known."""

    tenant: str
    step_s: float
    requests: Floats
    """Requests completed."""
    units: Floats
    """What ``time_s`` is the sum over: requests or tokens. Empty if its times aren't published."""
    time_s: Floats
    measure: str
    """`latency`, `time per token`, ..."""
    activity: Floats
    """Work per second, as its neighbours feel it."""
    activity_unit: str
    """`/s`, ` tokens/s`, `% of a core`, ..."""
    lengths: tuple[Floats, ...] = ()
    """Sizes of its requests: mean prompt, mean answer."""
    cores: Floats = field(default_factory=lambda: np.empty(0))
    """CPU time per second; empty if its process isn't watched."""
    gpu: Floats = field(default_factory=lambda: np.empty(0))
    """Share of the time with any of its kernels on the GPU; empty where the driver doesn't tell."""

    @property
    def timed(self) -> bool:
        """Whether its times are published."""
        return bool(self.units.size)

    @property
    def mean_s(self) -> Floats:
        """Mean time of a unit of work in each interval; NaN without any."""
        if not self.timed:
            return np.full(self.activity.size, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.units > 0, self.time_s / self.units, np.nan)


@dataclass(frozen=True, slots=True)
class Influence:
    """One tenant's effect on another."""

    neighbour: str
    tenant: str
    measure: str
    verdict: Verdict
    busy: Number
    """Time of a unit of work while the neighbour is busy, over the time at its reference level."""
    light: Number
    reference: Level
    """The neighbour's lowest level with enough intervals: `idle`, or `light` if it was never idle."""
    busy_from: float
    unit: str
    raw: float | None
    """The same ratio without regard to own load and drift."""
    minutes: float
    """Watched."""
    more_minutes: float | None = None
    """Further watching that would decide, at the present rate; None if decided, or if watching won't."""
    experiment: tuple[int, float] | None = None
    """Pauses of the neighbour that would decide: how many, and of how many seconds; None if watching does."""


def influences(series: Sequence[TenantSeries], *, looks: Literal["once", "often"] = "once") -> list[Influence]:
    """Every ordered pair whose second tenant publishes times.

    Args:
        series: All tenants, over the same intervals.
        looks: ``often``: intervals hold however often they are looked at, as in a live view; they are wider.
    """
    levels = [levels_of(tenant.activity) for tenant in series]
    return [
        _influence(series, levels, victim, neighbour, looks)
        for victim, tenant in enumerate(series)
        if tenant.timed
        for neighbour in range(len(series))
        if neighbour != victim
    ]


@dataclass(frozen=True, slots=True)
class _Pair:
    """The intervals that can be compared."""

    rows: Rows
    columns: tuple[Level, ...]
    """Levels of the neighbour that the first columns stand for."""
    reference: Level
    raw: float | None


def _influence(
    series: Sequence[TenantSeries], levels: Sequence[Levels], victim: int, neighbour: int, looks: str
) -> Influence:
    tenant, other, there = series[victim], series[neighbour], levels[neighbour]
    minutes = float(np.isfinite(tenant.requests).sum()) * tenant.step_s / 60
    pair, why = _pair(series, levels, victim, neighbour)
    if pair is None:
        return Influence(
            other.tenant, tenant.tenant, tenant.measure, "can't tell", Missing(why), Missing(why), "idle",
            there.busy_from, other.activity_unit, None, minutes, None, _experiment(tenant),
        )  # fmt: skip
    found = effects(pair.rows)
    numbers = {level: factor_of(effect, looks) for level, effect in zip(pair.columns, found, strict=False)}
    busy = numbers.get("busy", Missing(f"{other.tenant} was hardly ever busy"))
    doubt = _came_first(series, levels, victim, neighbour, pair) if isinstance(busy, Estimate) else None
    if doubt is not None:
        busy = Missing(doubt, found[pair.columns.index("busy")].blocks)
    verdict, more = _verdict(busy, minutes, found[pair.columns.index("busy")] if "busy" in pair.columns else None)
    return Influence(
        other.tenant, tenant.tenant, tenant.measure, verdict, busy,
        numbers.get("light", Missing(f"{other.tenant} was hardly ever lightly loaded")), pair.reference,
        there.busy_from, other.activity_unit, pair.raw, minutes, more,
        _experiment(tenant, pair.rows) if verdict == "can't tell" and more is None else None,
    )  # fmt: skip


def _pair(
    series: Sequence[TenantSeries], levels: Sequence[Levels], victim: int, neighbour: int
) -> tuple[_Pair | None, str]:
    """The comparable intervals, or why there are none."""
    tenant, other, there = series[victim], series[neighbour], levels[neighbour]
    known = np.isfinite(tenant.units) & np.isfinite(tenant.time_s) & (tenant.units > 0) & (tenant.time_s > 0)
    usable = known & np.isfinite(there.at)
    if not usable.any():
        return None, f"nothing was read of {tenant.tenant} and {other.tenant} at the same time"
    settled = usable & _settled(there.at)
    count: dict[Level, int] = {level: int((settled & _at(there, level)).sum()) for level in LEVELS}
    enough: list[Level] = [level for level in LEVELS if count[level] >= FEWEST]
    if len(enough) < 2:
        return None, _constant(tenant, other.tenant, count, there, levels[victim])
    reference = enough[0]
    own, narrow = own_load(tenant, settled & _at(there, reference), settled & _at(there, enough[-1]))
    kept = settled & narrow
    others = {index: third for index, third in enumerate(levels) if index not in (victim, neighbour)}
    for third in others.values():
        kept &= np.isfinite(third.at)
    columns = [_at(there, level) for level in enough[1:]]
    if min(int((kept & side).sum()) for side in (columns[-1], _at(there, reference))) < FEWEST:
        return None, (
            f"{other.tenant} was {enough[-1]} only while {tenant.tenant} had another load than usual: their traffic "
            "comes and goes together"
        )
    whose = [neighbour] * len(columns)
    for index, level in product(others, LEVELS[1:]):
        column = _at(others[index], level)
        if FEWEST <= int((kept & column).sum()) <= int(kept.sum()) - FEWEST:
            columns.append(column)
            whose.append(index)
    rows = _in_blocks(tenant, kept, own, columns, tuple(whose))
    if (confused := _inseparable(series, rows, neighbour)) is not None:
        return None, f"{other.tenant} and {confused} were always busy at the same times"
    raw = _ratio(tenant, settled & _at(there, enough[-1]), settled & _at(there, reference))
    return _Pair(rows, tuple(enough[1:]), reference, raw), ""


def _at(levels: Levels, level: Level) -> Bools:
    found: Bools = levels.at == LEVELS.index(level)
    return found


def _settled(at: Floats) -> Bools:
    """Intervals whose predecessor was at the same level: requests that end now may have begun then."""
    same: Bools = np.concatenate([[False], at[1:] == at[:-1]])
    return same


def _constant(tenant: TenantSeries, other: str, count: dict[Level, int], there: Levels, own: Levels) -> str:
    """Why two levels of the neighbour can't be compared."""
    level = max(count, key=lambda value: count[value])
    if sum(there.seen(reference) > 0 for reference in LEVELS) > 1:
        return f"{other} rarely stayed at one level for two intervals of {tenant.step_s:g} s"
    if level == "busy" and own.seen("busy") > own.seen("idle") + own.seen("light"):
        return f"{tenant.tenant} and {other} were both busy all the time"
    return f"{other} was {'lightly loaded' if level == 'light' else level} all the time"


def own_load(tenant: TenantSeries, low: Bools, high: Bools) -> tuple[Floats, Bools]:
    """Columns of the own load, and the intervals whose own load both of the neighbour's levels met."""
    rate = tenant.requests if np.nansum(tenant.requests) > 0 else tenant.units
    known = rate[np.isfinite(rate) & (rate > 0)]
    load = np.log(np.maximum(np.nan_to_num(rate, nan=0.0), 0.5) / (float(np.median(known)) if known.size else 1.0))
    before = np.concatenate([load[:1], load[:-1]])
    columns = [load, load**2, before, before**2]
    for length in tenant.lengths:
        usual = float(np.nanmedian(length)) if np.isfinite(length).any() else 1.0
        columns.append(np.log(np.maximum(np.nan_to_num(length, nan=usual), 1e-9) / max(usual, 1e-9)))
    narrow = np.ones(load.size, np.bool_)
    if low.any() and high.any():
        least = max(float(np.quantile(load[low], 0.01)), float(np.quantile(load[high], 0.01)))
        most = min(float(np.quantile(load[low], 0.99)), float(np.quantile(load[high], 0.99)))
        narrow = (load >= least - 0.1) & (load <= most + 0.1)
    return np.stack(columns, axis=1), narrow


def _in_blocks(
    tenant: TenantSeries, kept: Bools, own: Floats, columns: Sequence[Bools], whose: tuple[int, ...]
) -> Rows:
    """Cut time into blocks of the first length of which enough contain both sides."""
    t_s = np.arange(kept.size) * tenant.step_s
    best: tuple[int, Rows] | None = None
    mean = tenant.time_s[kept] / tenant.units[kept]
    levels = np.stack(columns, axis=1)[kept].astype(np.float64)
    compared = max(at for at, owner in enumerate(whose) if owner == whose[0])
    for length in block_lengths(tenant.step_s):
        block = np.floor(t_s[kept] / length)
        rows = Rows(mean, tenant.units[kept], block, own[kept], levels, whose)
        telling = len(rows.informative(compared))
        if telling >= ENOUGH_BLOCKS:
            return rows
        if best is None or telling > best[0]:
            best = (telling, rows)
    assert best is not None
    return best[1]


def block_lengths(step_s: float) -> list[float]:
    """The lengths of blocks to try: the shortest only with short intervals, of which enough fit."""
    return [length for length in BLOCKS_S if length > min(BLOCKS_S) or length >= INTERVALS_IN_SHORT * step_s]


def _inseparable(series: Sequence[TenantSeries], rows: Rows, neighbour: int) -> str | None:
    """A third tenant that was busy exactly when the neighbour was."""
    mine = [at for at, owner in enumerate(rows.whose) if owner == neighbour][-1]
    for at, owner in enumerate(rows.whose):
        if owner != neighbour and np.abs(rows.levels[:, at] - rows.levels[:, mine]).mean() < 0.02:
            return series[owner].tenant
    return None


def _ratio(tenant: TenantSeries, above: Bools, below: Bools) -> float:
    high = float(tenant.time_s[above].sum() / tenant.units[above].sum())
    return high / float(tenant.time_s[below].sum() / tenant.units[below].sum())


def factor_of(effect: Effect, looks: str) -> Number:
    """The factor with its interval, or why there is none yet."""
    if effect.blocks < FEWEST_BLOCKS or not math.isfinite(effect.error):
        return Missing(
            f"its level changed within only {effect.blocks} of the blocks that drift is removed by", effect.blocks
        )
    times = student_t(effect.blocks - 1, LEVEL)
    if looks == "often":
        times *= anytime_factor(effect.blocks, LEVEL) / 1.96
    half = times * effect.error
    return Estimate(
        math.exp(effect.log), math.exp(effect.log - half), math.exp(effect.log + half), effect.blocks,
        "jackknife over blocks" + (", valid at every look" if looks == "often" else ""),
    )  # fmt: skip


def _came_first(
    series: Sequence[TenantSeries], levels: Sequence[Levels], victim: int, neighbour: int, pair: _Pair
) -> str | None:
    """Whether the tenant was already slow before its neighbour became busy: then something else caused both.

    Compares intervals in which the neighbour is at its reference level and stays there for another, with those
    shortly before it becomes busy.
    """
    tenant, there = series[victim], levels[neighbour]
    still = _at(there, pair.reference)
    following = still & _shifted(still, 1)
    soon = following & (_shifted(_at(there, "busy"), 2) | _shifted(_at(there, "busy"), 3))
    known = np.isfinite(tenant.units) & (tenant.units > 0) & (tenant.time_s > 0) & _settled(there.at)
    own, _ = own_load(tenant, still, still)
    kept = known & following
    if int((kept & soon).sum()) < FEWEST or int((kept & ~soon).sum()) < FEWEST:
        return None
    rows = _in_blocks(tenant, kept, own, [soon], (neighbour,))
    effect = effects(rows)[0]
    if effect.blocks < FEWEST_BLOCKS or not math.isfinite(effect.error):
        return None
    if effect.log - student_t(effect.blocks - 1, _DOUBT) * effect.error > 0:
        return (
            f"{tenant.tenant} was already {math.exp(effect.log):.2f}x slower shortly before "
            f"{series[neighbour].tenant} became busy, so something else slows it or it causes that load itself"
        )
    return None


def _shifted(values: Bools, by: int) -> Bools:
    """Each interval's later value."""
    return np.concatenate([values[by:], np.zeros(by, np.bool_)])


def _verdict(busy: Number, minutes: float, effect: Effect | None) -> tuple[Verdict, float | None]:
    if isinstance(busy, Estimate) and busy.lo is not None and busy.hi is not None:
        if busy.lo > 1:
            return "slows", None
        if busy.hi < SMALL:
            return "hardly", None
        half = math.log(busy.hi / busy.lo) / 2
        away = max(math.log(busy.est), math.log(SMALL) - math.log(busy.est))
        return "can't tell", minutes * max(0.1, (half / away) ** 2 - 1)
    if effect is not None and 0 < effect.blocks < FEWEST_BLOCKS:
        return "can't tell", minutes * (FEWEST_BLOCKS / effect.blocks - 1)
    return "can't tell", None


def _experiment(tenant: TenantSeries, rows: Rows | None = None) -> tuple[int, float] | None:
    """The shortest series of pauses whose comparison is precise enough, from how the tenant's times scatter."""
    known = np.isfinite(tenant.units) & np.isfinite(tenant.time_s) & (tenant.units > 0)
    if int(known.sum()) < 2 * FEWEST:
        return None
    if rows is not None:
        scatter = residuals(rows)
    else:
        mean = tenant.time_s[known] / tenant.units[known]
        # Of neighbouring intervals: drift doesn't matter when pauses are short and repeated.
        scatter = np.diff(np.log(np.maximum(mean, 1e-12))) / math.sqrt(2)
    spread = max(float(np.std(scatter)), 0.01)
    turns = 6
    intervals = 2 / turns * (student_t(turns - 1, LEVEL) * spread / PRECISE) ** 2
    return turns, max(3.0, math.ceil(intervals) + 1) * tenant.step_s
