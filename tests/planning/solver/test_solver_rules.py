"""The solver's parts against enumeration: bounds, searches, first fits and choices of small problems."""

import itertools
import math

import numpy as np
import pytest

from cotenant.planning.solver import generation, master, pricing
from cotenant.planning.solver.generation import FirstPlan, Solved, best_fit_decreasing, generate, start, thinned
from cotenant.planning.solver.pricing import price
from cotenant.planning.solver.problem import (
    NOBODY,
    PlacedGroup,
    Problem,
    as_groups,
    columns_of,
    cost_of,
    devices_used,
    singles,
)
from cotenant.planning.solver.solve import (
    _blocks,
    bound_by_room,
    bound_of_all,
    enumerate_groups,
    improve_in_blocks,
    solve,
)
from tests.planning.solver.shares import clock, problem


def random_problem(seed, units=6, **more):
    random = np.random.default_rng(seed)
    return problem(random.integers(1, 7, units) / 10, crowding=0.05, **more)


def every_column(case):
    groups = [
        g for size in range(1, min(case.units, case.most) + 1) for g in itertools.combinations(range(case.units), size)
    ]
    return [
        column for option in range(len(case.options)) for column in columns_of(case, option, as_groups(groups))
    ] + list(case.given)


def cheapest(case):
    """The least cost of covering all, by trying every partition; infinite if impossible."""
    columns = every_column(case)

    def rest(left, used):
        if not left:
            return 0.0
        first = min(left)
        costs = [math.inf]
        for column in columns:
            kind = case.options[column.option].kind
            if (
                first in column.members
                and left.issuperset(column.members)
                and used[kind] + column.devices <= case.available[kind]
            ):
                taken = tuple(n + column.devices * (i == kind) for i, n in enumerate(used))
                costs.append(column.cost + rest(left - set(column.members), taken))
        return min(costs)

    return rest(frozenset(range(case.units)), (0,) * len(case.available))


# --- the model


def test_rows_are_padded_and_columns_are_groups_that_fit():
    assert as_groups([(1,), (2, 3)]).tolist() == [[1, NOBODY], [2, 3]]
    assert as_groups([(1,)], 3).tolist() == [[1, NOBODY, NOBODY]]
    assert as_groups([]).shape == (0, 1)
    case = problem([0.6, 0.5, 0.2])
    found = columns_of(case, 0, as_groups([(0, 1), (0, 2), (2,)]))
    assert [(column.members, column.cost, column.devices) for column in found] == [((0, 2), 1.0, 1), ((2,), 1.0, 1)]
    assert columns_of(case, 0, as_groups([])) == []
    assert [(column.option, column.members) for column in singles(case)] == [
        (0, (0,)),
        (0, (1,)),
        (0, (2,)),
        (1, (1,)),
        (1, (2,)),
    ]
    wide = PlacedGroup(0, (0,), 5.0, 3)
    assert (cost_of([wide, wide]), devices_used(case, [wide, *found])) == (10.0, [5, 0])


def test_a_part_of_a_problem_is_renumbered():
    case = problem([0.6, 0.5, 0.2], given=(PlacedGroup(0, (2,), 9.0, 2), PlacedGroup(0, (1,), 9.0)))
    part = case.restricted([2, 0], [1, 0])
    assert (part.units, part.available, part.most) == (2, (1, 0), 7)
    assert part.given == (PlacedGroup(0, (0,), 9.0, 2),)
    assert part.judge(0, np.array([[0, 1], [1, NOBODY]])).busy == pytest.approx([0.8, 0.6])


# --- pricing


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("option", [0, 1])
def test_a_complete_search_finds_every_group_that_gains(seed, option):
    case = random_problem(seed, 7, most=3 + seed % 3)
    random = np.random.default_rng(100 + seed)
    worth, scarce = random.uniform(0, 0.6, 7), float(random.choice([0.0, 0.2]))
    found = price(case, option, worth, scarce, keep=1000, beam=None, more=lambda: True)
    gains = {
        column.members: sum(worth[list(column.members)]) - column.cost - scarce
        for column in every_column(case)
        if column.option == option
    }
    expected = {members: gain for members, gain in gains.items() if gain > 1e-6}
    mine = {
        tuple(sorted(int(u) for u in group if u != NOBODY)): gain
        for group, gain in zip(found.groups, found.gain, strict=True)
    }
    assert mine == pytest.approx(expected)
    assert list(found.gain) == sorted(found.gain, reverse=True)
    assert found.complete
    ratios = [sum(worth[list(c.members)]) / (c.cost + scarce) for c in every_column(case) if c.option == option]
    assert found.most_ratio >= max([1.0, *ratios]) - 1e-9
    if expected:
        assert found.most_ratio == pytest.approx(max([1.0, *ratios]))
    few = price(case, option, worth, scarce, keep=2, beam=None, more=lambda: True)
    assert list(few.gain) == pytest.approx(sorted(expected.values(), reverse=True)[:2])
    narrow = price(case, option, worth, scarce, keep=1000, beam=1, more=lambda: True)
    assert set(narrow.gain.round(9)) <= set(np.round(list(expected.values()), 9))


