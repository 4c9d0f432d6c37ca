"""Compare policies on the same jobs, over many random draws of them."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import positive_interval, ratio_interval
from cotenant.planning.fleet import Fleet
from cotenant.planning.jobs import draw_jobs
from cotenant.planning.policies import POLICIES
from cotenant.planning.replay import replay

OURS = "slack"


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """One policy over all draws. Ratios are relative to our policy on the same jobs: above 1 is worse."""

    policy: str
    completion_s: Estimate
    makespan_s: Estimate
    energy_j: Estimate
    completion_ratio: Estimate
    makespan_ratio: Estimate
    energy_ratio: Estimate
    _: KW_ONLY
    simulated: bool = False
    """The GPUs' profiles were computed by a model, not measured."""


def compare(
    fleet: Fleet,
    *,
    count: int,
    seeds: Sequence[int],
    load: float,
    policies: Sequence[str] = tuple(POLICIES),
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[PolicyComparison, ...]:
    """Replay every policy on every draw.

    Args:
        fleet: The GPUs.
        count: Jobs per draw.
        seeds: One per draw.
        load: GPU time requested over GPU time available.
        policies: By name.
        progress: Called after each draw with the number done.
    """
    names = list(dict.fromkeys([*policies, OURS]))
    figures = np.empty((len(seeds), len(names), 3))
    for row, seed in enumerate(seeds):
        jobs = draw_jobs(count, len(fleet), load=load, seed=seed)
        for column, name in enumerate(names):
            outcome = replay(fleet, jobs, POLICIES[name](fleet, seed))
            figures[row, column] = outcome.mean_completion_s, outcome.makespan_s, outcome.energy_j
        progress(row + 1)
    logs = np.log(figures)
    ours = logs[:, names.index(OURS)]
    compared = tuple(
        PolicyComparison(
            name,
            *(positive_interval(figures[:, column, measure]) for measure in range(3)),
            *(ratio_interval(logs[:, column, measure] - ours[:, measure]) for measure in range(3)),
        )
        for column, name in enumerate(names)
    )
    return tuple(replace(one, simulated=fleet.simulated) for one in compared)
