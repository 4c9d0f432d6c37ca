"""`plan --check`: attainment with its interval."""

import pytest

from cotenant.api.planning.check import attained, interval_over_seeds


def test_seeds_that_all_agree_say_no_more_than_their_requests_do():
    lo, hi = interval_over_seeds([1.0] * 8, 600)
    assert hi == 1
    assert lo == pytest.approx(0.025 ** (1 / 600))
    assert interval_over_seeds([1.0] * 8, 600, looks=3)[0] < lo
    wider = interval_over_seeds([0.9, 1.0] * 4, 600)
    assert wider[0] < 0.95 < wider[1]


def test_the_interval_covers_the_range_of_the_predicted_times():
    device = {"name": "d", "kind": "sim:a100-sxm4-80gb", "sharing": "mps"}

    def checked(upper):
        expected = {"p99": {"limit_ms": 40.0, "lower_ms": 4.0, "estimate_ms": 5.0, "upper_ms": upper}}
        seat = {"rate_rps": 40.0, "batch": 1, "runs": {"workload": "bert-base"}, "expected": expected}
        return attained(device, "t", seat, looks=(range(4),))

    sure, unsure = checked(5.5), checked(50.0)
    assert sure.verdict == "kept"
    assert unsure.attained == sure.attained
    assert unsure.lo < 0.9 < unsure.hi
    assert unsure.verdict == "can't tell"