def test_a_search_out_of_time_bounds_what_it_left():
    case = problem([0.1] * 8)
    worth = np.full(8, 0.3)
    found = price(case, 0, worth, 0.0, keep=100, beam=None, more=lambda: False)
    assert not found.complete
    assert found.most_ratio >= 7 * 0.3 - 1e-9
    assert price(case, 0, np.zeros(8), 0.0, keep=1, beam=None, more=lambda: True).groups.shape == (0, 1)
    assert price(problem([2.0]), 0, np.ones(1), 0.0, keep=1, beam=None, more=lambda: True).complete


@pytest.mark.parametrize("seed", range(4))
def test_the_fractional_knapsack(seed):
    random = np.random.default_rng(seed)
    worth, weight = random.uniform(0.1, 1, (3, 5)), random.uniform(0.1, 1, (3, 5))
    order = np.argsort(-worth / weight, axis=1)
    worth, weight = np.take_along_axis(worth, order, 1), np.take_along_axis(weight, order, 1)
    room = random.uniform(0, 2, 3)

    def filled(values, weights, left):
        total = 0.0
        for value, each in zip(values, weights, strict=True):
            part = min(1.0, max(left, 0.0) / each)
            total, left = total + part * value, left - each
        return total

    assert pricing._filling(worth, weight, room) == pytest.approx(
        [filled(*rows) for rows in zip(worth, weight, room, strict=True)]
    )
    weight[1, 3:] = np.inf
    rows, ranks = np.array([0, 0, 1, 2, 1]), np.array([0, 2, 1, 4, 2])
    rooms = random.uniform(0, 2, 5)
    expected = []
    for row, rank, left in zip(rows, ranks, rooms, strict=True):
        known = np.isfinite(weight[row])
        expected.append(filled(worth[row][known][rank + 1 :], weight[row][known][rank + 1 :], left))
    assert pricing._filling_behind(worth, weight, rows, ranks, rooms) == pytest.approx(expected)


# --- first fit


def test_the_largest_first_each_where_the_least_room_is_left():
    columns, missing = best_fit_decreasing(problem([0.3, 0.6, 0.7, 0.4], prices=(1.0, 9.0)))
    assert missing == []
    assert sorted(column.members for column in columns) == [(0, 2), (1, 3)]
    columns, missing = best_fit_decreasing(problem([0.3, 0.6, 0.7, 0.9], available=(2, 0), prices=(1.0, 9.0)))
    assert (sorted(column.members for column in columns), missing) == ([(0, 2), (3,)], [1])
    assert best_fit_decreasing(problem([2.0, 0.1]))[1] == [0]
    columns, _ = best_fit_decreasing(problem([0.1] * 5, most=2, prices=(1.0, 9.0)))
    assert sorted(len(column.members) for column in columns) == [1, 2, 2]
    columns, _ = best_fit_decreasing(problem([0.4]))
    assert (columns[0].option, columns[0].cost) == (0, 1.0), "two fifths of a whole one are cheaper than four of a half"
    columns, _ = best_fit_decreasing(problem([0.4], prices=(1.0, 0.4)))
    assert columns[0].option == 1


def test_units_that_span_devices_take_them():
    wide = PlacedGroup(0, (0,), 3.0, 3)
    columns, missing = best_fit_decreasing(problem([4.0, 0.5], available=(4, 0), given=(wide,)))
    assert (wide in columns, missing) == (True, [])
    assert best_fit_decreasing(problem([4.0, 0.5], available=(2, 0), given=(wide,)))[1] == [0]
    hurried, missing = best_fit_decreasing(problem([0.3] * 12), lambda: False)
    assert missing == []
    assert sorted(itertools.chain(*(column.members for column in hurried))) == list(range(12))
    assert start(problem([0.5])).left_out == ()


