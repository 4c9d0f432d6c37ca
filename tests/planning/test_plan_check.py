"""`plan --check`: attainment with its interval."""

import pytest

from cotenant.api.planning.check import interval_over_seeds


def test_seeds_that_all_agree_say_no_more_than_their_requests_do():
    lo, hi = interval_over_seeds([1.0] * 8, 600)
    assert hi == 1
    assert lo == pytest.approx(0.025 ** (1 / 600))
    assert interval_over_seeds([1.0] * 8, 600, looks=3)[0] < lo
    wider = interval_over_seeds([0.9, 1.0] * 4, 600)
    assert wider[0] < 0.95 < wider[1]
