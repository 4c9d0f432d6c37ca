"""GPU readings, their sources, and failing sensors."""

import math
import threading
import time

import pytest

from cotenant.devices.nvidia import counters, gpu_sensors, nvml
from cotenant.measure.sampler import Sampler
from cotenant.store.imports import nvidia_smi
from tests.support import pace


def read(gpu):
    return {
        info.name: value
        for probe in gpu_sensors.probes(gpu, measure_period=False)
        for info, value in zip(probe.sensors, probe.read(), strict=True)
    }


def infos(gpu, **options):
    return {info.name: info for probe in gpu_sensors.probes(gpu, **options) for info in probe.sensors}


def choices(gpu, **options):
    return {choice.metric: choice for choice in gpu_sensors.ladder(gpu, **options)}


def test_a_busy_gpu_at_its_power_limit(mock_nvml):
    mock_nvml.change(0, load=1)
    time.sleep(0.15)
    now = read(nvml.find(0))
    assert 285 < now["power_w"] < 305
    assert 1200 < now["sm_clock_mhz"] < 1530
    assert int(now["event_reasons"]) & 0x4
    assert now["throttled_power_cap_s"] > 0.1
    assert now["throttled_thermal_s"] == 0
    assert now["any_kernel_share"] == 1.0
    assert now["temperature_c"] < now["memory_temperature_c"] < 90


def test_an_idle_gpu(mock_nvml):
    now = read(nvml.find(0))
    assert now["sm_clock_mhz"] == 135
    assert now["power_w"] == pytest.approx(42, abs=1)
    assert int(now["event_reasons"]) == 0x1
    assert (now["any_kernel_share"], now["throttled_power_cap_s"]) == (0, 0)


def test_the_driver_and_a_log_of_its_tool_name_quantities_alike(mock_nvml, tmp_path):
    log = tmp_path / "smi.csv"
    log.write_text(
        "index, timestamp, power.draw [W], clocks.sm [MHz], clocks.mem [MHz], temperature.gpu, temperature.memory\n"
        "0, 2026/11/17 12:00:00.000, 42.0 W, 135 MHz, 877 MHz, 40, 41\n"
    )
    logged = {(series.sensor, series.unit) for series in nvidia_smi.read(log, skip_bad=False).series}
    assert len(logged) == 5
    assert logged <= {(info.name, info.unit) for info in infos(nvml.find(0), measure_period=False).values()}


def test_memory_of_the_gpu_and_of_its_processes(mock_nvml):
    mock_nvml.change(0, used_mib=300, processes=[(1, 2 << 30), (2, 1 << 30)])
    now = read(nvml.find(0))
    assert (now["processes"], now["process_memory_bytes"]) == (2, 3 << 30)
    assert now["memory_used_bytes"] == (3 << 30) + (300 << 20)


def test_energy_is_the_integral_of_power(mock_nvml):
    mock_nvml.change(0, load=1)
    time.sleep(0.1)
    power, *_ = gpu_sensors.probes(nvml.find(0), measure_period=False)
    place = [info.name for info in power.sensors].index("energy_j")
    times, joules = [], []
    for _ in range(2):
        times.append(time.monotonic())
        joules.append(power.read()[place])
        times.append(time.monotonic())
        time.sleep(0.4)
    update_s = 0.02  # the counter may be this stale at either reading
    shortest, longest = times[2] - times[1] - update_s, times[3] - times[0] + update_s
    assert 0.95 * 297 * shortest < joules[1] - joules[0] < 1.05 * 297 * longest


def test_each_architecture_uses_the_sources_it_has(mock_nvml):
    v100, a100, h100 = (infos(gpu, measure_period=False) for gpu in nvml.gpus())
    assert "power_average_w" not in v100
    assert "power_average_w" not in a100
    assert "1000 ms" in h100["power_average_w"].quality
    assert "sees 50 % of the time" in v100["power_w"].quality
    assert "sees 25 % of the time" in a100["power_w"].quality
    assert {"sm_active", "tensor_active", "dram_active", "pcie_tx_bytes_per_s"} <= set(h100)
    assert h100["sm_active"].source == "NVML GPM"
    assert "sm_active" not in a100
    assert "on however many SMs" in a100["any_kernel_share"].quality


