"""Column generation: when it stops, what it may claim, and which columns it keeps."""

import math

import numpy as np
import pytest

from cotenant.planning.solver import generation, pricing
from cotenant.planning.solver.generation import PROOF, UNKNOWN, FirstPlan, best_fit_decreasing, generate, start
from cotenant.planning.solver.master import ChosenGroups, Relaxed
from cotenant.planning.solver.pricing import Priced, price
from cotenant.planning.solver.problem import NOBODY, JudgedGroups, PlacedGroup, Problem, WayToUse, singles
from tests.planning.solver.shares import clock, problem


def alone(units):
    return FirstPlan(tuple(PlacedGroup(0, (unit,), 1.0) for unit in range(units)), ())


def relaxed(worth, scarce=(0.0, 0.0), cost=1.0, left_out=()):
    return Relaxed(cost, np.array(worth), np.array(scarce), np.empty(0), np.array(left_out))


# --- when to stop, and what is proven by then


@pytest.fixture
def rounds(monkeypatch):
    """Rounds that find what is set here (columns added, worth over cost, completeness), and their beams."""
    results, beams = [], []

    def one_round(case, pool, prices, *, beam, more):
        beams.append(beam)
        return results.pop(0) if results else (0, 1.0, True)

    monkeypatch.setattr(generation, "_round", one_round)
    return results, beams


def test_a_narrow_search_widens_until_it_is_complete(rounds):
    _, beams = rounds
    found = generate(problem([0.6, 0.6]), alone(2), clock=clock(0.0), seconds=5.0)
    assert beams == [120, 480, 1920, None]
    assert (found.bound, found.cost, found.proof) == (pytest.approx(2.0), 2.0, PROOF)
    beams.clear()
    quick = generate(problem([0.6, 0.6]), alone(2), clock=clock(0.0), seconds=5.0, proven=False)
    assert (beams, quick.bound, quick.proof) == ([120, 480, 1920], 0.0, UNKNOWN)


def test_columns_that_were_added_are_priced_again(rounds):
    results, beams = rounds
    results += [(1, 1.0, True), (0, 1.0, True), (0, 1.0, True), (0, 1.0, True), (2, 2.0, True)]
    found = generate(problem([0.6, 0.6]), alone(2), clock=clock(0.0), seconds=5.0)
    assert beams == [120, 120, 480, 1920, None, 1920, None]
    assert found.bound == pytest.approx(2.0)


def test_an_incomplete_search_proves_only_what_its_ratio_says(rounds):
    results, _ = rounds
    results += [(0, 1.0, True)] * 3 + [(0, 1.6, False)]
    found = generate(problem([0.6, 0.6]), alone(2), clock=clock(0.0), seconds=5.0)
    assert found.bound == pytest.approx(2.0 / 1.6)


def test_half_of_the_time_is_for_prices_and_the_bound_is_made_even_without_any(rounds):
    results, beams = rounds
    results += [(0, 1.25, False)]
    now = iter([0.0, 2.0, 2.0, 2.5, 2.5])
    found = generate(problem([0.6, 0.6]), alone(2), clock=lambda: next(now), seconds=4.0)
    assert (beams, found.bound, found.proof) == ([None], pytest.approx(1.6), PROOF)
    beams.clear()
    now = iter([0.0, 2.0, 2.0, 2.5])
    found = generate(problem([0.6, 0.6]), alone(2), clock=lambda: next(now), seconds=4.0, proven=False)
    assert (beams, found.bound) == ([], 0.0)
    now = iter([0.0, 1.9, 2.0, 2.0, 2.0, 2.0, 2.0])
    generate(problem([0.6, 0.6]), alone(2), clock=lambda: next(now), seconds=4.0)
    assert beams == [120, None]


def test_the_rest_of_the_time_goes_to_whole_columns(rounds, monkeypatch):
    seen = []

    def whole(case, pool, begun, prices, *, seconds, gap):
        seen.append((seconds, gap))
        return begun

    monkeypatch.setattr(generation, "_whole", whole)
    generate(problem([0.6]), alone(1), clock=clock(0.125), seconds=4.0)
    (seconds, gap) = seen[0]
    assert (seconds, gap) == (4.0 - 4 * 0.125, 1e-4), "the start, three rounds and this look at the clock"


