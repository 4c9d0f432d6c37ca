"""Slowdowns predicted from simulated mixes cover the simulation's error."""

import pytest

from cotenant.prediction.interference.forecast import Interval, in_reality
from cotenant.tenancy.records import ModelErrorRecord

ERROR = ModelErrorRecord("k", True, "s", (0.8, 1.2), (0.4, 1.3), (0.4, 1.3))


@pytest.mark.parametrize(
    ("slowdown", "lo", "hi"),
    [
        (Interval(3.0, 2.9, 3.1), 2.9 * 0.4, 3.1 * 1.3),
        (Interval(1.2, 1.1, 1.3), 1.0, 1.3 * 1.3),
        (Interval(0.99, 0.97, 1.01), 0.97, 1.01 * 1.3),
    ],
)
def test_the_error_widens_a_slowdown_but_neighbours_speed_up_no_tenant(slowdown, lo, hi):
    found = in_reality(slowdown, ERROR)
    assert (found.est, found.lo, found.hi) == (slowdown.est, pytest.approx(lo), pytest.approx(hi))
