"""Tails of requests of a mix: how its queues are asked for, and queues of requests that all take as long."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from cotenant.prediction.interference.forecast import Tail
from cotenant.prediction.interference.predictor import stretched
from cotenant.prediction.interference.setting import Setting
from cotenant.prediction.kernels.columns import Floats
from cotenant.scheduling.simulation import NEVER, Replications, requests_at, tail_of
from cotenant.tenancy.interval import Interval
from cotenant.tenancy.load import Load, arrivals_ns
from cotenant.tenancy.objective import METRICS, Objective

Ends = Sequence[Sequence[Mapping[str, Replications]]]
"""Times of requests at the lower end, the estimate and the upper end of service times, by tenant and metric."""


class Queues(Protocol):
    """How requests of a mix wait and how long they take, with software that may execute several at once."""

    def slowdowns(self, group: tuple[str, ...], way: str, *, exact: bool) -> Sequence[float] | None:
        """At the tenants' loads, relative to alone on the whole device; None if they can't be simulated."""
        ...

    def times(
        self, group: tuple[str, ...], way: str, factors: Sequence[Sequence[float]] | None, *, exact: bool
    ) -> Ends | None:
        """None if they can't be simulated.

        Args:
            group: The mix.
            way: How they share.
            factors: By end and tenant: service times over those of the prior; None: the prior's validated range.
            exact: By the event simulation instead of the closed form.
        """
        ...


def over_prior(slowdowns: Sequence[Interval], before: Sequence[float]) -> list[list[float]]:
    """By end and tenant: slowdowns over those of the prior."""
    return [[end / prior for end, prior in zip(tenants, before, strict=True)] for tenants in _ends(slowdowns)]


def _ends(slowdowns: Sequence[Interval]) -> list[tuple[float, ...]]:
    """Lower ends, estimates and upper ends; the estimate where an end is unknown."""
    ends = (
        (now.est if now.lo is None else now.lo, now.est, now.est if now.hi is None else now.hi) for now in slowdowns
    )
    return list(zip(*ends, strict=True))


def tail(
    ends: Sequence[Mapping[str, Replications]], objectives: Sequence[Objective], *, open_ended: bool = False
) -> Tail:
    """From the queue at the estimate of the service time and at its ends: an error of it grows with the queue."""

    def ranged(metric: str, level: float) -> Interval:
        (lo, *_), (_, est, _), (*_, hi) = (times[metric].quantile(level) for times in ends)
        return Interval(1e3 * est, *((None, None) if open_ended else (1e3 * lo, 1e3 * hi)))

    kept = []
    for objective in objectives:
        within = [times[objective.metric].within(objective.limit_ms / 1e3) for times in ends]
        kept.append(Interval(within[1], *((None, None) if open_ended else (min(within), max(within)))))
    return Tail(
        ranged("latency", 0.5),
        ranged("latency", 0.99),
        min(kept, key=lambda share: share.est, default=None),
        {objective.label: ranged(objective.metric, objective.quantile) for objective in objectives},
    )


def constant_tails(
    setting: Setting,
    tenants: Sequence[int],
    solo_s: Floats,
    loads: Sequence[Load | None],
    *,
    slowdowns: Sequence[Interval],
    objectives: Sequence[Sequence[Objective]],
    at_load: bool,
) -> list[Tail | None]:
    """Of requests that are executed one at a time and all take as long.

    Args:
        setting: Says how much of each slowdown is whose doing.
        tenants: The mix, by number.
        solo_s: Their times alone.
        loads: Their arrivals; None: always busy, without a tail.
        slowdowns: Beside the others.
        objectives: By tenant.
        at_load: Slowdowns are those at the loads, instead of those beside neighbours that are always busy.
    """
    rates = np.array([math.nan if load is None else load.rate_rps or math.nan for load in loads])
    weights = np.zeros((len(tenants), len(tenants)))
    for number, tenant in enumerate(tenants):
        others = [other for other in range(len(tenants)) if other != number]
        weights[number, others] = setting.weights(np.array([[tenant, *(tenants[other] for other in others)]]))[0]
    services = [
        solo_s * np.array(end) if at_load else stretched(solo_s, np.array(end), weights, rates)
        for end in _ends(slowdowns)
    ]
    return [
        None
        if load is None
        else tail(
            [_queue(load, float(service[number])) for service in services],
            [objective for objective in objectives[number] if objective.metric == "latency"],
            open_ended=slowdowns[number].lo is None,
        )
        for number, load in enumerate(loads)
    ]


def _queue(load: Load, service_s: float) -> Mapping[str, Replications]:
    """By metric."""
    assert load.rate_rps is not None
    busy = load.rate_rps * service_s
    times = NEVER
    if busy < 1:
        seconds, service = requests_at(busy) / load.rate_rps, np.array([service_s])
        times = tail_of(lambda seed: arrivals_ns(load, seed=seed, horizon_s=seconds) / 1e9, lambda _: service)
    return dict.fromkeys(METRICS, times)


def at_rate(load: Load | None, solo_s: float) -> Load | None:
    """The load as a rate; a share is relative to the tenant's rate alone."""
    if load is None or load.rate_share is None:
        return load
    return load.at(load.rate_share / solo_s)
