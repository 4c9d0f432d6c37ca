"""Which solver takes a problem, with how much time, and the bounds that hold for every plan."""

import pytest

from cotenant.planning.solver import solve as solving
from cotenant.planning.solver.generation import INTERRUPTED, PROOF, UNKNOWN, FirstPlan, Solved
from cotenant.planning.solver.master import ChosenGroups
from cotenant.planning.solver.problem import PlacedGroup, cost_of
from tests.planning.solver.shares import clock, problem


def alone(units, cost=1.0):
    return FirstPlan(tuple(PlacedGroup(0, (unit,), cost) for unit in range(units)), ())


@pytest.fixture
def taken(monkeypatch):
    """Which solver was taken, and the seconds it was given."""
    seen = []

    def solver(name):
        def solved(problem, begun, *, seconds, **_):
            seen.append((name, seconds, begun))
            return Solved(begun.columns, begun.left_out, cost_of(begun.columns), 0.0, UNKNOWN)

        return solved

    for name in ("enumerate_groups", "generate", "improve_in_blocks"):
        monkeypatch.setattr(solving, name, solver(name))
    return seen


@pytest.mark.parametrize(
    ("units", "name"),
    [(10, "enumerate_groups"), (11, "generate"), (200, "generate"), (201, "improve_in_blocks")],
)
def test_the_solver_by_the_number_of_units(taken, units, name):
    solving.solve(problem([0.5] * units), clock=clock(0.0), seconds=5.0, begun=alone(units))
    assert [(each, seconds) for each, seconds, _ in taken] == [(name, 5.0)]


def test_a_solver_gets_a_fifth_of_a_second_at_least(taken):
    solving.solve(problem([0.5] * 11), clock=clock(3.0), seconds=3.1, begun=alone(11))
    solving.solve(problem([0.5] * 11), clock=clock(3.0), seconds=3.3, begun=alone(11))
    assert [seconds for _, seconds, _ in taken] == pytest.approx([0.2, 0.3])


def test_a_plan_that_leaves_units_out_is_begun_anew(taken):
    case = problem([0.5] * 11)
    partial = FirstPlan(alone(10).columns, (10,))
    for begun in (None, partial, alone(11)):
        solving.solve(case, clock=clock(0.0), seconds=5.0, begun=begun)
    assert [len(begun.columns) for _, _, begun in taken] == [6, 6, 11]
    assert all(not begun.left_out for _, _, begun in taken)


def test_the_first_plan_stops_choosing_when_two_fifths_of_the_time_are_gone(monkeypatch):
    told = []
    monkeypatch.setattr(solving, "start", lambda problem, more: told.extend(more() for _ in range(6)) or alone(3))
    solving.solve(problem([0.5] * 3), clock=clock(1.0), seconds=10.0)
    assert told == [True, True, True, False, False, False], "at 1, 2 and 3 s; no longer at 4"