@pytest.mark.parametrize(("left_out", "bound"), [(0.0, 2.0), (1e-6, 2.0), (1e-5, 0.0)])
def test_prices_of_units_that_cannot_be_placed_bound_nothing(rounds, monkeypatch, left_out, bound):
    prices = relaxed([1.0, 1.0], cost=2.0, left_out=(0.0, left_out))
    monkeypatch.setattr(generation, "relax", lambda *_: prices)
    monkeypatch.setattr(generation, "_whole", lambda case, pool, begun, *_, **__: begun)
    found = generate(problem([0.6, 0.6]), alone(2), clock=clock(0.0), seconds=5.0)
    assert (found.bound, found.worth) == (bound, (1.0, 1.0))
    missing = generate(problem([0.6, 0.6]), FirstPlan(alone(1).columns, (1,)), clock=clock(0.0), seconds=5.0)
    assert (missing.bound, missing.proof) == (0.0, UNKNOWN)


# --- one round of pricing


def test_a_round_prices_every_option_and_adds_no_column_twice(monkeypatch):
    asked = []

    def priced(case, number, worth, scarce, *, keep, beam, more, least_gain):
        asked.append((number, scarce, keep, beam, least_gain))
        return Priced(np.array([[0, 1], [1, 0], [0, NOBODY]]), np.ones(3), (1.5, 1.2)[number], number == 0)

    monkeypatch.setattr(generation, "price", priced)
    case = problem([0.2, 0.2], prices=(1.0, 0.0))
    pool = generation._Pool(case, FirstPlan((), ()))
    before = len(pool.columns)
    assert generation._round(case, pool, relaxed([1.0, 1.0], (0.25, 0.5)), beam=120, more=lambda: True) == (
        2, 1.5, False,
    )  # fmt: skip
    assert [column.members for column in pool.columns[before:]] == [(0, 1), (0, 1)], "singles are known already"
    assert asked == [(0, 0.25, 150, 120, 1e-6), (1, 0.5, 150, 120, pytest.approx(1e-15))]
    asked.clear()
    generation._round(case, pool, relaxed([1.0, 1.0]), beam=None, more=lambda: True)
    assert [keep for _, _, keep, _, _ in asked] == [400, 400]


def test_a_unit_may_be_in_a_third_of_the_columns_and_in_the_first_twenty():
    groups = np.array([[0, 1 + i, NOBODY] for i in range(40)])
    assert len(generation._varied(groups, 60)) == 21
    assert len(generation._varied(groups, 90)) == 31
    other = np.vstack([groups, [[50, 51, NOBODY]]])
    assert generation._varied(other, 60)[-1].tolist() == [50, 51, NOBODY]


# --- bounds


def test_a_free_group_leaves_no_bound():
    case = problem([0.5, 0.5], given=(PlacedGroup(0, (0,), 0.0),))
    assert generation._bound(case, relaxed([0.5, 0.5]), 1.0) == pytest.approx(0.0, abs=1e-9)


def test_a_given_group_on_scarce_devices_costs_these_too():
    case = problem([0.5, 0.5], available=(3, 0), given=(PlacedGroup(0, (0, 1), 0.5, 2),))
    found = generation._bound(case, relaxed([1.0, 1.0], (0.25, 0.0)), 1.0)
    assert found == pytest.approx(2.0 / 2.0 - 0.25 * 3), "worth 2 for 0.5 and two devices at 0.25 each"


# --- whole columns


