"""From series to verdicts: what is judged, by what, and why it is called that."""

import math
from types import SimpleNamespace as Facts

import numpy as np
import pytest

from cotenant.analyse.comparison import outcomes, series
from cotenant.analyse.comparison.changes import JudgedChange, change
from cotenant.analyse.comparison.outcomes import ComparedPair, Subject
from cotenant.analyse.comparison.pair import _by_tenant
from cotenant.analyse.comparison.series import BlockSeries, CommonCells, common_part
from cotenant.tenancy.interval import Missing

WAVE = 0.004 * np.resize([1.0, -1.0], 8)


def blocks(level, scatter=WAVE):
    return dict(enumerate((level + scatter).tolist()))


def pair(shift, scatter=WAVE):
    """A quantity whose logarithm rose by so much."""
    return ComparedPair(blocks(0.0, scatter), blocks(shift, scatter))


NOTHING = ComparedPair({}, {})


def judged(*subjects, common=None, margin=0.03, common_moved=False, between=0.0):
    return outcomes.outcomes(subjects, common, margin, 0.05, common_moved=common_moved, between=between)


def subject(time=0.0, cycles=None, clock=None, *, unserved=False):
    return Subject(
        pair(time), NOTHING if cycles is None else pair(cycles), NOTHING if clock is None else pair(clock), unserved
    )


@pytest.mark.parametrize(
    ("given", "verdict", "because"),
    [
        (subject(0.2), "slower", "beyond the margin"),
        (subject(-0.2), "faster", "beyond the margin"),
        (subject(0.0), "same", "within the margin"),
        (subject(math.log(1.03)), "ambiguous", "too noisy"),
        (subject(0.2, unserved=True), "slower", "requests not served"),
        (subject(0.2, 0.0, -0.2), "slower", "the clock"),
        (subject(0.2, 0.2, 0.0), "slower", "beyond the margin"),
        (subject(-0.2, 0.0, -0.2), "faster", "beyond the margin"),
    ],
)
def test_a_verdict_and_its_reason(given, verdict, because):
    [found] = judged(given)
    assert (found.verdict, found.because) == (verdict, because)
    assert found.regression is (verdict == "slower" and because != "the clock")
    assert found.total.est == pytest.approx(math.exp(given.time.now[0] - given.time.before[0]))
    assert found.own.est == found.total.est, "nothing is common"
    assert isinstance(found.cycles, Missing) is (given.cycles is NOTHING)
    assert found.to_json()["regression"] is found.regression


@pytest.mark.parametrize(
    ("cycles", "clock", "excused"),
    [
        (0.0, math.log(0.99), True),
        (0.0, math.log(0.9901), False),
        (-0.5, math.log(0.9), True),
        (0.02, math.log(0.9), True),  # shown to be within the margin
        (0.028, math.log(0.9), False),  # not shown
    ],
)
def test_a_clock_that_fell_excuses_equal_cycles(cycles, clock, excused):
    found = outcomes.excused_by_clock(pair(cycles).change(), pair(clock).change(), 0.03)
    assert found is excused
    assert not outcomes.excused_by_clock(None, pair(clock).change(), 0.03)
    assert not outcomes.excused_by_clock(pair(cycles).change(), None, 0.03)


def test_the_common_part_is_taken_off_unless_it_moved_itself():
    common = pair(0.2)
    [alike] = judged(subject(0.2), common=common)
    assert (alike.verdict, alike.own.est, alike.total.est) == ("same", pytest.approx(1.0), pytest.approx(math.exp(0.2)))
    [moved] = judged(subject(0.2), common=common, common_moved=True)
    assert (moved.verdict, moved.because) == ("slower", "all tenants alike")
    [more] = judged(subject(0.4), common=common, common_moved=True)
    assert (more.verdict, more.because) == ("slower", "beyond the margin")
    [dropped] = judged(subject(0.2, unserved=True), common=common)
    assert dropped.own.est == pytest.approx(math.exp(0.2)), "what wasn't served has no common part"
    [apart] = judged(subject(0.2), common=ComparedPair({99: 0.0}, {99: 0.0}))
    assert isinstance(apart.own, Missing)
    assert apart.verdict == "slower"


def test_variance_between_runs_widens_the_total_and_not_what_is_free_of_it():
    [narrow], [wide] = judged(subject(0.1)), judged(subject(0.1), between=0.01)
    assert wide.total.hi > narrow.total.hi
    [own] = judged(subject(0.1), common=pair(0.0), between=0.01)
    assert own.own.hi == pytest.approx(narrow.own.hi, rel=0.1)
    assert own.own.hi < wide.own.hi


def test_a_subject_needs_two_blocks():
    with pytest.raises(ValueError, match="fewer than two blocks"):
        judged(Subject(ComparedPair({0: 0.0}, {0: 0.0, 1: 0.0}), NOTHING, NOTHING))


def test_withheld_and_refused_outcomes_claim_nothing():
    [found] = judged(subject(0.2))
    held = outcomes.withheld(found)
    assert (held.verdict, held.because, held.total, held.regression) == ("ambiguous", "not valid", found.total, False)
    none = outcomes.refused("no usable trial", "none")
    assert (none.verdict, none.because, none.total.reason) == ("ambiguous", "no usable trial", "none")
    assert none.p_value is None


