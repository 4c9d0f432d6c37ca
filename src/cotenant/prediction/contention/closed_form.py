"""The event simulation in the mean: slowdowns of thousands of mixes at once.

Tenants are taken to be independent of each other: a neighbour has a kernel of some class on the device, or none, with
the probability that its own cycle gives. The speed of a kernel is the mean over these states of the speeds that
`rates` gives, the law of the event simulation itself; a kernel that reaches the device waits for thread blocks of
others as there; a host thread that launches for several tenants gives each an even part. Under time-slicing, a tenant
keeps its turn until its slice ends or until it has run all that was launched while it waited. All of it depends on how
long requests take, so it is repeated until it agrees.

Nothing here is fitted. `benchmarks/contention.py` compares it with the event simulation on random mixes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.extras import compiled
from cotenant.prediction.contention.demand import (
    AFTER,
    BEFORE,
    BLOCK,
    CLAIM,
    COUNT,
    DEVICE,
    DRAM,
    DURATION,
    HOLDS,
    LAUNCH,
    OCCUPANCY,
    RATIOS,
    WAITED,
    Demands,
)  # fmt: skip
from cotenant.prediction.contention.layout import Slicing
from cotenant.prediction.contention.rates import fill_rates, lost_ns
from cotenant.prediction.contention.state import COLUMNS, FRESH, PRIORITY
from cotenant.prediction.contention.state import DRAM as DRAM_NOW
from cotenant.prediction.contention.state import DRAM_DOMAIN as DRAM_DOMAIN_NOW
from cotenant.prediction.contention.state import HOLDS as HOLDS_NOW
from cotenant.prediction.contention.state import OCCUPANCY as OCCUPANCY_NOW
from cotenant.prediction.contention.state import SM_DOMAIN as SM_DOMAIN_NOW
from cotenant.prediction.contention.state import WEIGHT as WEIGHT_NOW
from cotenant.prediction.kernels.columns import Floats, Ints

DIFFERENCES = {
    "processes": 0.07,
    "mps": 0.06,
    "mps with shares": 0.02,
    "streams": 0.05,
    "exclusive": 0.05,
    "green": 0.02,
    "mig": 0.0,
}
"""By way to share: mean difference from the event simulation on random mixes (`benchmarks/contention.py`)."""
ROUNDS = 8
ROUNDS_OF_TURNS = 32
_STATES = 6
"""Joint states of several neighbours that are looked at for each class of kernels."""
_LOWEST, _STEP = float(np.log(RATIOS[0])), float(np.log(RATIOS[1] / RATIOS[0]))
_HIGHEST = float(RATIOS[-1])
_SLOWEST = 1e-4
_SETTLED = 0.01
"""Change of a time from round to round that ends the search."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How the tenants of mixes share the device; arrays have a row per mix."""

    slicing: Slicing | None = None
    """Time-slicing; None: kernels run side by side."""
    shared_host: bool = False
    """A single thread launches for all."""
    sm_domain: Ints | None = None
    dram_domain: Ints | None = None
    priority: Ints | None = None
    rate_per_ns: Floats | None = None
    """Requests per nanosecond; 0: the next request follows at once."""


SIDE_BY_SIDE = Terms()


def slowdowns(demands: Demands, mixes: Ints, terms: Terms = SIDE_BY_SIDE) -> Floats:
    """Time of a request beside the others over its time alone on its part.

    Args:
        demands: Of all tenants, each on its part of the device.
        mixes: Rows of indices into the demands, padded with -1.
        terms: How they share.

    Returns:
        Rows x places; NaN in empty places.
    """
    shape = mixes.shape
    turns = terms.slicing
    nothing = np.zeros(shape, np.int64)
    domains = [nothing if domain is None else domain for domain in (terms.sm_domain, terms.dram_domain, terms.priority)]
    result = np.full(shape, np.nan)
    _every(
        demands.kernels,
        demands.request,
        demands.paced,
        np.ascontiguousarray(mixes, np.int64),
        np.stack(domains, axis=-1).astype(np.int64),
        np.zeros(shape) if terms.rate_per_ns is None else np.ascontiguousarray(terms.rate_per_ns, np.float64),
        np.array([turns.slice_ns, turns.interrupt_ns, turns.yield_ns] if turns else [0.0, 0.0, 0.0]),
        terms.shared_host,
        _POINTS,
        result,
    )
    return result


