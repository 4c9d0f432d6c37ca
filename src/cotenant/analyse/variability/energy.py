"""Energy per request from power readings, with what the sensor may be wrong by; and who pays for shared power."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from cotenant.analyse.estimate import Estimate
from cotenant.analyse.intervals import Floats
from cotenant.analyse.missing import Missing, Number

Rule = Literal["activity share", "idle split", "shapley"]
RULES: tuple[Rule, ...] = get_args(Rule)
MOST_FOR_SHAPLEY = 12


@dataclass(frozen=True, slots=True)
class SensorWorth:
    """What is known of a power sensor."""

    period_s: float
    """How often its reading changes."""
    window_s: float
    """Over how long a reading averages."""
    gain_error: float = 0.05
    """How far its scale may be off, as a share: boards were found 0 to 6 % off a wall meter."""

    @property
    def seen(self) -> float:
        """The share of time that it looks at: 0.25 on an A100."""
        return min(1.0, self.window_s / self.period_s) if self.period_s > 0 else 1.0


def energy_per_request(
    at_s: Floats, power_w: Floats, *, requests: int, begin_s: float, end_s: float, sensor: SensorWorth
) -> Number:
    """Joules per request over a window: the readings' integral, and an interval of what the sensor leaves open.

    The interval holds three things: the sensor's scale, the time that it doesn't look at (as if it were sampled at
    random), and the edges of the window, where a reading is up to a period and half a window late.
    """
    late = sensor.period_s + sensor.window_s / 2
    if requests < 1:
        return Missing("no request was served in the window")
    if end_s - begin_s < 2 * max(sensor.period_s, sensor.window_s):
        return Missing(f"a window of {end_s - begin_s:.3g} s is too short for a sensor that needs {late:.3g} s")
    known = np.isfinite(power_w)
    at, power = at_s[known], power_w[known]
    inside = (at >= begin_s) & (at <= end_s)
    if inside.sum() < 3:
        return Missing(f"{int(inside.sum())} power readings lie in the window", int(inside.sum()))
    times = np.concatenate(([begin_s], at[inside], [end_s]))
    values = np.interp(times, at, power)
    joules = float(np.sum(np.diff(times) * (values[1:] + values[:-1]) / 2))
    span = end_s - begin_s
    fresh = max(2.0, span / max(sensor.period_s, float(np.median(np.diff(times)))))
    deviation = float(values.std(ddof=1))
    unseen = span * deviation * math.sqrt((1 - sensor.seen) / fresh)
    edges = late * deviation * math.sqrt(2)
    error = math.hypot(sensor.gain_error * joules, 1.96 * unseen, edges)
    return Estimate(
        joules / requests,
        max(0.0, joules - error) / requests,
        (joules + error) / requests,
        int(inside.sum()),
        f"integral of power; sensor's scale within {sensor.gain_error:.0%}, it sees {sensor.seen:.0%} of the time",
    )


def attribute(
    rule: Rule,
    power_w: float,
    activity: Mapping[str, float],
    *,
    idle_w: float = 0.0,
    coalitions: Mapping[frozenset[str], float] | None = None,
) -> dict[str, float]:
    """Watts of a shared device by tenant; they add up to the power.

    Args:
        rule: `activity share`: all power by activity, so an idle tenant pays nothing even for the device being on.
            `idle split`: what the idle device draws in equal parts, the rest by activity. `shapley`: each pays what it
            adds on average over all orders of arrival, from the power of every set of tenants; no activity is needed.
        power_w: What the device drew.
        activity: Each tenant's activity, in any unit.
        idle_w: What the device draws with nobody active.
        coalitions: For `shapley`: power with exactly these tenants on, of every set.

    Raises:
        ValueError: Something the rule needs is missing.
    """
    tenants = list(activity)
    if not tenants:
        raise ValueError("nobody is there to attribute power to")
    match rule:
        case "shapley":
            return _shapley(tenants, power_w, idle_w, coalitions or {})
        case "activity share":
            return _by_activity(power_w, activity)
        case "idle split":
            common = min(idle_w, power_w)
            active = _by_activity(power_w - common, activity)
            return {tenant: common / len(tenants) + watts for tenant, watts in active.items()}


def _by_activity(power_w: float, activity: Mapping[str, float]) -> dict[str, float]:
    whole = sum(activity.values())
    if whole <= 0:
        return {tenant: power_w / len(activity) for tenant in activity}
    return {tenant: power_w * part / whole for tenant, part in activity.items()}


def _shapley(
    tenants: list[str], power_w: float, idle_w: float, coalitions: Mapping[frozenset[str], float]
) -> dict[str, float]:
    n = len(tenants)
    if n > MOST_FOR_SHAPLEY:
        raise ValueError(
            f"Shapley values of {n} tenants need {2**n:,} measurements; at most {MOST_FOR_SHAPLEY} tenants"
        )
    worth = {frozenset[str](): idle_w, frozenset(tenants): power_w, **coalitions}
    groups = (set(group) for k in range(n + 1) for group in itertools.combinations(tenants, k))
    missing = [group for group in groups if frozenset(group) not in worth]
    if missing:
        raise ValueError(f"Shapley values need the power of every set of tenants; missing: {missing[0]}")
    found = {}
    for tenant in tenants:
        others = [other for other in tenants if other != tenant]
        found[tenant] = sum(
            (worth[frozenset({*group, tenant})] - worth[frozenset(group)]) / (n * math.comb(n - 1, k))
            for k in range(n)
            for group in itertools.combinations(others, k)
        )
    # What nobody adds (the idle device) is everybody's.
    return {tenant: watts + worth[frozenset()] / n for tenant, watts in found.items()}