def test_activity_between_two_readings(mock_nvml):
    mock_nvml.change(2, load=0.5, tensor=0.4, dram=0.3)
    [probe] = [p for p in gpu_sensors.probes(nvml.find(2), measure_period=False) if p.sensors[0].source == "NVML GPM"]
    names = [info.name for info in probe.sensors]
    assert all(math.isnan(value) for value in probe.read()), "the first reading has nothing to compare with"
    time.sleep(0.1)
    now = dict(zip(names, probe.read(), strict=True))
    assert now["sm_active"] == pytest.approx(0.5, abs=0.01)
    assert now["tensor_active"] == pytest.approx(0.2, abs=0.01)
    assert now["dram_active"] == pytest.approx(0.15, abs=0.01)
    assert now["pcie_rx_bytes_per_s"] == pytest.approx(4e8, rel=0.05)


def test_activity_does_not_reach_back_into_the_pause_between_trials(mock_nvml, monkeypatch):
    [probe] = [p for p in gpu_sensors.probes(nvml.find(2), measure_period=False) if p.sensors[0].source == "NVML GPM"]
    probe.read()
    monkeypatch.setattr(counters, "LONGEST_S", 0.0)
    assert all(math.isnan(value) for value in probe.read())


def test_a_probe_that_is_collected_while_the_bindings_look_a_function_up_frees_its_samples(mock_nvml):
    """The collector may run at any allocation, also at one made under the bindings' lock."""
    import pynvml

    [probe] = [p for p in gpu_sensors.probes(nvml.find(2), measure_period=False) if p.sensors[0].source == "NVML GPM"]
    held = [probe]
    del probe
    pynvml._nvmlGetFunctionPointer_cache.pop("nvmlGpmSampleFree", None)

    def collect():
        with pynvml.libLoadLock:
            held.clear()

    collecting = threading.Thread(target=collect, daemon=True)
    collecting.start()
    collecting.join(pace.seconds(10))
    stuck = collecting.is_alive()
    if stuck:
        pynvml.libLoadLock.release()
    assert not stuck


def test_pcie_traffic_of_another_trial_is_not_reported(mock_nvml, monkeypatch):
    [probe] = [p for p in gpu_sensors.probes(nvml.find(0), measure_period=False) if "PCIe" in p.sensors[0].source]
    probe.read()
    probe._asked.result(60)
    time.sleep(0.03)
    monkeypatch.setattr(counters, "PCIE_PERIOD_S", 0.01)
    assert all(math.isnan(value) for value in probe.read())
    probe._asked.result(60)


def test_pcie_is_read_in_the_background_because_the_driver_is_slow(mock_nvml):
    mock_nvml.change(0, load=1)
    [probe] = [p for p in gpu_sensors.probes(nvml.find(0), measure_period=False) if "PCIe" in p.sensors[0].source]
    asked, answer = probe._read, threading.Event()
    probe._read = lambda *arguments: answer.wait(pace.seconds(60)) and asked(*arguments)
    for _ in range(2):
        assert all(math.isnan(value) for value in probe.read()), "the driver has not answered yet"
    answer.set()
    probe._asked.result(60)
    assert probe.read() == pytest.approx((2e8, 8e8), rel=0.01)
    probe._asked.result(60)  # so that it can't leak into the next test


@pytest.mark.quiet
def test_the_update_period_is_measured_on_this_machine(mock_nvml):
    mock_nvml.change(1, update_s=0.05)  # not what is published for an A100
    assert infos(nvml.find(0))["power_w"].period_s == pytest.approx(0.02, abs=0.004)
    seen = infos(nvml.find(1))["power_w"]
    assert seen.period_s == pytest.approx(0.05, abs=0.008)
    assert "measured here; 100 ms published" in seen.quality