def log_slowdowns(demands: Demands, mixes: Ints, *, slicing: Slicing | None = None) -> Floats:
    """The logarithms of slowdowns of tenants that are always busy, each on the whole device."""
    return np.asarray(np.log(slowdowns(demands, mixes, Terms(slicing))))


def _spread(points: int, dimensions: int) -> Floats:
    """Points that cover the range of every dimension evenly, in another order each (a Latin hypercube)."""
    random = np.random.default_rng(1)
    return np.array([(random.permutation(points) + 0.5) / points for _ in range(dimensions)]).T.copy()


_POINTS = _spread(_STATES, 32)


@compiled()
def _paced(paced: Floats, ratio: float) -> Any:
    """Time from the first launch to the last kernel's end if kernels are this much slower relative to the host."""
    at = (np.log(ratio) - _LOWEST) / _STEP
    last = paced.size - 1
    if at <= 0:
        return paced[0]
    if at >= last:
        return paced[last] * ratio / _HIGHEST
    before = int(at)
    part = at - before
    return paced[before] * (1 - part) + paced[before + 1] * part


@compiled()
def _every(  # noqa: C901, PLR0917 - compiled code takes its arguments by position
    kernels: Floats, requests: Floats, paced: Floats, mixes: Ints, seats: Ints, rates: Floats, turns: Floats,
    shared_host: bool, points: Floats, result: Floats,
) -> None:  # fmt: skip
    """Mix by mix, its tenants sorted by what they ask, so that their order in the mix changes nothing."""
    width = mixes.shape[1]
    columns = np.zeros(width, np.int64)
    for row in range(mixes.shape[0]):
        count = 0
        for column in range(width):
            if mixes[row, column] >= 0:
                rank = count
                while (
                    rank > 0
                    and _compared(kernels, requests, mixes[row], seats[row], rates[row], column, columns[rank - 1]) < 0
                ):
                    columns[rank] = columns[rank - 1]
                    rank -= 1
                columns[rank] = column
                count += 1
        if count == 0:
            continue
        of = mixes[row, columns[:count]]
        cycle = rates[row, columns[:count]]
        if not shared_host and turns[0] == 0 and _apart(seats[row, columns[:count]]):
            time = np.ones(count)
        elif turns[0] > 0:
            time = _in_turns(requests[of], kernels[of], paced[of], cycle, turns)
        else:
            time = _side_by_side(
                requests[of], kernels[of], paced[of], cycle, seats[row, columns[:count]], shared_host, points
            )
        first = 0
        for number in range(count):  # equal tenants get the same, whatever states were looked at for each
            if number + 1 == count or _compared(
                kernels, requests, mixes[row], seats[row], rates[row], columns[number], columns[number + 1]
            ):
                for equal in range(first, number + 1):
                    result[row, columns[equal]] = max(time[first : number + 1].mean(), 1.0)
                first = number + 1


@compiled()
def _compared(  # noqa: PLR0917 - compiled code takes its arguments by position
    kernels: Floats, requests: Floats, mix: Ints, seats: Ints, rates: Floats, column: int, other: int
) -> Any:
    """Below or above 0 if a column's tenant asks less or more than another's by their first difference; 0: the same."""
    first, second = mix[column], mix[other]
    if first != second:
        for index in range(requests.shape[1]):
            if requests[first, index] != requests[second, index]:
                return requests[first, index] - requests[second, index]
        for of in range(kernels.shape[1]):
            for index in range(kernels.shape[2]):
                if kernels[first, of, index] != kernels[second, of, index]:
                    return kernels[first, of, index] - kernels[second, of, index]
    if rates[column] != rates[other]:
        return rates[column] - rates[other]
    return float(seats[column, 2] - seats[other, 2])


@compiled()
def _apart(seats: Ints) -> Any:
    """Whether no two tenants share SMs or memory: MIG instances, or a tenant alone."""
    for tenant in range(len(seats)):
        for other in range(tenant):
            if seats[tenant, 0] == seats[other, 0] or seats[tenant, 1] == seats[other, 1]:
                return False
    return True


