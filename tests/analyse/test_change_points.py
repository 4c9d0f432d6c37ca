"""Change points: computing all stretches' costs at once gives the same cuts as one end after another."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.analyse.estimates import warmup
from cotenant.analyse.estimates.warmup import SHORTEST_STRETCH


def plainly(points):
    """Optimal partitioning by its textbook definition: the best start for every end."""
    n = points.size
    penalty = 15 * math.log(n)
    centred = points - np.median(points)
    floor = (1e-3 * abs(float(np.median(points)))) ** 2 or 1e-300
    sums = np.concatenate(([0.0], np.cumsum(centred)))
    squares = np.concatenate(([0.0], np.cumsum(centred**2)))
    best, came_from = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=int)
    best[0] = -penalty
    for end in range(SHORTEST_STRETCH, n + 1):
        starts = np.arange(0, end - SHORTEST_STRETCH + 1)
        length = end - starts
        mean = (sums[end] - sums[starts]) / length
        variance = np.maximum((squares[end] - squares[starts]) / length - mean**2, floor)
        costs = best[starts] + length * np.log(variance) + penalty
        came_from[end] = np.argmin(costs)
        best[end] = costs[came_from[end]]
    cuts, end = [], int(came_from[n])
    while end > 0:
        cuts.append(end)
        end = int(came_from[end])
    return cuts[::-1]


series = st.builds(
    lambda levels, noise, seed, digits: np.round(
        np.concatenate([np.full(size, float(level)) for level, size in levels])
        + np.random.default_rng(seed).normal(0, noise, sum(size for _, size in levels)),
        digits,
    ),
    st.lists(st.tuples(st.integers(-3, 12), st.integers(20, 50)), min_size=1, max_size=4),
    st.sampled_from([0.0, 1e-9, 0.1, 1.0]),
    st.integers(0, 2**32),
    st.sampled_from([0, 2, 15]),
)


@settings(max_examples=150, deadline=None)
@given(series)
def test_the_cuts_are_those_of_the_plain_form(points):
    assert warmup._change_points(points) == plainly(points)


def test_a_change_of_level_is_cut_where_it_is():
    points = np.concatenate([np.full(60, 9.0), np.full(140, 5.0)]) + np.tile([0.01, -0.01], 100)
    assert warmup._change_points(points) == [60]
