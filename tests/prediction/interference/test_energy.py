"""Power of a mix and energy per request: together they account for every joule."""

import numpy as np
import pytest

from cotenant.devices.simulated.catalogue.find import find_gpu
from cotenant.prediction.interference.profiles import PowerUse
from cotenant.prediction.power.draw import Activity, mean_w

USE = PowerUse(find_gpu("a100-sxm4-40gb"), np.array([0.004, 0.001]), np.array([0.001, 0.002]))


def test_tenants_pay_for_all_the_power_by_the_time_they_hold():
    watts, (heavy, light) = USE.drawn([0, 1], [100.0, 50.0])
    assert 100 * heavy + 50 * light == pytest.approx(watts)
    assert heavy == pytest.approx(4 * light)


def test_a_neighbour_shares_the_idle_power():
    alone, (own,) = USE.drawn([0], [100.0])
    both, (beside, _) = USE.drawn([0, 1], [100.0, 100.0])
    assert alone < both < USE.gpu.power.limit_w
    assert beside < own


def test_power_ends_at_the_limit():
    assert mean_w(USE.gpu, Activity(1.0, 1.0)) == USE.gpu.power.limit_w
    assert USE.drawn([0, 1], [1e4, 1e4])[0] == USE.gpu.power.limit_w
