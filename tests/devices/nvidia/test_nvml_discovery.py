"""Finding GPUs, and why there are none: each failure of the driver has its own message."""

import os
import subprocess
import sys

import pytest
from mock_nvml import NOT_SUPPORTED, build

from cotenant.devices.nvidia import gpu_sensors, nvml
from cotenant.errors import DeviceError

ASK = """
import sys
from cotenant.devices.nvidia import gpu_sensors, nvml
from cotenant.errors import CotenantError
try:
    for gpu in nvml.gpus():
        names = [info.name for probe in gpu_sensors.probes(gpu) for info in probe.sensors]
        print(gpu.name, *names)
except CotenantError as error:
    print(error.message, "|", error.hint)
"""


def ask_elsewhere(env):
    done = subprocess.run([sys.executable, "-c", ASK], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()


def test_different_gpus_are_described_correctly(mock_nvml):
    v100, a100, h100 = nvml.gpus()
    assert (v100.name, v100.architecture, v100.compute_capability, v100.sms) == (
        "Tesla V100-SXM2-16GB", "volta", (7, 0), 80,
    )  # fmt: skip
    assert (a100.architecture, a100.sms, h100.architecture, h100.sms) == ("ampere", 108, "hopper", 132)
    assert v100.mig_mode is None
    assert a100.mig_mode is False
    assert v100.power_limits == nvml.PowerLimits(now=300, default=300, low=150, high=300)
    assert (v100.sm_clocks_mhz[0], v100.sm_clocks_mhz[-1], v100.base_clock_mhz) == (1530, 135, 1312)
    assert h100.base_clock_mhz is None, "on Hopper the default clock is the highest and says nothing about the base"
    assert [gpu.index for gpu in (v100, a100, h100)] == [0, 1, 2]
    assert len({gpu.uuid for gpu in (v100, a100, h100)} | {gpu.pci for gpu in (v100, a100, h100)}) == 6
    assert a100.memory_bytes == 40960 << 20
    assert (nvml.driver_version(), nvml.cuda_version()) == ("550.54.15", "12.4")


def test_an_unreported_architecture_follows_from_the_compute_capability(mock_nvml):
    mock_nvml.fail("nvmlDeviceGetArchitecture", 13)
    mock_nvml.change(2, cc_major=7, cc_minor=5)
    assert [gpu.architecture for gpu in nvml.gpus()] == ["volta", "ampere", "turing"]
    mock_nvml.fail("nvmlDeviceGetArchitecture", 0)
    mock_nvml.change(2, arch=99, cc_major=42)
    assert nvml.find(2).architecture == "unknown"


def test_a_gpu_is_found_by_index_uuid_or_prefix(mock_nvml):
    uuid = nvml.find(1).uuid
    assert nvml.find("1").uuid == nvml.find(uuid).uuid == nvml.find(uuid[4:12]).uuid == nvml.find(uuid.lower()).uuid


@pytest.mark.parametrize("name", ["7", "GPU-", "GPU-ffff", "-1", ""])
def test_a_wrong_name_lists_the_right_ones(mock_nvml, name):
    with pytest.raises(DeviceError) as refusal:
        nvml.find(name)
    assert "there is no GPU" in refusal.value.message
    assert "Tesla V100" in refusal.value.hint
    assert nvml.find(2).uuid in refusal.value.hint


def test_instances_of_a_partitioned_gpu_are_listed(mock_nvml):
    mock_nvml.change(1, mig=1)
    uuids = [mock_nvml.add_instance(1, "3g.20gb", sms=42, slices=3, memory_mib=19968) for _ in range(2)]
    a100 = nvml.find(1)
    assert a100.mig_mode is True
    assert [part.uuid for part in a100.instances] == uuids
    assert a100.instances[0].profile == "3g.20gb"
    assert (a100.instances[0].sms, a100.instances[0].memory_bytes) == (42, 19968 << 20)


def test_processes_on_a_gpu_are_named_with_their_memory(mock_nvml):
    mock_nvml.occupy(0, os.getpid(), memory_bytes=3 << 30)
    mock_nvml.change(0, processes=[(1, 2 << 30)])
    found = {process.pid: process for process in nvml.processes(nvml.find(0))}
    assert {pid: process.memory_bytes for pid, process in found.items()} == {1: 2 << 30, os.getpid(): 3 << 30}
    assert found[os.getpid()].name is not None
    assert nvml.free_memory_bytes(nvml.find(0)) == (16160 << 20) - (5 << 30)
    assert nvml.processes(nvml.find(1)) == ()
    mock_nvml.vacate(os.getpid())
    assert [process.pid for process in nvml.processes(nvml.find(0))] == [1]


def test_a_gpu_that_shares_the_cpus_memory_reports_the_machines(mock_nvml):
    mock_nvml.fail("nvmlDeviceGetMemoryInfo", NOT_SUPPORTED)  # as on GB10
    gpu = nvml.find(0)
    assert gpu.memory_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < nvml.free_memory_bytes(gpu) <= gpu.memory_bytes
    assert "memory_used_bytes" not in {info.name for probe in gpu_sensors.probes(gpu) for info in probe.sensors}


def test_a_lost_gpu_does_not_hide_the_others(mock_nvml):
    mock_nvml.change(1, lost=1)
    assert [gpu.index for gpu in nvml.gpus()] == [0, 2]
    assert nvml.lost()[1].trouble == "lost"
    with pytest.raises(nvml.DriverProblem, match="GPU 1 is lost"):
        nvml.find(1)


def test_a_driver_that_is_not_loaded(mock_nvml):
    mock_nvml.set_system(init_error=9)
    with pytest.raises(nvml.DriverProblem, match="no matching driver is loaded") as problem:
        nvml.gpus()
    assert problem.value.trouble == "no driver"
    mock_nvml.set_system(init_error=0)
    assert len(nvml.gpus()) == 3, "it is tried again, not cached as missing"


def test_no_library_at_all(mock_nvml, tmp_path):
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    [answer] = ask_elsewhere(env)
    assert answer.startswith("there is no NVIDIA driver here: its library libnvidia-ml.so.1 was not found | install")


def test_the_same_driver_in_another_process(mock_nvml):
    answers = ask_elsewhere({**os.environ, **mock_nvml.env()})
    assert [answer.split()[0] for answer in answers] == ["Tesla", "NVIDIA", "NVIDIA"]


def test_symbols_missing_from_an_older_driver_cost_only_their_values(mock_nvml, tmp_path):
    old = build(
        tmp_path / "old",
        without=[
            "nvmlDeviceGetFieldValues", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlGpmQueryDeviceSupport",
            "nvmlDeviceGetArchitecture", "nvmlDeviceGetMigMode", "nvmlDeviceGetComputeRunningProcesses_v3",
        ],
    )  # fmt: skip
    v100, _, h100 = ask_elsewhere({**os.environ, **mock_nvml.env(old)})
    assert {"power_w", "energy_j", "sm_clock_mhz", "event_reasons", "temperature_c", "processes"} <= set(v100.split())
    assert not {"throttled_power_cap_s", "memory_temperature_c", "sm_active"} & set(h100.split())
    assert "any_kernel_share" in h100.split()


def test_a_missing_required_function_is_named(mock_nvml):
    mock_nvml.fail("nvmlDeviceGetMemoryInfo", 13)
    with pytest.raises(nvml.DriverProblem, match="this NVIDIA driver has no nvmlDeviceGetMemoryInfo") as problem:
        nvml.gpus()
    assert problem.value.hint == "update the driver"
