"""Attribute the power of a shared device to its tenants, by a named rule."""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

Rule = Literal["activity share", "idle split", "shapley"]
RULES: tuple[Rule, ...] = get_args(Rule)
MEANINGS: dict[Rule, str] = {
    "activity share": "all power by how long each was at work",
    "idle split": "idle power in equal parts, the rest by how long each was at work",
    "shapley": "each pays what it adds, averaged over all orders in which they could have arrived",
}
MOST_FOR_SHAPLEY = 12


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
            `idle split`: the idle device's power in equal parts, the rest by activity. `shapley`: each pays what it
            adds on average over all orders of arrival, from the power of every set of tenants; no activity is needed.
        power_w: Power of the device.
        activity: Each tenant's activity, in any unit.
        idle_w: Power of the device with no tenant active.
        coalitions: For `shapley`: power with exactly these tenants active, for every set.

    Raises:
        ValueError: Something the rule needs is missing.
    """
    tenants = list(activity)
    if not tenants:
        raise ValueError("there is no tenant to attribute power to")
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
    # Power that no tenant adds (the idle device) is shared by all.
    return {tenant: watts + worth[frozenset()] / n for tenant, watts in found.items()}


# --- power attributed to each of several kinds of work on a GPU, from shared and solo trials

Together = frozenset[str]


class Drawn(NamedTuple):
    """A kind of work on a GPU in a trial, and the power of the whole GPU meanwhile."""

    source: str
    settings: str
    simulated: bool
    trial: int
    work: str
    neighbours: int
    time_ms: float
    requests: int
    power_w: float


@dataclass(frozen=True, slots=True)
class SharedPower:
    """A set of workloads that shared a GPU in a source under a setting; means over trials."""

    gpu: str
    source: str
    settings: str
    simulated: bool
    power_w: float
    trials: int
    rule: Rule
    """`shapley` where every subset was measured too, else `activity share`."""
    watts: Mapping[str, float]
    """By work; they add up to the power."""


def shared_power(drawn: Iterable[Drawn], gpu: str, names: Mapping[str, str]) -> list[SharedPower]:
    """Every set of different kinds of work that shared this GPU while its power was read.

    Args:
        drawn: Power of the GPU, trial by trial.
        gpu: Its name.
        names: Names of the sources, by key.
    """
    trials: dict[tuple[str, str, bool], dict[int, list[Drawn]]] = {}
    for node in drawn:
        trials.setdefault((node.source, node.settings, node.simulated), {}).setdefault(node.trial, []).append(node)
    found = []
    for (source, settings, simulated), by_trial in trials.items():
        sets: dict[Together, list[list[Drawn]]] = {}
        for rows in by_trial.values():
            if len(rows) == 1 + rows[0].neighbours:  # copies of the same work share a row: not a set of kinds
                sets.setdefault(frozenset(row.work for row in rows), []).append(rows)
        power = {works: float(np.mean([rows[0].power_w for rows in many])) for works, many in sets.items()}
        for works, many in sets.items():
            if len(works) > 1:
                rule, watts = _split(works, power, many)
                found.append(SharedPower(gpu, names[source], settings, simulated, power[works], len(many), rule, watts))
    return found


def _split(
    works: Together, power: Mapping[Together, float], trials: list[list[Drawn]]
) -> tuple[Rule, dict[str, float]]:
    parts = [frozenset(part) for k in range(1, len(works) + 1) for part in itertools.combinations(sorted(works), k)]
    at_work = {
        work: float(np.mean([row.time_ms * row.requests for rows in trials for row in rows if row.work == work]))
        for work in sorted(works)
    }
    if all(part in power for part in parts):
        # Idle power cancels: each tenant adds it once and shares it once.
        return "shapley", attribute("shapley", power[works], at_work, coalitions={part: power[part] for part in parts})
    return "activity share", attribute("activity share", power[works], at_work)