def test_an_interrupted_solver_leaves_the_first_plan(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(solving, "generate", interrupted)
    found = solving.solve(problem([0.5] * 11), clock=clock(), seconds=5.0, begun=alone(11))
    assert (found.columns, found.left_out, found.cost, found.bound, found.proof) == (
        alone(11).columns, (), 11.0, 0.0, INTERRUPTED,
    )  # fmt: skip


# --- bounds that hold for every plan


def test_no_device_holds_more_than_its_most():
    spanning = PlacedGroup(0, (6,), 4.0, 2)
    case = problem([0.01] * 6 + [2.0], most=3, given=(spanning,))
    assert solving.bound_by_number(case) == pytest.approx(2 * 0.625), "six units on two of the cheaper devices"
    assert solving.bound_by_number(problem([0.01] * 7, most=3)) == pytest.approx(3 * 0.625)


@pytest.mark.parametrize(
    ("shares", "bound", "raised", "proof"),
    [
        ([0.5] * 11, 1.0, 5.5, "the room that each takes alone"),
        ([0.01] * 14, 0.1, 2 * 0.625, "no device holds more than 7"),
        ([0.5] * 11, 5.5, 5.5, PROOF),
        ([0.5] * 11, 6.0, 6.0, PROOF),
        ([0.5] * 40, 1.0, 11.0, "the room that each takes alone"),  # no more than the plan itself costs
        ([0.125] * 10, 0.1, 2 * 0.625, "no device holds more than 7"),  # both say as much
    ],
)
def test_a_bound_is_raised_to_what_holds_for_every_plan(shares, bound, raised, proof):
    solved = Solved(alone(11).columns, (), 11.0, bound, PROOF)
    found = solving._raised(problem(shares), solved)
    assert (found.bound, found.proof, found.cost) == (pytest.approx(raised), proof, 11.0)


def test_an_incomplete_or_interrupted_plan_has_no_bound():
    for solved in (Solved((), (1,), 1.0, 0.0, UNKNOWN), Solved((), (), 1.0, 0.0, INTERRUPTED)):
        assert solving._raised(problem([0.5] * 11), solved) is solved


def test_equal_devices_come_whole():
    assert solving.bound_by_room(problem([0.4, 0.4, 0.4], prices=(1.0, 1.0))) == 2.0
    assert solving.bound_by_room(problem([0.5, 0.5], prices=(1.0, 1.0))) == 1.0
    assert solving.bound_by_room(problem([0.4] * 3, prices=(0.0, 0.0))) == 0.0
    wide = PlacedGroup(0, (2,), 2.0, 2)
    assert solving.bound_by_room(problem([0.4, 0.4, 3.0], prices=(1.0, 1.0), given=(wide,))) == 3.0
    odd = PlacedGroup(0, (2,), 2.5, 2)
    assert solving.bound_by_room(problem([0.4, 0.4, 3.0], prices=(1.0, 1.0), given=(odd,))) == pytest.approx(3.3)


def test_a_group_that_is_given_may_be_the_cheaper_room():
    both = PlacedGroup(0, (0, 1), 0.5)
    assert solving.bound_by_room(problem([0.4, 0.2], given=(both,))) == pytest.approx(0.25 + 0.2)


# --- few units


@pytest.mark.parametrize(
    ("left_out", "reached", "bound"),
    [((), 2.0, 2.0), ((), 1.9999999, 2.0), ((), 1.5, 1.5), ((), 2.5, 2.0), ((1,), 52.0, 2.0), ((1,), 51.5, 1.5)],
)
def test_the_bound_of_an_enumeration_is_without_the_price_of_units_left_out(monkeypatch, left_out, reached, bound):
    columns = alone(2).columns
    monkeypatch.setattr(solving, "choose", lambda *_, **__: ChosenGroups(columns, left_out, reached, 50.0))
    found = solving.enumerate_groups(problem([0.5, 0.5]), alone(2), seconds=1.0)
    assert (found.cost, found.bound, found.proof) == (2.0, pytest.approx(bound), "every group was examined")
    if bound == 2.0:
        assert found.bound == found.cost


def test_an_enumeration_out_of_time_keeps_the_first_plan(monkeypatch):
    monkeypatch.setattr(solving, "choose", lambda *_, **__: None)
    found = solving.enumerate_groups(problem([0.5, 0.5]), alone(2), seconds=1.0)
    assert (found.columns, found.cost, found.bound, found.proof) == (alone(2).columns, 2.0, 0.0, "none: time ran out")


def test_every_group_up_to_the_most_is_examined(monkeypatch):
    seen = []

    def choose(case, columns, *, seconds, exactly):
        seen.append((sorted((column.option, column.members) for column in columns), seconds, exactly))

    monkeypatch.setattr(solving, "choose", choose)
    wide = PlacedGroup(0, (2,), 9.0, 2)
    solving.enumerate_groups(problem([0.2, 0.2, 0.2], most=2, given=(wide,)), alone(3), seconds=1.5)
    groups = [(0,), (0, 1), (0, 2), (1,), (1, 2), (2,)]
    assert seen == [(sorted([(0, (2,))] + [(option, group) for option in (0, 1) for group in groups]), 1.5, True)]


# --- many units


def test_a_block_has_six_seconds_at_most_and_none_begins_at_the_end(monkeypatch):
    begun, given, now = alone(4), [], [0.0]

    def block(case, mine, missing, rest, *, worth, clock, seconds):
        given.append((seconds, [column.members for column in mine], len(rest)))
        worth[:] = 1.0
        now[0] += seconds
        return mine, missing

    monkeypatch.setattr(solving, "_solved", block)
    told = []
    monkeypatch.setattr(solving, "bound_of_all", lambda *_, clock, seconds: told.append(seconds) or 0.5)
    found = solving.improve_in_blocks(
        problem([0.5] * 4), begun, clock=lambda: now[0], seconds=25.0, block_units=2, progress=told.append
    )
    assert [seconds for seconds, _, _ in given] == pytest.approx([6.0, 6.0, 6.0, 5.0]), "8 % are left for the bound"
    assert [(len(mine), rest) for _, mine, rest in given] == [(2, 2)] * 4
    assert sorted(given[0][1] + given[1][1]) == [(0,), (1,), (2,), (3,)]
    assert told == [pytest.approx(2.0)], "a block that stays as it is says nothing"
    assert (found.bound, found.proof, found.cost) == (0.5, PROOF, 4.0)


@pytest.mark.parametrize(("proven", "bound", "proof"), [(9.0, 2.0, PROOF), (0.0, 0.0, UNKNOWN), (1.0, 1.0, PROOF)])
def test_the_bound_of_blocks_is_no_more_than_the_cost(monkeypatch, proven, bound, proof):
    def block(case, mine, missing, rest, *, worth, **_):
        worth[:] = 1.0
        return mine, missing

    monkeypatch.setattr(solving, "_solved", block)
    monkeypatch.setattr(solving, "bound_of_all", lambda *_, **__: proven)
    found = solving.improve_in_blocks(problem([0.5] * 2), alone(2), clock=clock(1.0), seconds=9.0)
    assert (found.bound, found.proof) == (bound, proof)


def test_an_interrupted_block_keeps_the_plan_and_proves_nothing(monkeypatch):
    def block(case, mine, missing, rest, *, worth, **_):
        worth[:] = 1.0
        raise KeyboardInterrupt

    monkeypatch.setattr(solving, "_solved", block)
    found = solving.improve_in_blocks(problem([0.5] * 4), alone(4), clock=clock(0.1), seconds=9.0, block_units=2)
    assert (found.cost, found.bound, found.proof, len(found.columns)) == (4.0, 0.0, INTERRUPTED, 4)


@pytest.mark.parametrize(
    ("cost", "left_out", "better"),
    [(1.9, (), True), (2.0, (), False), (5.0, (), False), (5.0, (0,), True), (2.0, (0, 1), False)],
)
def test_a_block_is_replaced_by_a_cheaper_one_or_one_that_places_more(monkeypatch, cost, left_out, better):
    missing = [3, 4] if left_out else []
    made = Solved((PlacedGroup(0, (0, 1), cost),), left_out, cost, 0.0, UNKNOWN, (0.3,) * (2 + len(missing)))
    seen = []
    monkeypatch.setattr(solving, "generate", lambda part, begun, **more: seen.append((part, begun, more)) or made)
    case = problem([0.1, 0.2, 0.3, 0.4, 0.5], available=(5, 1))
    mine, rest = [PlacedGroup(0, (2,), 1.0), PlacedGroup(0, (1,), 1.0)], [PlacedGroup(0, (0,), 1.0)]
    worth = solving.np.full(5, solving.np.nan)
    columns, still = solving._solved(case, mine, missing, rest, worth=worth, clock=clock(), seconds=2.0)
    part, begun, more = seen[0]
    assert (part.units, part.available, more["seconds"], more["proven"]) == (2 + len(missing), (4, 1), 2.0, False)
    assert begun == FirstPlan((PlacedGroup(0, (0,), 1.0), PlacedGroup(0, (1,), 1.0)), tuple(range(2, part.units)))
    assert worth[[2, 1]].tolist() == [0.3, 0.3]
    if better:
        assert (columns, still) == ([PlacedGroup(0, (2, 1), cost)], [2] if left_out else [])
    else:
        assert (columns, still) == (mine, missing)


def test_the_global_bound_divides_prices_by_what_the_best_group_is_worth():
    case = problem([0.5, 0.5, 0.5], available=(3, 0), prices=(1.0, 9.0))
    worth = solving.np.array([0.6, 0.6, 0.6])
    found = solving.bound_of_all(case, worth, clock=clock(0.0), seconds=1.0)
    assert found == pytest.approx(1.8 / 1.2), "a pair is worth 1.2 of a device"
    free = problem([0.5, 0.5, 0.5], available=(3, 0), prices=(1.0, 9.0), given=(PlacedGroup(0, (0,), 0.0),))
    assert solving.bound_of_all(free, worth, clock=clock(0.0), seconds=1.0) == solving.bound_by_room(free)
    low = solving.bound_of_all(case, worth / 4, clock=clock(0.0), seconds=1.0)
    assert low == pytest.approx(1.5), "the room that units take"
