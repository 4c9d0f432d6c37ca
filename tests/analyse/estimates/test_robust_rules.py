"""Huber's mean and the canary: each against its textbook formula, written out plainly here, or worked by hand."""

from statistics import median, stdev

import numpy as np
import pytest
from scipy import optimize, stats

from cotenant.analyse.estimates import robust


def proposal_2(data):
    """Location and scale that solve Huber's two equations, by a general solver."""
    expected = stats.norm.expect(lambda z: np.minimum(z**2, 4.0))
    n = len(data)

    def equations(guess):
        z = np.clip((data - guess[0]) / guess[1], -2, 2)
        return z.sum(), (z**2).sum() - (n - 1) * expected

    location, scale = optimize.fsolve(equations, (median(data), stdev(data)), xtol=1e-12)
    return location, abs(scale)


@pytest.mark.parametrize("far", [0.0, 4.0, 9.0, -30.0])
def test_huber_solves_both_equations(far):
    data = np.append(np.random.default_rng(8).normal(3, 1, 24), 3 + far)
    location, scale = proposal_2(data)
    found = robust.huber(data)
    assert (found.location, found.scale) == pytest.approx((location, scale), rel=1e-6)
    z = (data - location) / scale
    assert found.weights == pytest.approx(np.minimum(1, 2 / np.maximum(np.abs(z), 1e-9)), rel=1e-5)
    assert found.reduced == (np.abs(z) > 2).sum()
    inside = (np.abs(z) < 2).mean()
    assert found.influence == pytest.approx(location + scale * np.clip(z, -2, 2) / inside, rel=1e-5)


def test_huber_of_equal_and_of_too_few_values():
    found = robust.huber(np.full(4, 7.0))
    assert (found.location, found.scale, found.reduced) == (7.0, 0.0, 0)
    assert found.weights.tolist() == [1, 1, 1, 1]
    assert found.influence.tolist() == [7, 7, 7, 7]
    assert robust.huber(np.array([1.0, 3.0])).location == 2.0
    with pytest.raises(ValueError, match="at least two"):
        robust.huber(np.array([1.0]))


# --- the canary


def canary_case(blocks=20, known=20, slope=0.8, noise=0.0, shift=0.0):
    x = np.resize([0.01, -0.01, 0.02, -0.02], known) + shift
    y = np.full(blocks, 0.3)
    y[:known] += slope * x
    y += noise * np.resize([1, 1, -1, -1], blocks)
    return dict(enumerate(y)), dict(enumerate(x))


@pytest.mark.parametrize(("slope", "removed"), [(0.8, 0.8), (1.4, 1.4), (3.0, 1.5), (-0.8, 0.0)])
def test_what_the_canary_explains_is_taken_out_up_to_a_slope_of_one_and_a_half(slope, removed):
    ratios, canaries = canary_case(slope=slope)
    expected = {block: value - removed * canaries[block] for block, value in ratios.items()}
    assert robust.adjusted(ratios, canaries) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("case", "used"),
    [
        ({"blocks": 12, "known": 12}, True),
        ({"blocks": 11, "known": 11}, False),
        ({"blocks": 20, "known": 16}, True),
        ({"blocks": 20, "known": 15}, False),
        ({"noise": 0.02}, True),
        ({"noise": 0.08}, False),
        ({"shift": 0.005}, True),
        ({"shift": 0.0065}, False),
        ({"shift": 0.03}, False),
    ],
)
def test_a_canary_is_used_if_it_is_known_related_and_alike_in_both_cells(case, used):
    ratios, canaries = canary_case(**case)
    assert (robust.adjusted(ratios, canaries) != ratios) is used


def test_a_canary_that_never_moves_or_ratios_that_never_do_change_nothing():
    ratios, canaries = canary_case()
    assert robust.adjusted(ratios, dict.fromkeys(canaries, 0.0)) == ratios
    assert robust.adjusted(dict.fromkeys(ratios, 0.3), canaries) == dict.fromkeys(ratios, 0.3)
    wide = np.resize([3.0, -2.9], 40)
    assert not robust.usable(wide)
    assert robust.usable(np.resize([0.05, -0.011], 30)) is False
    assert robust.usable(np.resize([0.02, -0.02], 30))
