"""Problems of units that take a share of a device, and a clock that moves with every look."""

import itertools

import numpy as np

from cotenant.planning.solver.problem import NOBODY, JudgedGroups, Problem, WayToUse

PRICES = (1.0, 0.625)


def problem(shares, *, available=None, most=7, given=(), crowding=0.0, prices=PRICES):
    """Units that take a share of a device; the second kind is half as large."""
    share = np.append(np.asarray(shares, float), 0.0)

    def judge(option, groups):
        count = (groups != NOBODY).sum(axis=1)
        busy = share[groups].sum(axis=1) * (1 + crowding * (count - 1)) / (1.0, 0.5)[option]
        return JudgedGroups(busy <= 1 + 1e-12, busy, np.full(len(groups), prices[option]))

    options = tuple(WayToUse(kind, floor) for kind, floor in enumerate(prices))
    return Problem(len(shares), options, available or (len(shares),) * 2, judge, most, given)


def clock(step=0.001):
    count = itertools.count()
    return lambda: next(count) * step
