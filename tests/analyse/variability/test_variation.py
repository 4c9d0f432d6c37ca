"""Variation between GPUs: numbers that can be checked by hand, and intervals that cover them."""

import numpy as np
import pytest

from cotenant.analyse.variability.readings import FleetReadings
from cotenant.analyse.variability.summary import (
    alikeness,
    anderson_darling,
    kolmogorov_smirnov_pairs,
    rank_correlations,
    robust_effect,
    straggler_cost,
)
from cotenant.analyse.variability.variation import gpu_profiles, upper_fence, variation, whisker_range


def test_the_whisker_range_leaves_outliers_out():
    values = np.array([98.0, 99, 100, 101, 102, 500])
    assert whisker_range(values) == pytest.approx(4 / 100.5)
    assert upper_fence(values) < 500


def test_variation_of_a_fleet_with_known_spread(fleet):
    found = variation(fleet(gpus=200))
    assert (found.gpus, found.runs) == (200, 4000)
    assert found.cv.est == pytest.approx(0.02, rel=0.2)
    assert found.repeatability.est == pytest.approx(0.001, rel=0.1)
    for number in (found.whisker_range, found.cv, found.repeatability):
        assert number.lo < number.est < number.hi
    assert found.max_over_median.est > 1.03


def test_intervals_of_the_spread_cover_the_truth(fleet):
    held = 0
    for seed in range(24):
        number = variation(fleet(gpus=60, runs=2, seed=seed)).cv
        held += number.lo <= 0.02 <= number.hi
    assert held >= 20  # a percentile bootstrap of a spread covers slightly less than 95 %


def test_intervals_of_the_whisker_range_cover_other_fleets_of_that_size(fleet):
    usual = np.mean([whisker_range(fleet(gpus=20, runs=3, seed=seed).time_ms) for seed in range(200)])
    numbers = [variation(fleet(gpus=20, runs=3, seed=seed)).whisker_range for seed in range(24)]
    assert sum(number.lo <= usual <= number.hi for number in numbers) >= 19  # a plain resample: 14
    assert all(number.hi > number.est for number in numbers)


def test_a_single_gpu_has_no_interval_and_is_not_an_error(fleet):
    found = variation(fleet(gpus=1))
    assert found.whisker_range.lo is None
    assert "no interval" in found.whisker_range.method


def test_rows_may_come_in_any_order_and_places_are_filled_from_other_rows():
    readings = FleetReadings.of(["b", "a", "b"], [3.0, 1.0, 2.0], at_s=[2.0, 1.0, 1.0], node=["", "n1", "n2"])
    assert readings.gpus == ("a", "b")
    assert readings.time_ms.tolist() == [1.0, 2.0, 3.0]
    assert readings.place_of(1, "node") == "n2"


def test_a_column_of_another_length_is_refused():
    with pytest.raises(ValueError, match="2 values, not 3"):
        FleetReadings.of(["a", "b", "c"], [1.0, 2.0])


def test_time_goes_with_the_clock_and_not_with_pinned_power(fleet):
    found = rank_correlations(fleet(gpus=200))
    assert found["clock_mhz"].est < -0.95
    assert found["clock_mhz"].hi < -0.9
    assert found["power_w"].lo < 0 < found["power_w"].hi
    assert found["temperature_c"].lo < 0 < found["temperature_c"].hi


def test_a_sensor_that_never_moves_has_no_correlation(fleet):
    found = rank_correlations(fleet(power_w=np.full(1200, 300.0)))
    assert found["power_w"].est is None


def test_straggler_cost_of_two_gpus_is_the_mean_of_all_pairs():
    times = np.array([1.0, 2.0, 4.0])
    assert straggler_cost(times, sizes=(2, 3, 4))[2].est == pytest.approx((2 + 4 + 4) / 3 / 2)
    assert straggler_cost(times, sizes=(2, 3, 4))[3].est == pytest.approx(2.0)
    assert 4 not in straggler_cost(times, sizes=(2, 3, 4))


def test_straggler_cost_agrees_with_drawing_jobs():
    random = np.random.default_rng(1)
    times = 1 + 0.02 * random.standard_normal(100)
    drawn = np.mean([random.choice(times, 16, replace=False).max() for _ in range(20_000)]) / np.median(times)
    cost = straggler_cost(times, sizes=(16,))[16]
    assert cost.est == pytest.approx(drawn, abs=5e-4)
    assert cost.lo < cost.est < cost.hi


def test_equal_gpus_are_called_alike_and_unequal_ones_not(fleet):
    alike = alikeness(fleet(between=0.0, within=0.01))
    assert alike.p_value > 0.05
    assert alike.differing <= 0.02 * alike.pairs
    unlike = alikeness(fleet())
    assert unlike.p_value == pytest.approx(0.001)
    assert unlike.differing > 0.9 * unlike.pairs
    assert unlike.median_effect > 2


@pytest.mark.parametrize(("n", "m"), [(3, 3), (4, 7), (8, 8), (14, 40)])
def test_pairs_with_few_runs_are_tested_exactly(n, m):
    from scipy.stats import ks_2samp

    random = np.random.default_rng(n)
    a, b = random.normal(0, 1, n), random.normal(1, 1, m)
    _, _, [p] = kolmogorov_smirnov_pairs([a, b])
    assert p == pytest.approx(ks_2samp(a, b, method="exact").pvalue)


def test_three_runs_each_prove_nothing_about_two_gpus():
    found = alikeness(FleetReadings.of(["a"] * 3 + ["b"] * 3, [1.0, 1.1, 1.2, 2.0, 2.1, 2.2]))
    assert found.p_value == pytest.approx(0.1)  # 2 of the 20 ways to deal six runs to two GPUs
    assert found.differing == 0


def test_robust_effect_is_cohens_d_for_normal_values_and_ignores_outliers():
    random = np.random.default_rng(0)
    a, b = random.normal(1.0, 1.0, 20_000), random.normal(0.0, 1.0, 20_000)
    assert robust_effect(a, b) == pytest.approx(1.0, abs=0.05)
    a[:100] = 1e6
    assert robust_effect(a, b) == pytest.approx(1.0, abs=0.06)
    assert robust_effect(np.ones(5), np.ones(5)) == 0


def test_constant_times_do_not_crash():
    assert anderson_darling([np.ones(5), np.ones(5)]) == (None, None)


def test_profiles_contain_what_placement_needs(fleet):
    profiles = gpu_profiles(fleet(slow={7: 1.2}))
    slow = profiles[7]
    assert slow.relative_time.est == pytest.approx(1.2, abs=0.01)
    assert slow.relative_time.lo < slow.relative_time.est < slow.relative_time.hi
    assert slow.energy_j == pytest.approx(297 * 1.2, rel=0.01)
    assert (slow.cabinet, slow.node) == ("c0", "n1")