@compiled()
def _alone(request: Floats, paced: Floats) -> Any:
    return request[BEFORE] + _paced(paced, 1.0) + request[AFTER]


@compiled()
def _in_turns(requests: Floats, kernels: Floats, paced: Floats, rates: Floats, turns: Floats) -> Any:
    """One tenant's kernels at a time: turns of a slice, or of what was launched meanwhile."""
    count = requests.shape[0]
    slice_ns, interrupt_ns, yield_ns = turns[0], turns[1], turns[2]
    alone, cycle, time = np.zeros(count), np.zeros(count), np.zeros(count)
    wants, turn, cost, waits = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count)
    for tenant in range(count):
        alone[tenant] = _alone(requests[tenant], paced[tenant])
        cycle[tenant], wants[tenant] = alone[tenant], requests[tenant, DEVICE]
        turn[tenant], cost[tenant] = min(slice_ns, requests[tenant, DEVICE]), yield_ns
    for _ in range(ROUNDS_OF_TURNS):
        for tenant in range(count):
            free, wait = 1.0, 0.0
            for other in range(count):
                if other != tenant:
                    wanting = min(wants[other] / cycle[other], 1.0)
                    free *= 1 - wanting
                    wait += wanting * (turn[other] + cost[other])
            waits[tenant] = (waits[tenant] + wait + cost[tenant] * (1 - free)) / 2
        for tenant in range(count):
            device = requests[tenant, DEVICE]
            ahead = device / max(requests[tenant, LAUNCH], 1e-9)  # work of the device launched per time of the host
            backlog = waits[tenant] * ahead / (1 - ahead) if ahead < 1 else device
            kernel = device / max(kernels[tenant, :, COUNT].sum(), 1.0)
            turn[tenant] = (turn[tenant] + min(slice_ns, device, max(backlog, kernel))) / 2
            cost[tenant] = interrupt_ns if turn[tenant] > 0.95 * slice_ns else yield_ns
            wants[tenant] = (wants[tenant] + device + device / turn[tenant] * waits[tenant]) / 2
            time[tenant] = (
                requests[tenant, BEFORE]
                + _paced(paced[tenant], wants[tenant] / device)
                + requests[tenant, AFTER]
                + requests[tenant, WAITED]
                * waits[tenant]  # while the host waits for a kernel, the device goes to others
            )
            cycle[tenant] = max(time[tenant], 1 / rates[tenant] if rates[tenant] > 0 else 0.0)
    return time / alone