def test_columns_whose_reduced_cost_exceeds_the_slack_are_left_out(monkeypatch):
    offered = []
    monkeypatch.setattr(generation, "choose", lambda case, columns, **_: offered.append({*columns}))
    case = problem([0.2, 0.2, 0.2])
    begun = FirstPlan((PlacedGroup(0, (0, 1), 1.0), PlacedGroup(0, (2,), 1.0)), ())
    pool = generation._Pool(case, begun)
    near, far = PlacedGroup(0, (0, 2), 1.0), PlacedGroup(0, (0, 1, 2), 2.0)
    wide = PlacedGroup(0, (1, 2), 0.5, 3)
    pool.add([near, far, wide])
    prices = relaxed([0.4, 0.4, 0.4], (0.25, 0.0), cost=1.5)

    def useful(begun, prices=prices):
        best = generation._whole(case, pool, begun, prices, seconds=1.0, gap=0.0)
        assert best is begun
        return offered.pop() - {*singles(case)}

    # Slack 0.5; near is 1 + 0.25 - 0.8 = 0.45 too dear, far 2 + 0.25 - 1.2 = 1.05, wide 0.5 + 3 * 0.25 - 0.8 = 0.45.
    assert useful(begun) == {begun.columns[0], near, wide}
    assert useful(begun, relaxed([0.4] * 3, (0.3, 0.0), cost=1.5)) == {begun.columns[0], near}
    assert useful(begun, relaxed([0.4] * 3, (0.25, 0.0), cost=1.55)) == {begun.columns[0], near, wide}
    assert useful(begun, relaxed([0.4] * 3, (0.25, 0.0), cost=1.551)) == {begun.columns[0]}
    assert useful(begun, relaxed([0.4] * 3, (0.25, 0.0), cost=9.0)) == {begun.columns[0]}
    assert far in useful(FirstPlan(begun.columns, (2,)))


@pytest.mark.parametrize(
    ("cost", "left_out", "missing", "better"),
    [
        (1.9, (), (), True), (2.0, (), (), False), (2.5, (), (), False), (9.0, (), (1,), True),
        (1.0, (1,), (), False), (1.9, (1,), (1,), True), (2.0, (1,), (1,), False),
    ],
)  # fmt: skip
def test_whole_columns_replace_a_plan_if_they_place_more_or_cost_less(monkeypatch, cost, left_out, missing, better):
    chosen = ChosenGroups((PlacedGroup(0, (0, 1), cost),), left_out, 0.0, 0.0)
    monkeypatch.setattr(generation, "choose", lambda *_, **__: chosen)
    begun = FirstPlan(alone(2).columns, missing)
    case = problem([0.2, 0.2])
    pool = generation._Pool(case, begun)
    best = generation._whole(case, pool, begun, relaxed([1.0, 1.0]), seconds=1.0, gap=0.0)
    assert best == (FirstPlan(chosen.columns, left_out) if better else begun)


# --- the first plan


def test_a_device_may_change_its_way_to_share_for_a_better_fit():
    share = np.array([0.6, 0.4, 0.0])

    def judge(option, groups):
        count = (groups != NOBODY).sum(axis=1)
        busy = share[groups].sum(axis=1) * (1.0 if option else 1 + 0.2 * (count - 1))
        return JudgedGroups(busy <= 1, busy, np.full(len(groups), 1.0 + option))

    columns, missing = best_fit_decreasing(Problem(2, (WayToUse(0, 1.0), WayToUse(0, 1.0)), (2,), judge))
    assert (columns, missing) == ([PlacedGroup(1, (0, 1), 2.0)], [])


def test_out_of_time_only_the_four_latest_devices_are_tried():
    case = problem([0.9, 0.8, 0.8, 0.8, 0.8, 0.1], prices=(1.0, 9.0))
    assert (0, 5) in {column.members for column in start(case).columns}
    hurried = {column.members for column in start(case, lambda: False).columns}
    assert (0, 5) not in hurried
    assert (1, 5) in hurried, "the fullest of the latest four; ties go to the first"


def test_units_that_fit_nowhere_come_last_and_are_named():
    columns, missing = best_fit_decreasing(problem([5.0, 0.5, 4.0]))
    assert ([column.members for column in columns], missing) == ([(1,)], [0, 2])
    columns, missing = best_fit_decreasing(problem([0.5, 0.7], available=(1, 0)))
    assert ([column.members for column in columns], missing) == ([(1,)], [0])


# --- the search for groups


def test_a_gain_must_exceed_the_least():
    case = problem([0.5], prices=(1.0, 9.0))
    found = [
        len(price(case, 0, np.array([worth]), 0.0, keep=9, beam=None, more=lambda: True, least_gain=0.25).gain)
        for worth in (1.25, 1.375)
    ]
    assert found == [0, 1]


@pytest.mark.parametrize("seed", range(4))
def test_chunks_change_nothing(monkeypatch, seed):
    random = np.random.default_rng(seed)
    case, worth = problem(random.integers(1, 5, 8) / 10, most=4), random.uniform(0.2, 0.6, 8)

    def found():
        priced = price(case, 0, worth, 0.05, keep=30, beam=None, more=lambda: True)
        return sorted(map(tuple, np.sort(priced.groups, axis=1).tolist())), sorted(priced.gain), priced.most_ratio

    whole = found()
    monkeypatch.setattr(pricing, "BATCH", 9)
    assert found() == whole


