"""Measured mixes correct their own prediction; the mean of measured pairs corrects larger mixes."""

import numpy as np
import pytest

from cotenant.planning.mixes.corrections import NOTHING, Corrections, MeasuredGroup, factors_of
from cotenant.planning.mixes.predictor import Mixes
from cotenant.planning.solver.problem import NOBODY


def mixes(*groups, sharing="mps"):
    width = max(len(group) for group in groups)
    tenants = np.array([(*group, *[NOBODY] * (width - len(group))) for group in groups])
    return Mixes("d", sharing, tenants, np.ones(tenants.shape), np.ones_like(tenants), np.full(tenants.shape, np.nan))


def known(slowdowns, predicted, *, blocks=5, half=0.03):
    measured = MeasuredGroup(slowdowns, half, blocks)
    return {("mps", tuple(sorted(slowdowns))): (factors_of(measured, predicted), measured)}


def test_a_measured_mix_is_predicted_as_measured_with_its_own_interval():
    table = Corrections(known({0: 1.6, 1: 1.1}, {0: 1.3, 1: 1.3}))
    slowdown, half, basis = table.apply(mixes((0, 1)), np.array([[1.3, 1.3]]))
    assert slowdown[0] == pytest.approx([1.6, 1.1], abs=0.02)
    assert half[0] == 0.03
    assert basis == ("measured (5 blocks), scaled to the rates",)


def test_at_a_lower_rate_only_what_neighbours_add_is_scaled():
    table = Corrections(known({0: 1.6, 1: 1.6}, {0: 1.3, 1: 1.3}))
    slowdown, _, _ = table.apply(mixes((0, 1)), np.array([[1.03, 1.0]]))
    assert slowdown[0, 0] == pytest.approx(1 + 0.03 * 0.62 / 0.32)
    assert slowdown[0, 1] == 1.0


def test_a_larger_mix_gets_the_mean_correction_of_its_pairs():
    table = Corrections(known({0: 1.5, 1: 1.2}, {0: 1.2, 1: 1.2}) | known({0: 1.2, 2: 1.2}, {0: 1.2, 2: 1.2}))
    slowdown, half, basis = table.apply(mixes((0, 1, 2)), np.array([[1.4, 1.4, 1.4]]))
    assert slowdown[0, 0] == pytest.approx(1 + 0.4 * np.sqrt(0.52 / 0.22))
    assert slowdown[0, 2] == pytest.approx(1.4)
    assert np.isinf(half[0])
    assert basis == ("simulated, corrected by pairs of runs",)


def test_another_way_to_share_is_left_as_predicted():
    table = Corrections(known({0: 1.6, 1: 1.1}, {0: 1.3, 1: 1.3}))
    slowdown, half, basis = table.apply(mixes((0, 1), sharing="processes"), np.array([[1.3, 1.3]]))
    assert (slowdown == 1.3).all()
    assert np.isinf(half[0])
    assert basis == (None,)
    assert NOTHING.apply(mixes((0, 1)), np.array([[1.3, 1.3]]))[2] == (None,)


def test_a_simulated_run_is_never_called_a_measurement():
    assert MeasuredGroup({0: 1.1}, 0.1, 3, simulated=True).basis.startswith("simulated run")
