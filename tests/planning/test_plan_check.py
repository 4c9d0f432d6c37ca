"""`plan --check`: attainment with its interval."""

import pytest

from cotenant.planning.check import attained, interval_over_seeds
from cotenant.tenancy.plan import PlanDevice


def test_seeds_that_all_agree_say_no_more_than_their_requests_do():
    lo, hi = interval_over_seeds([1.0] * 8, 600)
    assert hi == 1
    assert lo == pytest.approx(0.025 ** (1 / 600))
    assert interval_over_seeds([1.0] * 8, 600, looks=3)[0] < lo
    wider = interval_over_seeds([0.9, 1.0] * 4, 600)
    assert wider[0] < 0.95 < wider[1]


def test_the_interval_covers_the_range_of_the_predicted_times():
    def checked(upper):
        expected = {"p99": {"limit_ms": 20.0, "lower_ms": 4.0, "estimate_ms": 5.0, "upper_ms": upper}}
        seat = {"rate_rps": 40.0, "at_once": 1, "runs": {"workload": "bert-base"}, "expected": expected}
        device = PlanDevice.model_validate(
            {"name": "d", "kind": "sim:a100-sxm4-80gb", "sharing": "mps", "tenants": {"t": seat}}
        )
        return attained(device, "t", device.tenants["t"], looks=(range(4),))

    sure, unsure = checked(5.5), checked(50.0)
    assert sure.verdict == "kept"
    assert unsure.attained == sure.attained
    assert unsure.lo < 0.9 < unsure.hi
    assert unsure.verdict == "can't tell"
