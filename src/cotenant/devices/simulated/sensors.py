"""The sensors of a simulated GPU and their quality."""

from cotenant import sensors
from cotenant.devices.protocol import SensorInfo
from cotenant.prediction.gpu import GpuSpec

CLOCK_PERIOD_S = 0.02
TEMPERATURE_PERIOD_S = 0.1


def infos(gpu: GpuSpec) -> tuple[SensorInfo, ...]:
    """The sensors in the order of `Readings`, with their quality."""
    sensor = gpu.sensor
    share = min(1.0, sensor.window_ms / sensor.update_ms)
    blind = "" if share == 1.0 else f", so it sees {share:.0%} of the time"
    what = f"new value every {sensor.update_ms:g} ms, average of the last {sensor.window_ms:g} ms{blind}"
    source = f"simulated {gpu.name}"
    return (
        SensorInfo(*sensors.POWER, source, sensor.update_ms / 1e3, f"simulated; {what}"),
        SensorInfo(*sensors.SM_CLOCK, source, CLOCK_PERIOD_S, "simulated; nearest step of the mean clock"),
        SensorInfo(*sensors.TEMPERATURE, source, TEMPERATURE_PERIOD_S, "simulated; whole degrees"),
        SensorInfo(*sensors.ENERGY, source, sensor.update_ms / 1e3, "simulated; counter, true energy at each update"),
    )
