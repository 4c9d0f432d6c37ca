"""Intervals of simulated numbers include the simulation's error."""

from dataclasses import replace

import pytest

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.sharing.model_error import of_metric, of_work, time_range, widened
from cotenant.prediction import trust
from cotenant.prediction.trust import Class, classes, error_of, nearest
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


KEPLER = Class("kepler", "eager", "vision", "mps", calibrated=False)


def test_an_unvalidated_class_has_the_range_of_nine_in_ten_groups_of_those_like_it():
    found = error_of(KEPLER, "slowdown")
    like = nearest(KEPLER, "slowdown")
    assert not found.validated
    assert found.sentence == f"not validated; range of {len(like)} like classes"
    assert {kind.sharing for kind in like} == {"mps"}
    assert min(error.low for error in like.values()) < found.low < 1.0
    assert 1.0 < found.high < max(error.high for error in like.values())


@pytest.mark.parametrize(("groups", "least", "most"), [(1, 1.1, 1.2), (10, 2.9, 3.1)])
def test_models_that_are_far_off_widen_the_range_of_an_unvalidated_class_if_they_are_many(
    monkeypatch, groups, least, most
):
    usual, odd = (trust.ModelError(low, low + 0.2, 0.1, 99, "", groups=n) for low, n in ((0.9, 40), (2.9, groups)))
    known = {
        (replace(KEPLER, software="eager"), "slowdown"): usual,
        (replace(KEPLER, software="vllm"), "slowdown"): odd,
    }
    monkeypatch.setattr(trust, "_known", lambda: known)
    found = error_of.__wrapped__(replace(KEPLER, software="compile"), "slowdown")
    assert least <= found.high <= most


def test_a_tail_that_was_not_validated_is_wider_than_the_mean():
    mean, tail = error_of(KEPLER, "slowdown"), error_of(KEPLER, "tail")
    assert not tail.validated
    assert tail.low < mean.low
    assert tail.high > mean.high


def test_every_shipped_class_has_rows_behind_it():
    assert all(error.n > 0 and error.low < error.high for error in classes().values())
