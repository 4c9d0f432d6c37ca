"""Bounds hold, layouts follow MIG's rules, and no unit is lost."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from cotenant.planning.mixes.cut import CutGpu, cover
from cotenant.planning.mixes.mig import MigGeometry, starts
from cotenant.planning.solver.generation import best_fit_decreasing, generate, start
from cotenant.planning.solver.problem import NOBODY, JudgedGroups, Problem, WayToUse, cost_of, devices_used
from cotenant.planning.solver.solve import enumerate_groups, improve_in_blocks, solve

pytestmark = pytest.mark.slow

DATA = Path(os.environ.get("COTENANT_DATA", Path(__file__).parents[4] / "shared" / "data"))
PRICES = (1.0, 0.5)


def instance(units, *, seed, available=None, feels=0.6):
    """Units that take a share of a device, and more of it beside others."""
    random = np.random.default_rng(seed)
    share, press = random.uniform(0.1, 0.5, units), random.uniform(0, 1, units)
    share, press = np.append(share, 0.0), np.append(press, 0.0)

    def judge(option, groups):
        there = groups != NOBODY
        pressure = np.where(there, press[groups], 0.0)
        others = pressure.sum(axis=1, keepdims=True) - pressure
        busy = (share[groups] * (1 + feels * others)).sum(axis=1) / (1.0 if option == 0 else 0.5)
        return JudgedGroups(busy <= 1, busy, np.full(len(groups), PRICES[option]))

    options = tuple(WayToUse(kind, price) for kind, price in enumerate(PRICES))
    return Problem(units, options, available or (units, units), judge)


def ticks(step=0.005):
    """A clock that advances on each call: the same on every machine."""
    count = itertools.count()
    return lambda: next(count) * step


def placed(solved):
    return sorted(itertools.chain(*(column.members for column in solved.columns)))


@pytest.mark.parametrize("seed", range(6))
def test_generated_columns_reach_what_enumeration_proves(seed):
    problem = instance(9, seed=seed)
    begun = start(problem)
    best = enumerate_groups(problem, begun, seconds=20)
    found = generate(problem, begun, clock=ticks(), seconds=20)
    assert best.gap == pytest.approx(0)
    assert found.bound <= best.cost + 1e-9, "the bound exceeds the optimum"
    assert found.cost == pytest.approx(best.cost)
    assert placed(found) == placed(best) == list(range(9))


@pytest.mark.parametrize("seed", range(3))
def test_a_plan_of_sixty_is_near_its_bound_and_below_greedy(seed):
    problem = instance(60, seed=seed)
    begun = start(problem)
    solved = generate(problem, begun, clock=ticks(), seconds=20)
    assert placed(solved) == list(range(60))
    assert solved.cost <= cost_of(begun.columns)
    assert 0 <= solved.gap < 0.03
    for column in solved.columns:
        assert problem.judge(column.option, np.array([column.members])).fits[0]


def test_a_device_without_a_price_takes_every_unit_that_fits():
    def judge(option, groups):
        return JudgedGroups(np.ones(len(groups), bool), (groups != NOBODY).sum(axis=1) / 10, np.zeros(len(groups)))

    found = solve(Problem(5, (WayToUse(0, 0.0),), (1,), judge), clock=ticks(), seconds=5)
    assert found.left_out == ()
    assert placed(found) == list(range(5))


def test_scarce_devices_are_never_used_twice():
    problem = instance(30, seed=1, available=(8, 4))
    solved = solve(problem, clock=ticks(), seconds=10)
    assert all(used <= there for used, there in zip(devices_used(problem, solved.columns), (8, 4), strict=True))
    assert sorted([*placed(solved), *solved.left_out]) == list(range(30))


def test_blocks_improve_on_greedy_and_lose_no_unit():
    problem = instance(120, seed=2)
    begun = start(problem)
    solved = improve_in_blocks(problem, begun, clock=ticks(0.02), seconds=6, block_units=40)
    assert placed(solved) == list(range(120))
    assert solved.cost < 0.97 * cost_of(begun.columns)
    assert solved.bound <= solved.cost


def test_greedy_fills_the_fullest_device_that_still_has_room():
    share = np.array([0.6, 0.5, 0.4, 0.3, 0.0])

    def judge(_option, groups):
        busy = share[groups].sum(axis=1)
        return JudgedGroups(busy <= 1 + 1e-9, busy, np.ones(len(groups)))

    columns, missing = best_fit_decreasing(Problem(4, (WayToUse(0, 1.0),), (4,), judge))
    assert sorted(sorted(column.members) for column in columns) == [[0, 2], [1, 3]]
    assert not missing


A100 = MigGeometry.of(
    7, 8, {"1g": (1, 1, 10), "1g+": (1, 2, 20), "2g": (2, 2, 20), "3g": (3, 4, 40), "4g": (4, 4, 40), "7g": (7, 8, 80)}
)
A30 = MigGeometry.of(4, 4, {"1g": (1, 1, 6), "2g": (2, 2, 12), "4g": (4, 4, 24)})


def test_instances_start_where_the_driver_allows():
    assert {one.name: starts(A100, one) for one in A100.profiles} == {
        "1g": (0, 1, 2, 3, 4, 5, 6),
        "1g+": (0, 2, 4, 6),
        "2g": (0, 2, 4),
        "3g": (0, 4),
        "4g": (0,),
        "7g": (0,),
    }
    assert {one.name: starts(A30, one) for one in A30.profiles} == {"1g": (0, 1, 2, 3), "2g": (0, 2), "4g": (0,)}


@pytest.mark.parametrize(
    ("names", "fits"),
    [
        (["4g", "3g"], True),
        (["3g", "3g"], True),
        (["3g", "3g", "1g"], False),
        (["4g", "2g", "1g"], True),
        (["4g", "4g"], False),
        (["2g", "2g", "2g", "1g"], True),
        (["2g", "2g", "2g", "2g"], False),
        (["1g"] * 7, True),
        (["1g"] * 8, False),
        (["7g", "1g"], False),
    ],
)
def test_what_fits_on_one_gpu_at_once(names, fits):
    places = A100.places(names)
    assert (places is not None) == fits
    counts = [sum(name == profile.name for name in names) for profile in A100.profiles]
    assert A100.holds(counts) == fits
    if places:
        taken = [slot for name, begin in places for slot in range(begin, begin + A100.profile(name).memory)]
        assert len(taken) == len(set(taken))


def test_rates_are_covered_by_as_few_gpus_as_brute_force_needs():
    rates = np.array([30.0, 25.0])
    serves = np.array([[8.0, 8.0, 15.0, 22.0, 26.0, 40.0], [3.0, 3.0, 9.0, 18.0, 20.0, 38.0]])
    found = cover([CutGpu(A100, 1.0, 10, serves)], rates, seconds=10)
    assert found is not None
    assert len(found.gpus) == 2 == found.bound
    got = np.zeros(2)
    names = [profile.name for profile in A100.profiles]
    for gpu in found.gpus:
        assert A100.places([one.profile for one in gpu.instances]) is not None
        for one in gpu.instances:
            got[one.tenant] += serves[one.tenant, names.index(one.profile)]
    assert (got >= rates).all()


def test_there_is_no_plan_with_too_few_gpus():
    serves = np.full((1, len(A100.profiles)), 1.0)
    assert cover([CutGpu(A100, 1.0, 1, serves)], np.array([8.0]), seconds=5) is None


@pytest.mark.skipif(
    not (DATA / "sharing/parvagpu_scenarios.csv").exists(), reason="ParvaGPU's measurements aren't here"
)
def test_parvagpus_scenarios_need_fewer_gpus_than_its_own_planner_uses():
    from validation.plan_parvagpu import planned, scenarios

    found = {one.number: planned(DATA, one) for one in scenarios(DATA)}
    assert {number: len(plan.gpus) for number, plan in found.items() if plan} == {1: 2, 2: 3, 3: 5, 4: 7, 5: 12, 6: 15}
    assert all(plan is not None and plan.bound == plan.cost for plan in found.values())
