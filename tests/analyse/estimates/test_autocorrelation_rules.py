"""Correlation, and what it costs: each against its textbook formula, written out plainly here, or worked by hand."""

import math

import numpy as np
import pytest

from cotenant.analyse.estimates import autocorrelation, robust
from tests.analyse.estimates.series import ar, cluster_effect


@pytest.mark.parametrize(
    ("data", "expected"), [([1, 2, 3, 4], [0.25, -0.3]), ([1, -1, 1, -1], [-0.75, 0.5]), ([2, 2, 2], [0, 0])]
)
def test_correlations_at_each_lag_by_hand(data, expected):
    assert autocorrelation.lags(np.array(data, float), 2) == pytest.approx(expected)


def test_correlation_of_neighbours_counts_beyond_its_standard_error_without_the_bias_of_short_series():
    data = ar(50, 0.6, 4)
    own = float(autocorrelation.lags(data, 1)[0])
    assert autocorrelation.lag_correlation(data) == pytest.approx(own + (1 + 3 * own) / 50)
    assert autocorrelation.lag_correlation(np.arange(100.0)) == 0.9
    assert autocorrelation.lag_correlation(np.resize([1.0, -1.0], 40)) == 0.0
    weak = next(
        series for seed in range(99) if 0 < autocorrelation.lags(series := ar(50, 0.0, seed), 1)[0] < 1 / math.sqrt(50)
    )
    assert autocorrelation.lag_correlation(weak) == 0.0


def test_the_common_correlation_is_that_of_all_series_by_length():
    series = [ar(40, 0.7, 5), ar(120, 0.7, 7), ar(11, 0.5, 3)]
    kept = [robust.huber(values).influence for values in series[:2]]
    reach = 10
    centred = [values - values.mean() for values in kept]
    raw = [
        sum(c.size * float((c[lag:] * c[:-lag]).sum() / (c**2).sum()) for c in centred) / 160
        for lag in range(1, reach + 1)
    ]
    inflation = 1.0
    for _ in range(5):
        total = sum(
            min(1, max(0, 2 * (1 - lag / (reach + 1)))) * (raw[lag - 1] + inflation / 80) for lag in range(1, reach + 1)
        )
        inflation = min(max(1 + 2 * total, 1.0), 8.0)
    found = autocorrelation.common_correlation(series)
    assert found.inflation == pytest.approx(inflation)
    assert 1.5 < inflation < 8
    assert found.neighbours == pytest.approx(raw[0] + (1 + 3 * raw[0]) / 80)
    assert autocorrelation.common_correlation([series[2]]) is None
    assert autocorrelation.common_correlation([ar(12, 0.0)]) is not None
    assert autocorrelation.common_correlation([np.arange(300.0)]).inflation == 8.0
    assert autocorrelation.common_correlation([np.resize([1.0, -1.0], 40)]).inflation == 1.0


def test_a_series_keeps_its_own_correlation_if_it_is_clearly_larger():
    data = ar(100, 0.5, 6)
    own = float(autocorrelation.lags(data, 1)[0])
    assert autocorrelation.Common(own - 0.249, 8.0).holds_for(data)
    assert not autocorrelation.Common(own - 0.251, 8.0).holds_for(data)
    slow = ar(100, 0.9, 6)
    assert autocorrelation.Common(0.9, 8.0).holds_for(slow)
    assert not autocorrelation.Common(0.9, 1.0).holds_for(slow), "more distant blocks are correlated too"


@pytest.mark.parametrize(
    ("size", "trials", "cuts"),
    [
        (24, 1, list(range(0, 25, 2))),
        (10, 6, [0, 5, 10]),
        (7, 5, [0, 2, 4, 7]),
        (2, 1, [0, 1, 2]),
        (9, 12, [0, 9]),
        (9, 50, [0, 9]),
    ],
)
def test_trials_are_cut_so_that_there_are_twelve_stretches(size, trials, cuts):
    assert autocorrelation.stretch_bounds(size, trials).tolist() == cuts


def stretches(sizes, hits):
    return autocorrelation.Stretches(np.array(sizes), np.array(hits))


def test_the_design_effect_is_the_larger_of_that_between_stretches_and_between_trials():
    even = [stretches([10, 10, 10], [9, 0, 3]), stretches([10, 10, 10], [1, 8, 3])]
    assert autocorrelation.design_effect(even) == pytest.approx(cluster_effect([10] * 6, [9, 0, 3, 1, 8, 3]))
    apart = [stretches([10, 12], [1, 1]), stretches([10, 10], [8, 9]), stretches([11, 10], [1, 0])]
    pooled = cluster_effect([22, 20, 21], [2, 17, 1])
    assert pooled > cluster_effect([10, 12, 10, 10, 11, 10], [1, 1, 8, 9, 1, 0])
    assert autocorrelation.design_effect(apart) == pytest.approx(pooled)
    single = [stretches([10], [1]), stretches([10], [8])]
    assert autocorrelation.design_effect(single) == pytest.approx(cluster_effect([10, 10], [1, 8]))


@pytest.mark.parametrize("hits", [[0, 0], [10, 10], [3, 3]])
def test_without_variation_between_clusters_each_request_counts(hits):
    assert autocorrelation.design_effect([stretches([10], [h]) for h in hits]) == 1.0
    assert autocorrelation.design_effect([stretches([10], [3])]) == 1.0


@pytest.mark.parametrize("blocks", [[1, 1, 2, 3, 3, 3, 3, 4, 4, 4, 5, 5], [0, 0, 1, 2, 3, 3, 3, 3, 4, 4, 4, 5]])
def test_of_twelve_blocks_only_neighbours_count(blocks):
    series = np.array(blocks, float)
    first, second = autocorrelation.lags(series, 2)
    assert 1 + 2 * first < 1 + 2.5 * 2 / math.sqrt(12) < 1 + 2 * (first + 2 / 3 * second)
    assert autocorrelation.Common(0.0, 1.0).holds_for(series)