def test_a_unit_stays_in_its_largest_column():
    case = problem([0.2, 0.2, 0.2])
    kept = thinned(case, [PlacedGroup(1, (0,), 0.625), PlacedGroup(0, (0, 1), 1.0), PlacedGroup(1, (1, 2), 0.625)])
    assert [(column.members, column.cost) for column in kept] == [((0, 1), 1.0), ((2,), 0.625)]


# --- whole plans and their bounds


@pytest.mark.parametrize("seed", range(10))
def test_every_way_to_solve_finds_the_least_cost_and_a_bound_below_it(seed):
    case = random_problem(seed, available=(3, 2) if seed % 2 else None)
    best = cheapest(case)
    begun = start(case)
    listed = enumerate_groups(case, begun, seconds=5)
    found = generate(case, begun, clock=clock(), seconds=60)
    if math.isinf(best):
        assert listed.left_out
        assert (found.bound, found.proof) == (0.0, generation.UNKNOWN)
        return
    assert (listed.cost, listed.bound, listed.left_out) == (pytest.approx(best), pytest.approx(best), ())
    assert found.cost == pytest.approx(best)
    assert 0 < found.bound <= best + 1e-9
    assert found.proof == generation.PROOF
    assert len(found.worth) == case.units
    assert bound_by_room(case) <= best + 1e-9
    worth = np.array(found.worth)
    if not seed % 2:
        assert 0 < bound_of_all(case, worth, clock=clock(), seconds=9) <= best + 1e-9
    quick = generate(case, begun, clock=clock(), seconds=60, proven=False)
    assert (quick.bound, quick.cost) == (0.0, pytest.approx(best))


def test_the_relaxation_prices_units_and_scarce_devices():
    case = problem([0.6, 0.6, 0.6], available=(9, 0), prices=(1.0, 9.0))
    relaxed = master.relax(case, singles(case))
    assert (relaxed.cost, relaxed.worth.tolist(), relaxed.scarce.tolist()) == (
        pytest.approx(3.0),
        pytest.approx([1, 1, 1]),
        [0, 0],
    )
    assert relaxed.weight[:3] == pytest.approx([1, 1, 1])
    short = problem([0.6, 0.6, 0.6], available=(2, 0), prices=(1.0, 9.0))
    relaxed = master.relax(short, singles(short))
    assert relaxed.left_out.sum() == pytest.approx(1.0)
    assert relaxed.scarce[0] == pytest.approx(49.0), "a unit left out costs fifty times the dearest column"
    assert relaxed.cost == pytest.approx(52.0)


def test_whole_columns_are_chosen_within_what_there_is():
    case = problem([0.6, 0.4, 0.4], available=(1, 1), prices=(1.0, 0.6))
    chosen = master.choose(case, every_column(case), seconds=5)
    assert (sum(column.cost for column in chosen.columns), chosen.left_out) == (pytest.approx(1.6), ())
    few = master.choose(
        problem([0.6, 0.6], available=(1, 0)), [PlacedGroup(0, (0,), 1.0), PlacedGroup(0, (1,), 1.0)], seconds=5
    )
    assert (len(few.columns), len(few.left_out), few.penalty) == (1, 1, 50.0)
    assert few.bound == pytest.approx(51.0)
    free = master.choose(problem([0.6], available=(1, 1)), [PlacedGroup(0, (0,), 0.0)], seconds=5)
    assert (free.left_out, free.penalty) == ((), 50.0)
    over = [PlacedGroup(0, (0, 1), 1.0), PlacedGroup(0, (1, 2), 1.0), PlacedGroup(0, (2,), 5.0)]
    case = problem([0.1] * 3)
    assert cost_of(master.choose(case, over, seconds=5).columns) == 2.0
    assert cost_of(master.choose(case, over, seconds=5, exactly=True).columns) == 6.0


@pytest.mark.parametrize(("cost", "bound", "gap"), [(11.0, 10.0, 0.1), (10.0, 10.0, 0.0), (10.0, 0.0, math.inf)])
def test_the_gap_is_relative_to_the_bound(cost, bound, gap):
    assert Solved((), (), cost, bound, "").gap == pytest.approx(gap)


def test_the_room_that_units_take_alone_is_a_bound():
    case = problem([0.5, 0.25, 3.0], given=(PlacedGroup(0, (2,), 7.0, 3),))
    assert bound_by_room(case) == pytest.approx(0.5 * 1.0 + 0.25 * 1.0 + 7.0)
    assert bound_by_room(problem([0.5, 3.0])) == pytest.approx(0.5)
    assert bound_by_room(problem([0.4], prices=(1.0, 0.4))) == pytest.approx(0.8 * 0.4)


