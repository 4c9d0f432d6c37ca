"""The compiled driver mock behaves: otherwise tests that use it would mean nothing."""

import os
import subprocess
import sys
import time

import pynvml
import pytest


@pytest.fixture
def gpus(mock_nvml):
    pynvml.nvmlInit()
    yield [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    pynvml.nvmlShutdown()


def clock(gpu):
    return pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM)


def watts(gpu):
    return pynvml.nvmlDeviceGetPowerUsage(gpu) / 1e3


def test_a_lower_power_limit_gives_a_lower_clock(mock_nvml, gpus):
    mock_nvml.change(0, load=1)
    free = clock(gpus[0])
    pynvml.nvmlDeviceSetPowerManagementLimit(gpus[0], 150_000)
    time.sleep(0.06)
    assert clock(gpus[0]) < 0.8 * free
    assert 135 < watts(gpus[0]) < 151
    assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpus[0]) == 0x4


def test_a_locked_clock_holds_and_draws_less(mock_nvml, gpus):
    mock_nvml.change(0, load=1)
    time.sleep(0.06)
    free = watts(gpus[0])
    pynvml.nvmlDeviceSetGpuLockedClocks(gpus[0], 1005, 1005)
    time.sleep(0.06)
    assert clock(gpus[0]) == 1005
    assert watts(gpus[0]) < 0.8 * free
    pynvml.nvmlDeviceResetGpuLockedClocks(gpus[0])
    assert clock(gpus[0]) > 1005


def test_a_worse_die_is_slower_at_the_limit_and_hungrier_when_locked(mock_nvml, gpus):
    mock_nvml.install("v100", "v100")
    mock_nvml.change(1, die_dynamic=1.08)
    for index in range(2):
        mock_nvml.change(index, load=1)
    assert clock(gpus[1]) < clock(gpus[0])
    for gpu in gpus[:2]:
        pynvml.nvmlDeviceSetGpuLockedClocks(gpu, 1005, 1005)
    time.sleep(0.06)
    assert clock(gpus[0]) == clock(gpus[1]) == 1005
    assert watts(gpus[1]) > watts(gpus[0]) + 5


def test_it_warms_up_under_load_and_heat_slows_it(mock_nvml, gpus):
    mock_nvml.change(0, slow_s=0.1)
    cold = pynvml.nvmlDeviceGetTemperature(gpus[0], 0)
    mock_nvml.change(0, load=1)
    time.sleep(0.4)
    assert pynvml.nvmlDeviceGetTemperature(gpus[0], 0) > cold + 20
    mock_nvml.change(0, ambient_c=75)
    time.sleep(0.1)
    assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpus[0]) & 0x20


def test_an_averaging_sensor_lags_behind_an_instantaneous_one(mock_nvml, gpus):
    began = time.monotonic()
    mock_nvml.change(2, load=1)
    time.sleep(0.3)
    [instant] = pynvml.nvmlDeviceGetFieldValues(gpus[2], [pynvml.NVML_FI_DEV_POWER_INSTANT])
    average, seconds = watts(gpus[2]), time.monotonic() - began
    assert instant.value.uiVal / 1e3 > 600
    assert average < 75 + 640 * min(seconds, 1.0)  # only the time since then was busy


def test_a_load_counts_from_when_it_was_set_even_if_unread(mock_nvml, gpus):
    begin = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpus[0])
    mock_nvml.change(0, load=1)
    time.sleep(0.5)
    assert (pynvml.nvmlDeviceGetTotalEnergyConsumption(gpus[0]) - begin) / 1e3 > 0.4 * 290


def test_a_reset_counter_restarts(mock_nvml, gpus):
    before = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpus[0])
    mock_nvml.reset_energy(0)
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(gpus[0]) < before / 100


def test_processes_count_as_long_as_they_live(mock_nvml, gpus):
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    mock_nvml.occupy(0, sleeper.pid, memory_bytes=1 << 30, load=0.6)
    assert [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(gpus[0])] == [sleeper.pid]
    assert clock(gpus[0]) > 1000
    sleeper.kill()
    sleeper.wait()
    time.sleep(0.05)
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(gpus[0]) == []
    assert clock(gpus[0]) == 135


def test_what_one_process_sets_another_one_sees(mock_nvml, gpus):
    code = (
        "import pynvml as p; p.nvmlInit(); p.nvmlDeviceSetPowerManagementLimit(p.nvmlDeviceGetHandleByIndex(1), 250000)"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **mock_nvml.env()}, check=True)
    assert pynvml.nvmlDeviceGetPowerManagementLimit(gpus[1]) == 250_000


def test_a_setter_without_root_is_refused(mock_nvml, gpus):
    mock_nvml.set_system(root=0)
    with pytest.raises(pynvml.NVMLError_NoPermission):
        pynvml.nvmlDeviceSetGpuLockedClocks(gpus[0], 1005, 1005)
    with pytest.raises(pynvml.NVMLError_NoPermission):
        pynvml.nvmlDeviceSetMigMode(gpus[1], 1)