def test_a_level_grows_in_chunks_of_as_many_children_as_fit_a_batch(monkeypatch):
    case, sizes = problem([0.1] * 6, prices=(1.0, 9.0)), []
    grown = pricing._Search._grown

    def counted(search, level):
        sizes.append(level.candidates.size)
        return grown(search, level)

    monkeypatch.setattr(pricing, "BATCH", 12)
    monkeypatch.setattr(pricing._Search, "_grown", counted)
    price(case, 0, np.full(6, 0.5), 0.0, keep=99, beam=None, more=lambda: True)
    assert max(sizes) == 12, "two nodes at a time, of six candidates each"


def test_a_beam_keeps_the_nodes_with_the_most_worth_per_room():
    case = problem([0.1, 0.2, 0.4, 0.1], prices=(1.0, 9.0))
    worth = np.array([0.4, 0.9, 0.95, 0.2])
    narrow = price(case, 0, worth, 0.0, keep=99, beam=1, more=lambda: True)
    groups = {tuple(sorted(int(unit) for unit in group if unit != NOBODY)) for group in narrow.groups}
    assert groups == {(0, 1), (1, 2), (1, 3), (0, 1, 2), (0, 1, 3), (0, 1, 2, 3)} & groups
    assert (1, 2) in groups
    assert (0, 2) not in groups, "only the node of unit 1 was followed"
    assert not narrow.complete
    wide = price(case, 0, worth, 0.0, keep=99, beam=99, more=lambda: True)
    assert wide.complete
    assert len(wide.groups) == 10


def test_what_time_left_open_is_bounded_by_its_cost_and_the_scarcity():
    case = problem([0.5, 0.5], prices=(1.0, 9.0))
    found = price(case, 0, np.array([0.9, 0.9]), 0.5, keep=9, beam=None, more=lambda: False)
    assert (found.complete, found.most_ratio) == (False, pytest.approx(1.8 / 1.5))
    assert price(case, 0, np.array([0.9, 0.9]), 0.5, keep=9, beam=None, more=lambda: True).most_ratio == (
        pytest.approx(1.8 / 1.5)
    )
    free = problem([0.5, 0.5], prices=(0.0, 9.0))
    assert math.isfinite(price(free, 0, np.array([0.9, 0.9]), 0.0, keep=9, beam=None, more=lambda: True).most_ratio)


def judged_groups(case, worth, *, scarce=0.0):
    """How many groups of each size the search asks about."""
    sizes = []

    def judge(option, groups):
        sizes.extend((groups != NOBODY).sum(axis=1).tolist())
        return case.judge(option, groups)

    counted = Problem(case.units, case.options, case.available, judge, case.most)
    price(counted, 0, np.array(worth), scarce, keep=99, beam=None, more=lambda: True)
    return [sizes.count(size) for size in range(1, max(sizes) + 1)]


def test_nodes_that_cannot_gain_are_not_followed():
    four = problem([0.25] * 4, prices=(1.0, 9.0))
    assert judged_groups(four, [0.2] * 4) == [4], "all together are worth less than a device"
    assert judged_groups(four, [0.3] * 4) == [4, 3, 2, 1], "only the first node can still gain"
    assert judged_groups(four, [0.3] * 4, scarce=0.2) == [4]
    pairs = problem([0.1] * 4, prices=(1.0, 9.0), most=2)
    assert judged_groups(pairs, [0.6] * 4) == [4, 6]
    threes = problem([0.1] * 5, prices=(1.0, 9.0), most=3)
    assert judged_groups(threes, [0.3] * 5) == [5, 7], (
        "from two nodes four would be in reach, but three are worth 0.9 at most"
    )


def test_a_given_group_belongs_to_a_part_that_holds_all_of_it():
    case = problem([0.1] * 3, given=(PlacedGroup(0, (0, 1), 1.0), PlacedGroup(0, (1, 2), 1.0)))
    assert case.restricted([1, 2], (1, 1)).given == (PlacedGroup(0, (0, 1), 1.0),)
    assert Problem(1, case.options, case.available, case.judge).most == 7
