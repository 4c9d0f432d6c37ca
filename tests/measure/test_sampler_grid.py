"""Sensors with various periods are read with few wake-ups."""

import time

import pytest

from cotenant.devices.protocol import SensorInfo
from cotenant.measure import sampler as module
from cotenant.measure.sampler import FASTEST_S, Sampler


class Probe:
    def __init__(self, period_s):
        self.sensors = (SensorInfo(f"every {period_s}", "W", "test", period_s, "made up"),)

    def read(self):
        return (1.0,)


@pytest.mark.parametrize(
    ("period_s", "read_every_s"), [(0.001, 0.05), (0.02, 0.05), (0.0998, 0.1), (0.1012, 0.1), (0.5, 0.5), (3600, 3600)]
)
def test_a_sensor_is_read_on_the_nearest_multiple_of_the_fastest_period(period_s, read_every_s):
    [(_, every_s)] = Sampler("cpu", [Probe(period_s)])._probes
    assert every_s == pytest.approx(read_every_s)
    assert every_s / FASTEST_S == pytest.approx(round(every_s / FASTEST_S))


def test_every_sensor_is_read_at_the_start_and_at_the_end():
    with Sampler("cpu", [Probe(0.05), Probe(3600)]) as sampler:
        while len(sampler._rows) < 2:
            time.sleep(0.001)
    for name in ("every 0.05", "every 3600"):
        assert sampler.samples().of(name)[1].size >= 2


class OutOfMemory(Probe):
    def read(self):
        raise MemoryError


def test_what_ends_the_thread_is_raised_after_the_trial():
    with pytest.raises(MemoryError), Sampler("cpu", [OutOfMemory(0.05)]):
        pass


def test_a_thread_without_memory_to_start_does_not_hang_the_run(monkeypatch):
    monkeypatch.setattr(module._thread, "start_new_thread", lambda *_: 0)
    monkeypatch.setattr(module, "LAST_READING_S", 0.05)
    with pytest.raises(MemoryError, match="could not start"), Sampler("cpu", []):
        pass
