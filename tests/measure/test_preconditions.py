"""Before a trial: wait until the device is cool, up to a timeout; record how warm it was; also on simulated GPUs."""

import numpy as np
import pytest

from cotenant.devices.group import MemberProbe
from cotenant.devices.protocol import SensorInfo
from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.measure.gather import Timing
from cotenant.measure.preconditions import Preconditions, Readiness
from cotenant.measure.sampler import Samples
from cotenant.measure.simulated.simulated_fleet import start_of
from cotenant.prediction.power.dies import TYPICAL, Cooling
from cotenant.study.files import study_from_text
from cotenant.study.model import Before

V100 = find_gpu("v100-sxm2-16gb")


class Thermometer:
    """Cools by one degree per second of a clock that only sleeping advances."""

    sensors = (SensorInfo("temperature_c", "°C", "test", 0.1, "exact"),)

    def __init__(self, clock: list[float]) -> None:
        self._clock, self.at_c = clock, 30.0
        self._since = 0.0

    def heat(self, to_c: float) -> None:
        self.at_c, self._since = to_c, self._clock[0]

    def read(self):
        return [max(30.0, self.at_c - (self._clock[0] - self._since))]


def bench(before: Before | None) -> tuple[Preconditions, Thermometer, MemberProbe]:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    meter = Thermometer(clock)
    probe = MemberProbe("GPU-1", meter)
    made = Preconditions(before, "cuda:0-1", now=lambda: clock[0], sleep=sleep)
    made.look([probe])
    return made, meter, probe


def test_waits_until_a_hot_device_is_a_degree_above_idle():
    made, meter, probe = bench(Before(cool_to="idle+1C", timeout=300))
    meter.heat(50)
    found = made.wait([probe])
    assert found.start_c == {"GPU-1": 31.0}
    assert found.waited_s == pytest.approx(19)
    assert not found.unmet


def test_waiting_ends_at_the_timeout_with_a_note():
    made, meter, probe = bench(Before(cool_to="idle+1C", timeout=5))
    meter.heat(50)
    found = made.wait([probe])
    assert found.unmet == ("GPU-1 was at 45 C after 5 s of waiting, not at 31 C",)
    assert found.start_c == {"GPU-1": 45.0}


def test_without_a_precondition_nothing_is_read_and_there_is_no_wait():
    made, meter, probe = bench(None)
    meter.heat(50)
    assert made.wait([probe]) == Readiness()


def test_steady_does_not_wait_but_notes_a_temperature_that_still_moves():
    made, meter, probe = bench(Before(cool_to="steady"))
    meter.heat(50)
    assert made.wait([probe]).waited_s == 0
    columns = {
        "t_ns": np.array([0, 1, 2, 3]),
        "device": np.array(["GPU-1"] * 4),
        "sensor": np.array(["temperature_c"] * 4),
        "value": np.array([40.0, 44.0, 47.0, 49.0]),
    }
    assert made.unsteady(Samples(columns, ()), Timing(0, 1, 3, 4)) == ("GPU-1 went from 44 C to 49 C over the window",)


def test_the_start_is_among_the_samples_of_the_trial():
    added = Readiness({"GPU-1": 31.0}, 19.0).added_to(Samples({}, ()), 7)
    assert added.columns["sensor"].tolist() == ["start_temperature_c", "waited_s"]
    assert added.columns["value"].tolist() == [31.0, 19.0]
    assert added.columns["device"].tolist() == ["GPU-1", "GPU-1"]


def test_a_simulated_gpu_cools_in_simulated_time():
    cooling = Cooling.of(V100, TYPICAL)
    hot = cooling.settled(297)
    idle_c = cooling.temperature_c(cooling.settled(V100.power.idle_w))
    found = start_of(V100, TYPICAL, hot, Before(cool_to="idle+1C", timeout=600), name="g")
    assert found.temperature_c == pytest.approx(idle_c + 1, abs=0.01)
    assert found.waited_s > 10
    assert found.unmet is None
    short = start_of(V100, TYPICAL, hot, Before(cool_to="idle+1C", timeout=1), name="g")
    assert short.unmet is not None
    assert short.unmet.startswith("g was at")


@pytest.mark.parametrize("written", ["idle+1C", "idle + 1 °C", "steady"])
def test_a_study_sets_the_precondition(written):
    study = study_from_text(f"tenants: {{a: {{workload: 'null'}}}}\nbefore: {{cool_to: {written}}}\n", source="s")
    assert study.before is not None
    assert study.before.timeout_s == 300
    assert study_from_text(study.to_yaml(), source="t").before == study.before
