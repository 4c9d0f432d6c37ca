"""Both bounds behind "no plan is better": never above the best plan, and never so low that they say nothing."""

import itertools

import numpy as np
import pytest

from cotenant.planning.solver.generation import generate, start
from cotenant.planning.solver.problem import NOBODY, JudgedGroups, Problem, WayToUse
from cotenant.planning.solver.solve import bound_by_room, bound_of_all, enumerate_groups

PRICES = (1.0, 0.55)
SIZES = (1.0, 0.5)


def instance(units, seed):
    """Units that take a share of a device, more of it beside others, on two kinds of devices."""
    random = np.random.default_rng(seed)
    share, press = np.append(random.uniform(0.1, 0.45, units), 0.0), np.append(random.uniform(0, 1, units), 0.0)

    def judge(option, groups):
        pressure = np.where(groups != NOBODY, press[groups], 0.0)
        others = pressure.sum(axis=1, keepdims=True) - pressure
        busy = (share[groups] * (1 + 0.5 * others)).sum(axis=1) / SIZES[option]
        return JudgedGroups(busy <= 1, busy, np.full(len(groups), PRICES[option]))

    return Problem(units, tuple(WayToUse(kind, price) for kind, price in enumerate(PRICES)), (units, units), judge)


def best_cost(problem):
    """The cheapest partition into groups that fit, by trying all of them."""
    units, cheapest = problem.units, {}
    for size in range(1, units + 1):
        for group in itertools.combinations(range(units), size):
            fits = [
                judged.cost[0]
                for option in range(len(problem.options))
                if (judged := problem.judge(option, np.array([group]))).fits[0]
            ]
            if fits:
                cheapest[group] = min(fits)
    best = {(): 0.0}

    def least(left):
        if left not in best:
            first, *rest = left
            best[left] = min(
                cheapest[group] + least(tuple(unit for unit in left if unit not in group))
                for size in range(len(rest) + 1)
                for others in itertools.combinations(rest, size)
                if (group := (first, *others)) in cheapest
            )
        return best[left]

    return least(tuple(range(units)))


def ticks():
    count = itertools.count()
    return lambda: next(count) * 0.001


@pytest.mark.parametrize("seed", range(8))
def test_every_bound_is_below_the_best_plan_and_close_to_it(seed):
    problem = instance(8, seed)
    best = best_cost(problem)
    examined = enumerate_groups(problem, start(problem), seconds=20)
    assert examined.cost == pytest.approx(best)
    assert examined.bound == pytest.approx(best), "every group was examined"
    generated = generate(problem, start(problem), clock=ticks(), seconds=20)
    assert 0.85 * best <= generated.bound <= best + 1e-9
    from_prices = bound_of_all(problem, np.asarray(generated.worth), clock=ticks(), seconds=20)
    assert 0.8 * best <= from_prices <= best + 1e-9
    assert 0.5 * best <= bound_by_room(problem) <= best + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_prices_that_are_too_high_are_scaled_down_until_they_bound(seed):
    problem = instance(8, seed)
    best = best_cost(problem)
    for factor in (1.0, 3.0, 40.0):
        bound = bound_of_all(problem, np.full(8, factor), clock=ticks(), seconds=20)
        assert bound <= best + 1e-9


def test_without_time_the_bound_is_the_room_that_units_take_alone():
    problem = instance(8, 1)
    assert bound_of_all(problem, np.ones(8), clock=ticks(), seconds=0.0) >= bound_by_room(problem)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("seconds", [0.0005, 0.002, 0.004])
def test_a_search_that_ends_early_still_gives_a_bound_that_holds(seed, seconds):
    problem = instance(8, seed)
    found = generate(problem, start(problem), clock=ticks(), seconds=seconds)
    assert found.bound <= best_cost(problem) + 1e-9
