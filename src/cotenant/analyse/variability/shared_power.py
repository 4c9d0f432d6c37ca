"""Power attributed to each of several kinds of work on one GPU, from shared and solo trials."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cotenant.analyse.variability.attribution import Rule, attribute

Together = frozenset[str]


class Drawn(NamedTuple):
    """One kind of work on a GPU in one trial, and the power of the whole GPU meanwhile."""

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
    """One set of workloads that shared a GPU in one source under one setting; means over trials."""

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

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**{name: getattr(self, name) for name in self.__slots__}, "watts": dict(self.watts)}


def shared_power(drawn: Iterable[Drawn], gpu: str, names: Mapping[str, str]) -> list[SharedPower]:
    """Every set of different kinds of work that shared this GPU while its power was read.

    Args:
        drawn: Power of the GPU, trial by trial.
        gpu: Its name.
        names: Names of the sources, by key.
    """
    trials: dict[tuple[str, str, bool], dict[int, list[Drawn]]] = {}
    for one in drawn:
        trials.setdefault((one.source, one.settings, one.simulated), {}).setdefault(one.trial, []).append(one)
    found = []
    for (source, settings, simulated), by_trial in trials.items():
        sets: dict[Together, list[list[Drawn]]] = {}
        for rows in by_trial.values():
            if len(rows) == 1 + rows[0].neighbours:  # copies of one kind of work are one row, not a set of kinds
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