def run(time=0.0, offered=None, **more):
    columns = {name: {} for name in ("service", "cycles", "clock", "ttft", "tpot")}
    given = {"time": blocks(time), "offered": blocks(0.0, 0 * WAVE) if offered is None else offered} | columns | more
    return BlockSeries(of="a", works=frozenset(), rate_rps=None, trials=8, unusable={}, **given)


@pytest.mark.parametrize(
    ("offered", "overloaded", "unserved"), [(0.01, False, 1 - math.exp(-0.01)), (0.011, True, 1 - math.exp(-0.011))]
)
def test_a_row_that_was_not_served_is_judged_by_what_was_offered(offered, overloaded, unserved):
    full, late = run(), run(offered=blocks(offered, 0 * WAVE))
    assert late.overloaded is overloaded
    assert late.unserved == pytest.approx(unserved)
    assert not run(offered={}).overloaded
    for before, now in ((full, late), (late, full)):
        found = outcomes.subject(before, now)
        assert found.unserved is overloaded
        assert found.time == (
            ComparedPair(before.offered, now.offered) if overloaded else ComparedPair(before.time, now.time)
        )


def test_rows_together_are_their_mean_in_the_blocks_that_all_have():
    one = Subject(ComparedPair({0: 1.0, 1: 2.0}, {0: 3.0}), ComparedPair({0: 5.0}, {}), NOTHING)
    two = Subject(ComparedPair({0: 3.0, 2: 2.0}, {0: 5.0}), ComparedPair({0: 7.0}, {}), NOTHING)
    found = outcomes.together([one, two])
    assert (found.time, found.cycles, found.clock) == (
        ComparedPair({0: 2.0}, {0: 4.0}),
        ComparedPair({0: 6.0}, {}),
        NOTHING,
    )
    assert series.pooled([]) == {}


# --- what all tenants share


def alone(**levels):
    return {name: blocks(level) for name, level in levels.items()}


def test_tenants_that_moved_alike_have_a_common_part():
    found = common_part([alone(a=1.0, b=2.0, c=3.0), alone(a=1.1, b=2.1, c=3.1)], 0.03)
    assert (found.tenants, found.alike) == (3, 3)
    before, now = found.runs
    assert change(now, before).ratio.est == pytest.approx(math.exp(0.1))
    assert before == pytest.approx({block: -0.05 + wave for block, wave in enumerate(WAVE)})


@pytest.mark.parametrize(
    ("second", "alike"),
    [
        ({"a": 1.1, "b": 2.1, "c": 3.5}, 2),  # one of three moved by itself
        ({"a": 1.1, "b": 2.3, "c": 3.5}, None),  # the median is alike, and nobody else
        ({"a": 1.0, "b": 2.0 + math.log(1.03) - 1e-6, "c": 3.0}, 3),
        ({"a": 1.0, "b": 2.0 + math.log(1.03) + 1e-6, "c": 3.0}, 2),
    ],
)
def test_more_than_half_have_to_move_alike(second, alike):
    found = common_part([alone(a=1.0, b=2.0, c=3.0), alone(**second)], 0.03)
    assert (found and found.alike) == alike


def test_the_common_part_needs_three_tenants_in_every_run_and_two_blocks():
    two = alone(a=1.0, b=2.0)
    assert common_part([two, two], 0.03) is None
    three = alone(a=1.0, b=2.0, c=3.0)
    assert common_part([three, two], 0.03) is None
    assert common_part([three, three | {"c": {}}], 0.03) is None
    short = {name: {0: level} for name, level in (("a", 1.0), ("b", 2.0), ("c", 3.0))}
    assert common_part([short, short], 0.03) is None
    assert isinstance(common_part([three, three], 0.03), CommonCells)
    half = alone(a=1.0, b=2.0, c=3.0, d=4.0)
    moved = alone(a=1.0, b=2.0, c=3.5, d=4.9)
    assert common_part([half, moved], 0.03) is None, "exactly half isn't more than half"


def test_judged_changes_keep_their_numbers():
    [found] = judged(subject(0.2))
    assert found.p_value < 0.05
    assert found.blocks_missing is None
    assert JudgedChange("same", 0.5).blocks_missing is None


def test_to_decide_one_of_many_rows_takes_more_blocks():
    unsteady = Subject(pair(0.05, 10 * WAVE), NOTHING, NOTHING)
    [single] = judged(unsteady)
    many = judged(*[unsteady] * 10)
    assert {each.verdict for each in (single, *many)} == {"ambiguous"}
    assert {each.blocks_missing > 2 * single.blocks_missing for each in many} == {True}


def with_blocks(before, now, *, unserved=False):
    """A row with these numbers of blocks in the two runs."""
    return Subject(ComparedPair(dict.fromkeys(range(before), 0.0), dict.fromkeys(range(now), 0.1)),
                   NOTHING, NOTHING, unserved)  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "pooled"),
    [
        (with_blocks(2, 2), with_blocks(2, 2), True),
        (with_blocks(1, 2), with_blocks(1, 2), False),
        (with_blocks(2, 1), with_blocks(2, 1), False),
        (with_blocks(2, 2), with_blocks(2, 2, unserved=True), False),
        (with_blocks(2, 2), None, False),
    ],
)
def test_a_tenant_is_judged_as_a_whole_if_two_of_its_rows_have_two_blocks_in_both_runs(first, second, pooled):
    subjects = {name: each for name, each in (("alone", first), ("beside b", second)) if each is not None}
    found = _by_tenant({name: Facts(of="a") for name in subjects}, subjects)
    assert list(found) == (["a"] if pooled else [])
