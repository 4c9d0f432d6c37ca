"""What the closing sentences count, by hand."""

import math

import pytest
from scipy import stats

from cotenant.analyse.sharing import closing
from cotenant.tenancy.interval import Estimate, Missing


def number(est, half=0.0):
    return Estimate(est, est - half, est + half, 5, "")


@pytest.mark.parametrize(
    ("number", "target", "more"),
    [
        (Missing(""), 0.05, 0),
        (Estimate(1.0, None, None, 1, ""), None, 2),
        (Estimate(1.0, None, None, 3, ""), None, 0),
        (Estimate(1.0, 0.9, 1.1, 9, ""), None, 0),
        (Estimate(1.0, 0.75, 1.25, 9, ""), 0.25, 0),
    ],
)
def test_blocks_that_are_not_needed(number, target, more):
    assert closing._more_blocks(number, target) == more


def test_blocks_until_an_interval_is_narrow_enough():
    found = closing._more_blocks(Estimate(1.0, 0.9, 1.1, 9, ""), 0.05)
    spread = 0.1 * 3 / stats.t.ppf(0.975, 8)
    assert spread * stats.t.ppf(0.975, 8 + found) / math.sqrt(9 + found) <= 0.05
    less = math.floor((9 + found) / 1.05) - 1
    assert spread * stats.t.ppf(0.975, less - 1) / math.sqrt(less) > 0.05
    assert closing._wish(500, 60.0).startswith("needs about 500 more blocks (")
    assert closing._wish(1, 60.0).startswith("needs about 1 more block (")
    assert closing._wish(501, 60.0).startswith("scatters too much")


def ways(**more):
    return closing.AloneThreeWays(
        **{"of": "a", "idle_ms": 10.0, "stopped_ms": (9.0, 9.2), "whole_ms": None, "doubtful": False} | more
    )


def test_three_ways_of_being_alone():
    (said,) = closing.alone_sentences([ways()])
    assert said.startswith(
        "a alone takes 10 ms beside idle neighbours; with them stopped 9 ms before the run and 9.2 ms"
    )
    assert said.endswith("after it: 9.9 % more beside idle neighbours.")
    assert closing._stopped(ways(stopped_ms=(9.6,))).endswith(
        "9.6 ms before the run: idle neighbours cost it nothing measurable"
    )
    assert closing._stopped(ways(stopped_ms=(11.0,))).endswith("9.1 % less beside idle neighbours")
    assert closing._stopped(ways(stopped_ms=(9.0, 10.0), idle_ms=10.5)).endswith("cost it nothing measurable")
    assert closing._whole(ways(whole_ms=8.0)).endswith("takes 8 ms instead of 9.1: its share costs 14 %")
    assert closing._whole(ways(whole_ms=8.8)).endswith("the smaller share costs it nothing measurable")
    assert "instead of 10:" in closing._whole(ways(stopped_ms=(), whole_ms=8.0))
    assert closing.alone_sentences([ways(doubtful=True)])[0].endswith("(not all of these trials were valid).")
