"""Intervals of simulated numbers include the simulation's error."""

from dataclasses import replace

import pytest

from cotenant.analyse.sharing.model_error import of_metric, of_work, time_range, widened
from cotenant.tenancy.interval import Estimate
from cotenant.tenancy.records import ModelErrorRecord

ERROR = ModelErrorRecord("kind", True, "", time=(0.8, 1.25), slowdown=(0.5, 2.0), tail=(0.4, 2.5))


def test_an_interval_includes_noise_and_the_models_error():
    number = widened(Estimate(5.8, 5.7, 5.9, 3, "t"), ERROR.slowdown)
    assert (number.lo, number.hi) == pytest.approx((2.85, 11.8))
    assert "simulation's error" in number.method


def test_a_bias_never_makes_an_interval_narrower_than_the_noise():
    number = widened(Estimate(2.0, 1.9, 2.1, 3, "t"), (1.1, 1.3))
    assert (number.lo, number.hi) == pytest.approx((1.9, 2.73))


def test_a_time_beside_others_has_both_errors_and_a_time_alone_only_its_own():
    assert time_range(ERROR, solo=True) == (0.8, 1.25)
    low, high = time_range(ERROR, solo=False)
    assert low < 0.5
    assert high > 2.0


def test_total_work_falls_where_slowdowns_may_rise():
    assert of_metric("harmonic_speedup", [ERROR, ERROR]) == pytest.approx((0.5, 2.0))
    assert of_metric("fairness", [ERROR]) == pytest.approx((0.5, 2.0))


def test_errors_of_work_add_up_within_a_class_and_are_independent_between_classes():
    other = replace(ERROR, kind="other")
    same, different = of_work([0.5, 0.5], [ERROR, ERROR]), of_work([0.5, 0.5], [ERROR, other])
    assert same == pytest.approx((0.5, 2.0))
    assert different == pytest.approx((1 - 0.5 / 2**0.5, 1 + 1 / 2**0.5))


def test_a_time_beside_others_has_its_own_error_where_such_times_were_compared():
    direct = replace(ERROR, shared=(0.9, 1.1), shared_tail=(0.95, 1.05))
    assert time_range(direct, solo=False) == (0.9, 1.1)
    assert time_range(direct, solo=False, tail=True) == (0.95, 1.05)
    assert time_range(direct, solo=True) == ERROR.time


def test_a_bias_of_the_time_alone_widens_one_end_only():
    biased = replace(ERROR, time=(1.1, 1.2), slowdown=(0.9, 1.0))
    assert time_range(biased, solo=False) == pytest.approx((0.9, 1.2))


def test_records_without_errors_of_times_beside_others_can_still_be_read():
    text = '{"class": "c", "validated": true, "error": "", "time": [1, 2], "slowdown": [1, 2], "tail": [1, 2]}'
    assert ModelErrorRecord.of(text).shared is None


def test_each_metric_is_widened_in_its_own_direction():
    lopsided = replace(ERROR, slowdown=(0.5, 8.0))
    assert of_metric("antt", [lopsided]) == pytest.approx((0.5, 8.0))
    assert of_metric("harmonic_speedup", [lopsided]) == pytest.approx((1 / 8, 2.0)), "falls as slowdowns rise"
    for evenness in ("fairness", "jain"):
        assert of_metric(evenness, [lopsided]) == pytest.approx((0.25, 4.0)), "by the difference between tenants"
    assert of_metric("antt", [lopsided, replace(ERROR, slowdown=(0.5, 2.0))]) == pytest.approx((0.5, 4.0))
