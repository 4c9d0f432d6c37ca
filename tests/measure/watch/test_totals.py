"""Counters as servers give them: restarts and gaps are unknown, never zero."""

import numpy as np
import pytest

from cotenant.analyse.neighbours.totals import Totals, summed
from cotenant.analyse.neighbours.watching import TenantTotals, bucket_quantile, watched_of


def test_what_was_added_between_edges_that_no_reading_lies_on():
    read = Totals.of([0.5, 1.5, 2.5, 3.5, 4.5], [0, 10, 20, 30, 40])
    assert read.within(np.array([1.0, 2.0, 4.0])) == pytest.approx([10, 20])


def test_time_before_the_first_and_after_the_last_reading_is_unknown():
    read = Totals.of([10, 11, 12, 13], [5, 6, 7, 8])
    assert np.isnan(read.within(np.array([8.0, 11.0, 12.0, 14.0]))).tolist() == [True, False, True]


def test_a_restart_is_unknown_and_what_follows_counts():
    read = Totals.of([0, 1, 2, 3, 4], [100, 110, 3, 13, 23])
    assert read.restarts == 1
    found = read.within(np.array([0.0, 1.0, 2.0, 3.0, 4.0]))
    assert np.isnan(found[1])
    assert found[[0, 2, 3]] == pytest.approx([10, 10, 10])


def test_a_gap_is_unknown_even_if_the_total_grew():
    read = Totals.of([0, 1, 2, 3, 63, 64, 65], [0, 1, 2, 3, 63, 64, 65])
    assert read.gaps() == [(3.0, 63.0)]
    found = read.within(np.array([2.0, 3.0, 33.0, 64.0, 65.0]))
    assert np.isnan(found).tolist() == [False, True, True, False]


def test_readings_in_any_order_and_twice():
    read = Totals.of([2, 1, 2, 3], [20, 10, 20, np.nan])
    assert read.t_s.tolist() == [1, 2]


def test_counters_of_several_engines_together():
    both = summed([Totals.of([0, 1], [0, 5]), Totals.of([0, 1], [10, 30])])
    assert both is not None
    assert both.value.tolist() == [10, 35]
    assert summed([]) is None


def test_quantiles_come_from_buckets_and_need_enough_requests():
    buckets = {0.1: 50.0, 0.2: 100.0, float("inf"): 100.0}
    assert bucket_quantile(buckets, 0.5) == pytest.approx(0.1)
    assert bucket_quantile(buckets, 0.75) == pytest.approx(0.15)
    assert bucket_quantile(buckets, 0.99) is None  # needs 299
    assert bucket_quantile({0.1: 1.0, float("inf"): 1000.0}, 0.5) is None  # above the last bound


def test_rates_leave_out_what_was_not_read():
    t_s = np.array([0, 1, 2, 3, 103, 104, 105, 106.0])
    read = TenantTotals("a", "x", {"requests": Totals.of(t_s, 10 * np.array([0, 1, 2, 3, 4, 5, 6, 7.0]))})
    [tenant] = watched_of([read], device="cpu").tenants
    assert tenant.unknown_s == 100
    assert tenant.rate_rps == pytest.approx(70 / 6, rel=0.01)
