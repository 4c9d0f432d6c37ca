"""A mix through the event simulation: how much longer requests take beside each other than alone.

`predict --mix`, `plan` and `plan --check` all get their slowdowns from here, so that they agree.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cotenant.prediction.contention.layout import Part, Slicing
from cotenant.prediction.contention.simulation import Player, Steps, simulate
from cotenant.prediction.contention.trace import Trace, plain_trace
from cotenant.prediction.kernels.columns import Floats, Ints

LEAST_REQUESTS, SHORTEST_S, LONGEST_S = 400, 4.0, 120.0
"""Requests of the slowest arrivals, and limits of the simulated time."""
ENGINE_REQUESTS = 60
"""The same of an engine: each takes many steps."""
CLOSED_REQUESTS = 12
"""Of the slowest tenant, if all wait for their answers."""
HOST_SPREAD = 0.03
"""Relative spread of host times, so that tenants don't run in lockstep."""
KEEPS_UP = 0.98
"""Part of the due requests that must be done at the end."""
LEAST_CV = 0.05


class TimedSteps(Steps, Protocol):
    """Steps whose time alone is known."""

    def stretch(self) -> Floats:
        """By step: its time over that alone."""
        ...


@dataclass(frozen=True, slots=True)
class MixTenant:
    """A tenant on its part of the device."""

    trace: Trace
    part: Part
    rate_rps: float = 0.0
    """Requests per second; 0: the next follows at once."""
    cv: float = 1.0
    """Variation of the gaps between requests."""
    priority: int = 0
    first_output: int = -1
    engine: Callable[[float, Ints], TimedSteps] | None = None
    """Serves in steps, given the window's end and the arrivals; the trace is that of a usual step."""


def stretches(
    tenants: Sequence[MixTenant], *, slicing: Slicing | None = None, shared_host: bool = False, seed: int = 1
) -> list[Floats]:
    """By tenant: time of each request (of an engine: step) over its time alone on its part.

    Infinite if it can't keep up with its rate.

    Args:
        tenants: The mix.
        slicing: Time-slicing; None: kernels run side by side.
        shared_host: A single thread launches the kernels of all tenants.
        seed: Seed of arrivals and host times.
    """
    alone = [tenant.trace.alone_ns() for tenant in tenants]
    lasting = [
        (LEAST_REQUESTS if tenant.engine is None else ENGINE_REQUESTS) / tenant.rate_rps
        for tenant in tenants
        if tenant.rate_rps > 0
    ]
    window_ns = CLOSED_REQUESTS * max(alone) * len(tenants)
    deadline_ns = 20 * window_ns
    if lasting:
        window_ns = max(1e9 * float(np.clip(max(lasting), SHORTEST_S, LONGEST_S)), window_ns)
        deadline_ns = 3 * window_ns
    several = len(tenants) > 1
    due = [
        _due(tenant, seed + number, window_ns / 1e9) if tenant.rate_rps > 0 else None
        for number, tenant in enumerate(tenants)
    ]
    steps = [
        None if tenant.engine is None or times is None else tenant.engine(window_ns, times)
        for tenant, times in zip(tenants, due, strict=True)
    ]
    players = [
        Player(
            tenant.trace if engine is None else _reserved(engine),
            outstanding=0 if tenant.rate_rps > 0 else 1,
            arrivals_ns=times if engine is None else None,
            sm_domain=tenant.part.sm_domain,
            dram_domain=tenant.part.dram_domain,
            shared_host=shared_host and several and engine is None,
            priority=tenant.priority,
            first_output=tenant.first_output if engine is None else -1,
            steps=engine,
        )
        for tenant, times, engine in zip(tenants, due, steps, strict=True)
    ]
    outcome = simulate(
        players,
        window_end_ns=window_ns,
        deadline_ns=deadline_ns,
        slicing=slicing if several else None,
        host_spread=HOST_SPREAD,
        seed=seed,
    )
    factors = []
    for times, engine, requests, time in zip(due, steps, outcome.requests, alone, strict=True):
        behind = requests.done.size < KEEPS_UP * (2 if times is None else times.size) or requests.done.size == 0
        first = 0 if requests.done.size < 4 else 1  # the first may find the device empty
        lasts = (requests.done - requests.started)[first:] / time if engine is None else engine.stretch()
        factors.append(np.array([np.inf]) if behind else lasts)
    return factors


def _reserved(engine: Steps) -> Trace:
    """Only reserves room for the longest step."""
    return plain_trace(kernels=engine.most_kernels, device_ns=float(engine.most_kernels))


def mean_slowdowns(factors: Sequence[Floats]) -> list[float]:
    """Means of the stretches; at least 1."""
    return [max(float(np.mean(slowdowns)), 1.0) for slowdowns in factors]


def _due(tenant: MixTenant, seed: int, seconds: float) -> Ints:
    from cotenant.tenancy.load import Load, arrivals_ns

    load = Load(kind="gamma", rate_rps=tenant.rate_rps, cv=max(tenant.cv, LEAST_CV))
    return np.asarray(arrivals_ns(load, seed=seed, horizon_s=seconds))
