"""What measured times over batches say about host and device, when the kernels are known."""

import numpy as np
import pytest

from cotenant.prediction.calibration.host import Calibration, calibrate

BATCHES = [1, 2, 4, 8, 16, 32, 64, 128]
SIMULATED = [0.8 + 0.3 * batch for batch in BATCHES]


def times_of(known: Calibration) -> list[float]:
    return [known.time(batch, device) for batch, device in zip(BATCHES, SIMULATED, strict=True)]


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.3])
def test_a_network_that_is_bound_by_launches_and_then_by_the_device_is_found_again(factor):
    found = calibrate(BATCHES, times_of(Calibration(launches=12.0, item=0.0, device=factor)), SIMULATED)
    assert found.launches == pytest.approx(12.0, rel=0.02)
    assert found.device == pytest.approx(factor, rel=0.1)
    assert found.item < 0.05


def test_work_of_the_host_for_each_item_is_not_taken_for_a_slow_device():
    found = calibrate(BATCHES, times_of(Calibration(launches=12.0, item=2.5, device=1.0)), SIMULATED)
    assert found.item == pytest.approx(2.5, rel=0.05)
    assert found.device < 1.5


def test_a_copy_that_is_known_to_be_there_is_kept():
    found = calibrate(BATCHES, times_of(Calibration(12.0, 0.1, 1.0)), SIMULATED, item_least=0.1)
    assert found.item == pytest.approx(0.1, abs=0.02)
    assert found.item >= 0.1


def test_where_times_can_not_tell_the_usual_factor_is_taken():
    always_waiting = [20.0 + 0 * batch for batch in BATCHES]
    found = calibrate(BATCHES, always_waiting, list(np.full(len(BATCHES), 0.5)), device_guess=1.4)
    assert found.device == pytest.approx(1.4, rel=0.01)
    assert found.time(1, 0.5) == pytest.approx(20.0, rel=0.01)


def test_one_slip_of_a_table_hardly_counts():
    times = times_of(Calibration(launches=12.0, item=0.0, device=1.0))
    times[5] *= 3
    assert calibrate(BATCHES, times, SIMULATED).launches == pytest.approx(12.0, rel=0.05)