def test_prices_scaled_to_the_dearest_group_bound_every_plan():
    case = problem([0.5, 0.5], available=(2, 0), given=(PlacedGroup(0, (0, 1), 0.5),), prices=(1.0, 9.0))
    relaxed = master.Relaxed(1.0, np.array([0.5, 0.5]), np.array([0.0, 0.0]), np.empty(0), np.empty(0))
    assert generation._bound(case, relaxed, 0.8) == pytest.approx(1.0 / 2), "the given group is worth twice its cost"
    assert generation._bound(problem([0.5, 0.5]), relaxed, 0.8) == pytest.approx(1.0)
    assert generation._bound(problem([0.5, 0.5]), relaxed, 1.25) == pytest.approx(0.8)
    scarce = master.Relaxed(1.0, np.array([0.5, 0.5]), np.array([0.1, 0.0]), np.empty(0), np.empty(0))
    assert generation._bound(problem([0.5, 0.5]), scarce, 1.0) == pytest.approx(1.0 - 0.1 * 2)
    assert bound_of_all(case, np.array([0.5, 0.5]), clock=clock(), seconds=9) == pytest.approx(0.5)


def test_columns_are_cut_into_blocks_of_enough_units():
    columns = [PlacedGroup(0, (i, i + 1), 1.0) for i in range(0, 10, 2)]
    assert [len(block) for block in _blocks(columns, 4)] == [2, 2, 1]
    assert [len(block) for block in _blocks(columns, 3)] == [2, 2, 1]
    assert [len(block) for block in _blocks(columns, 99)] == [5]
    assert _blocks([], 4) == [[]]


def test_blocks_improve_a_bad_plan_and_say_so():
    case = problem([0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.5, 0.5], prices=(1.0, 9.0))
    alone = FirstPlan(tuple(PlacedGroup(0, (i,), 1.0) for i in range(8)), ())
    told = []
    found = improve_in_blocks(case, alone, clock=clock(0.05), seconds=20, block_units=4, progress=told.append)
    assert found.cost < 5
    assert told == sorted(told, reverse=True)
    assert told[-1] == pytest.approx(found.cost)
    assert sorted(itertools.chain(*(column.members for column in found.columns))) == list(range(8))
    assert found.left_out == ()
    assert found.bound <= 3.0 + 1e-9
    assert found.proof == (generation.PROOF if found.bound > 0 else generation.UNKNOWN)
    rushed = improve_in_blocks(case, alone, clock=clock(99.0), seconds=1)
    assert (rushed.cost, rushed.bound, rushed.proof) == (8.0, 0.0, generation.UNKNOWN)
    missing = FirstPlan(alone.columns[:7], (7,))
    assert improve_in_blocks(case, missing, clock=clock(0.05), seconds=20, block_units=4).left_out == ()


@pytest.mark.parametrize(("units", "proof"), [(10, "every group was examined"), (11, generation.PROOF)])
def test_few_units_are_enumerated(units, proof):
    told = []
    found = solve(problem([0.3] * units), clock=clock(), seconds=20, progress=told.append)
    assert found.proof == proof
    assert told == [cost_of(start(problem([0.3] * units)).columns)]
    begun = FirstPlan(tuple(PlacedGroup(0, (i,), 1.0) for i in range(units)), ())
    told.clear()
    assert solve(problem([0.3] * units), clock=clock(), seconds=20, begun=begun, progress=told.append).cost < units
    assert told == [units]


def test_an_interruption_returns_the_first_plan():
    case = problem([0.3] * 4)

    def judge(option, groups):
        if groups.shape[1] == case.most and (groups != NOBODY).sum() > 40:
            raise KeyboardInterrupt
        return case.judge(option, groups)

    stopped = Problem(4, case.options, case.available, judge, case.most)
    begun = FirstPlan(tuple(PlacedGroup(0, (i,), 1.0) for i in range(4)), ())
    found = solve(stopped, clock=clock(), seconds=5, begun=begun)
    assert found.proof in {generation.INTERRUPTED, "every group was examined"}


def test_no_unit_is_in_more_than_a_third_of_the_columns_kept():
    groups = np.array([[0, i] for i in range(1, 100)])
    assert len(generation._varied(groups, 90)) == 31
    assert len(generation._varied(groups[:20], 3)) == 20
    assert len(generation._varied(groups[:21], 3)) == 20