@compiled()
def _side_by_side(  # noqa: C901, PLR0912, PLR0915, PLR0917 - one compiled loop, as in the engine
    requests: Floats, kernels: Floats, paced: Floats, rates: Floats, seats: Ints, shared_host: bool, points: Floats
) -> Any:
    """Kernels of all tenants at once; columns of `seats`: SM domain, DRAM domain, priority."""
    count, classes = kernels.shape[0], kernels.shape[1]
    alone, cycle, time = np.zeros(count), np.zeros(count), np.zeros(count)
    speed, delay = np.ones((count, classes)), np.zeros((count, classes))
    host, queued = np.ones(count), np.ones(count)
    until = np.zeros((count, classes))  # probability of a kernel of this or an earlier class on the device
    state, order = np.zeros((count, COLUMNS)), np.zeros(count, np.int64)
    for tenant in range(count):
        alone[tenant] = cycle[tenant] = _alone(requests[tenant], paced[tenant])
        state[tenant, SM_DOMAIN_NOW], state[tenant, DRAM_DOMAIN_NOW] = seats[tenant, 0], seats[tenant, 1]
        state[tenant, PRIORITY] = seats[tenant, 2]
    for turn in range(ROUNDS):
        fresh, moved = 2.0 / (turn + 2), 0.0
        for tenant in range(count if shared_host else 0):
            hosting = 1.0
            for other in range(count):
                if other != tenant:
                    launching = (requests[other, BEFORE] + requests[other, LAUNCH]) * host[other]
                    hosting += min(launching / cycle[other], 1.0)
            host[tenant] = hosting if turn == 0 else (host[tenant] + hosting) / 2
        for tenant in range(count):
            lasts = 0.0
            for of in range(classes):
                lasts += kernels[tenant, of, COUNT] * (
                    kernels[tenant, of, DURATION] / speed[tenant, of] + delay[tenant, of]
                )
            inside = host[tenant] * _paced(paced[tenant], lasts / requests[tenant, DEVICE] / host[tenant])
            queued[tenant] = min(lasts / inside, 1.0)
            before, time[tenant] = (
                time[tenant],
                requests[tenant, BEFORE] * host[tenant] + inside + requests[tenant, AFTER],
            )
            moved = max(moved, abs(time[tenant] - before) / time[tenant])
            cycle[tenant] = max(time[tenant], 1 / rates[tenant] if rates[tenant] > 0 else 0.0)
            total = 0.0
            for of in range(classes):
                total += kernels[tenant, of, COUNT] * kernels[tenant, of, DURATION] / speed[tenant, of] / cycle[tenant]
                until[tenant, of] = total
            for of in range(classes if total > 1 else 0):
                until[tenant, of] /= total
        if turn > 1 and moved < _SETTLED:
            break
        for tenant in range(count):
            for of in range(classes):
                if kernels[tenant, of, COUNT] == 0:
                    continue
                mean, waits = 0.0, 0.0
                for draw in range(classes + 1 if count == 2 else points.shape[0]):
                    resident, held, occupied, ending, dimension = 0, 0.0, 0.0, 0.0, 0
                    weight = 1.0 / points.shape[0]
                    for other in range(count):
                        kind = of if other == tenant else -1
                        if other != tenant and count == 2:
                            kind = draw if draw < classes else -1
                            below = until[other, draw - 1] if draw > 0 else 0.0
                            weight = (until[other, draw] if draw < classes else 1.0) - below
                        elif other != tenant:
                            # Points are shifted from class to class and from round to round, so that all are seen.
                            at = points[draw, dimension % points.shape[1]] + 0.37 * tenant + 0.11 * of + 0.23 * turn
                            at -= np.floor(at)
                            dimension += 1
                            for candidate in range(classes):
                                if at < until[other, candidate]:
                                    kind = candidate
                                    break
                        if kind < 0:
                            continue
                        if other != tenant and seats[other, 0] == seats[tenant, 0]:
                            occupied += kernels[other, kind, OCCUPANCY]
                            held += kernels[other, kind, HOLDS]
                            if kernels[other, kind, BLOCK] > 0:
                                ending += kernels[other, kind, HOLDS] / kernels[other, kind, BLOCK]
                        state[other, OCCUPANCY_NOW] = kernels[other, kind, OCCUPANCY]
                        state[other, DRAM_NOW] = kernels[other, kind, DRAM]
                        state[other, WEIGHT_NOW] = kernels[other, kind, CLAIM]
                        state[other, HOLDS_NOW] = kernels[other, kind, HOLDS]
                        rank = resident
                        while rank > 0 and seats[order[rank - 1], 2] < seats[other, 2]:
                            order[rank] = order[rank - 1]
                            rank -= 1
                        order[rank] = other
                        resident += 1
                    if weight <= 0:
                        continue
                    crowded = resident > 1 and fill_rates(resident, order, state)
                    mean += weight * (state[tenant, FRESH] if crowded else 1.0)
                    own = kernels[tenant, of, HOLDS]
                    if ending > 0 and own > 0:
                        beside = 0.0  # held by others while the kernel before it ran
                        for rank in range(resident):
                            other = order[rank]
                            if other != tenant and seats[other, 0] == seats[tenant, 0]:
                                beside += (state[other, FRESH] if crowded else 1.0) * state[other, HOLDS_NOW]
                        part, ending = min(1.0, 1.0 / max(occupied, 1e-9)), ending / held
                        lost = queued[tenant] * lost_ns(own, beside, ending * beside)
                        lost += (1 - queued[tenant]) * lost_ns(own, held * part, ending * held * part)
                        waits += weight * lost
                speed[tenant, of] = max(speed[tenant, of] * (1 - fresh) + fresh * mean, _SLOWEST)
                delay[tenant, of] = delay[tenant, of] * (1 - fresh) + fresh * waits
    return time / alone