def test_a_constant_reading_keeps_the_published_period(mock_nvml):
    mock_nvml.change(1, stuck_w=46.19)
    worth = gpu_sensors.power_counter(nvml.find(1))
    assert (worth.measured_update_s, worth.period_s, worth.duty) == (None, 0.1, 0.25)


def test_the_ladder_names_the_source_and_why_no_better_one(mock_nvml):
    v100, h100 = choices(nvml.find(0)), choices(nvml.find(2))
    assert v100["energy"].rung.source == "NVML energy counter"
    assert v100["activity"].rung.source == "NVML utilisation"
    assert "needs Hopper" in v100["activity"].missed["NVML GPM"]
    assert choices(nvml.find(0), no_dcgm=None)["activity"].rung.source == "DCGM"
    assert h100["activity"].rung.source == "NVML GPM"
    assert h100["activity"].missed == {}


def test_without_field_values_older_functions_take_over_and_the_ladder_says_so(mock_nvml):
    mock_nvml.fail("nvmlDeviceGetFieldValues", 13)
    mock_nvml.fail("nvmlDeviceGetTotalEnergyConsumption", 3)
    gpu = nvml.find(0)
    found = infos(gpu, measure_period=False)
    assert found["power_w"].source == "NVML power usage"
    assert "energy_j" not in found
    assert "throttled_power_cap_s" not in found
    chosen = choices(gpu)
    assert chosen["energy"].rung.source == "NVML power usage"
    assert set(chosen["energy"].missed) == {"NVML energy counter", "NVML power, instant", "NVML power, average"}
    assert chosen["throttling"].rung.source == "NVML event reasons"
    assert read(gpu)["power_w"] == pytest.approx(42, abs=1)


def test_a_failing_sensor_reads_nan_and_hides_no_other(mock_nvml):
    every = gpu_sensors.probes(nvml.find(0), measure_period=False)
    mock_nvml.fail("nvmlDeviceGetTemperature", 999)
    now = {i.name: v for probe in every for i, v in zip(probe.sensors, probe.read(), strict=True)}
    assert math.isnan(now["temperature_c"])
    assert now["throttled_power_cap_s"] == 0.0
    assert now["memory_used_bytes"] == 0.0


def test_a_library_closed_meanwhile_is_reopened(mock_nvml):
    power, *_ = gpu_sensors.probes(nvml.find(0), measure_period=False)
    nvml.forget()
    assert all(math.isnan(value) for value in power.read())
    assert power.read()[0] == pytest.approx(42, abs=1)


def test_a_gpu_lost_midway_is_reported_once_per_probe(mock_nvml):
    probes = gpu_sensors.probes(nvml.find(1), measure_period=False)
    with Sampler("cuda:1", probes) as sampler:
        pace.until(lambda: sampler.samples().of("power_w")[1].size >= 2)
        mock_nvml.change(1, lost=1)
        pace.until(lambda: any("power_w" in said for said in sampler.samples().lost))
    samples = sampler.samples()
    assert samples.of("power_w")[1].size >= 2
    assert any("power_w, energy_j vanished during the trial (GPU 1 (NVIDIA A100" in said for said in samples.lost)
    assert len(samples.lost) == len(set(samples.lost))


def test_a_whole_gpu_in_mig_mode_still_has_power_and_clocks(mock_nvml):
    assert "any_kernel_share" in infos(nvml.find(1), measure_period=False)
    mock_nvml.change(1, mig=1)
    found = infos(nvml.find(1), measure_period=False)
    assert {"power_w", "energy_j", "sm_clock_mhz", "temperature_c"} <= set(found)
    assert "any_kernel_share" not in found, "the driver gives none in MIG mode"


@pytest.mark.parametrize("index", [0, 1, 2])
def test_every_sensor_states_its_quality(mock_nvml, index):
    for info in infos(nvml.find(index), measure_period=False).values():
        assert info.source.startswith("NVML")
        assert info.period_s >= 0.02
        assert len(info.quality) > 10
