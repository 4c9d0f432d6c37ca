"""Without sensors the cause of slowness is unknown, and none is claimed."""

from cotenant.analyse.variability.readings import FleetReadings
from cotenant.analyse.variability.slow import slow_gpus


def test_a_slow_device_without_sensors_has_no_known_cause():
    [slow] = slow_gpus(FleetReadings.of(["cpu:0"] * 3 + ["cpu:1"] * 3, [10.0, 10.0, 10.1, 12.0, 12.1, 12.0]))
    assert (slow.gpu, slow.cause) == ("cpu:1", "unknown")
    assert "no clock was read" in slow.because
