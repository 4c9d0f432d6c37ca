"""A server that batches what waits, in closed form."""

import itertools

import numpy as np
import pytest

from cotenant.planning.mixes.batching import BatchService, quantile
from cotenant.scheduling.simulation.lines import Line, latencies


def service(single, full, largest):
    return BatchService(np.float64(single), np.float64(full), np.int64(largest))


def test_the_usual_batch_is_what_arrives_during_one():
    times = service(2.0, 5.0, 4)  # 1 + 1 per request
    assert times.usual(np.float64(0.1)) == 1.0
    assert times.usual(np.float64(0.75)) == pytest.approx(0.75 * times.time(times.usual(np.float64(0.75))))
    assert times.usual(np.float64(3.0)) == 4.0


def test_the_closed_form_is_near_the_queue_that_it_describes():
    random = np.random.default_rng(5)
    stretch = np.exp(random.normal(-0.045, 0.3, 4_000))
    ratios = []
    for load, largest, each in itertools.product((0.2, 0.5, 0.8), (1, 4, 16), (0.02, 0.3, 0.7)):
        times = service(1.0, 1.0 + each * (largest - 1), largest)
        rate = load * largest / times.full
        due = np.cumsum(random.exponential(1 / rate, 6_000))
        growth = np.linspace(1.0, times.full, largest).tolist()
        (found,) = latencies([Line(due, stretch, growth=growth)])
        levels = 0.5, 0.95, 0.99
        ratios += [float(quantile(times, rate, 1.0, level)) / np.quantile(found, level) for level in levels]
    assert np.abs(np.array(ratios) - 1).mean() < 0.15
    assert 0.6 < min(ratios) < max(ratios) < 1.6


def test_above_the_largest_batch_s_capacity_no_quantile_is_finite():
    assert np.isinf(quantile(service(1.0, 2.0, 4), np.float64(2.1), 1.0, 0.5))
    assert np.isfinite(quantile(service(1.0, 2.0, 4), np.float64(1.5), 1.0, 0.99))
