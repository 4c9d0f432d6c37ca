"""When a run stops."""

from dataclasses import replace

import pytest

from cotenant.measure.stopping import Rule, StoppingState, reason_to_stop, seconds_left, widest
from cotenant.tenancy.interval import Estimate

RULE = Rule(target=0.03, budget_s=100, blocks_min=3, blocks_max=10)


def at(blocks, *, elapsed_s=10.0, block_s=5.0, width=0.1):
    return StoppingState(blocks, elapsed_s, block_s, width)


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (at(1, width=0.001), None),  # too few blocks to trust a narrow interval
        (at(3, width=0.02), "precise enough"),
        (at(3, width=0.04), None),
        (at(3, width=None), None),
        (at(3, elapsed_s=96), "time budget used"),  # the next block would end after it
        (at(2, elapsed_s=500), None),  # the minimum number of blocks is always run
        (at(10), "all blocks done"),
    ],
)
def test_the_reason_to_stop(standing, expected):
    assert reason_to_stop(RULE, standing) == expected


def test_without_a_target_and_a_budget_only_the_number_of_blocks_ends_a_run():
    rule = Rule(target=None, budget_s=None, blocks_min=1, blocks_max=10)
    assert reason_to_stop(rule, at(9, width=0.0001, elapsed_s=1e9)) is None


def test_time_left_follows_the_square_of_the_missing_precision():
    assert seconds_left(RULE, at(4, width=0.045)) == pytest.approx((9 - 4) * 5)  # 4 * 1.5^2 = 9 blocks
    assert seconds_left(RULE, at(4, width=0.045, elapsed_s=90)) == pytest.approx(10)  # the budget ends first
    assert seconds_left(RULE, at(4, width=0.01)) == 0
    assert seconds_left(RULE, at(0)) is None


def test_the_budget_limits_the_time_left_even_before_the_minimum_of_blocks():
    assert seconds_left(RULE, at(1, width=None, block_s=20, elapsed_s=20)) == pytest.approx(80)  # not 9 blocks of 20 s
    assert seconds_left(RULE, at(1, width=None, block_s=60, elapsed_s=60)) == pytest.approx(120)  # two more are run


def test_the_widest_interval_counts_and_a_missing_one_keeps_the_question_open():
    narrow, wide, none = Estimate(1, 0.99, 1.01, 5, ""), Estimate(2, 1.8, 2.2, 5, ""), Estimate(1, None, None, 1, "")
    assert widest([narrow, wide]) == pytest.approx(0.1)
    assert widest([narrow, none]) is None
    assert widest([]) is None


def test_with_short_windows_few_blocks_stop_for_the_budget_but_not_for_a_narrow_interval():
    rule = Rule(target=0.03, budget_s=60, blocks_min=3, blocks_max=1000, precise_from=12)
    early = StoppingState(blocks=5, elapsed_s=10, block_s=1.0, widest=0.01)
    assert reason_to_stop(rule, early) is None
    assert reason_to_stop(rule, replace(early, blocks=12)) == "precise enough"
    assert reason_to_stop(rule, replace(early, elapsed_s=59.5)) == "time budget used"


def test_a_narrow_interval_waits_for_the_requests_that_objectives_need():
    now = at(3, width=0.02)
    assert reason_to_stop(RULE, replace(now, requests=(2.5,))) is None
    assert reason_to_stop(RULE, replace(at(8, width=0.02), requests=())) == "precise enough"
    assert seconds_left(RULE, replace(now, requests=(2.5, 1.1))) == pytest.approx((8 - 3) * 5)


def test_no_run_waits_for_requests_that_its_budget_can_not_give():
    now = at(3, width=0.02)  # 100 s are 20 blocks of 5 s, and the study has 10
    assert reason_to_stop(RULE, replace(now, requests=(3.5,))) == "precise enough"
    slow = replace(RULE, blocks_max=1000)
    assert reason_to_stop(slow, replace(now, requests=(6.0,))) is None
    assert reason_to_stop(slow, replace(now, requests=(7.0,))) == "precise enough"
