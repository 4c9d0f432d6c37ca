"""The doctor's findings on machines made of files: each state, each with a fix."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.devices import find_device
from cotenant.devices.cpu.checkup import limits, load, software
from cotenant.devices.cpu.cpu_device import CpuDevice, open_cpu
from cotenant.devices.cpu.machine import TILE_LIMIT, cache_bytes
from cotenant.devices.protocol import Roofline
from cotenant.errors import DeviceError

GIB_IN_KB = 1 << 20
GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
RAPL = "/sys/class/powercap/intel-rapl:0"


def meminfo(available_gib, swap_gib=0.0, swap_free_gib=0.0):
    amounts = {"MemTotal": 64, "MemAvailable": available_gib, "SwapTotal": swap_gib, "SwapFree": swap_free_gib}
    return {"/proc/meminfo": "".join(f"{name}: {int(gib * GIB_IN_KB)} kB\n" for name, gib in amounts.items())}


PEAK = Roofline({"float32": 2e11, "bfloat16": 1e9}, 4e10, 2, "2026-01-01T00:00:00+00:00")


def test_on_this_machine_every_finding_is_one_line(monkeypatch):
    monkeypatch.setattr(limits, "roofline", lambda *_: PEAK)
    findings = find_device("cpu").checkup()
    subjects = [finding.subject for finding in findings]
    assert {"cores", "memory", "other processes", "timer", "torch", "disk", "hardware counters"} <= set(subjects)
    assert len(subjects) == len(set(subjects))
    assert all(finding.text and "\n" not in finding.text for finding in findings)


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({GOVERNOR: "performance\n"}, "ok"),
        ({GOVERNOR: "powersave\n"}, "warning"),
        ({}, "note"),
    ],
)
def test_governor(machine, files, state):
    assert limits.governor(machine.write(files), (0,)).state == state


@pytest.mark.parametrize(("text", "state"), [("0", "note"), ("1", "ok")])
def test_boost(machine, text, state):
    tree = machine.write({"/sys/devices/system/cpu/intel_pstate/no_turbo": text})
    assert limits.boost(tree, (0,)).state == state


@pytest.mark.parametrize(
    ("level", "flags", "limit"),
    [(28, "avx512_bf16 amx_tile", "AVX512_CORE_FP16"), (32, "avx512_bf16 amx_tile", None), (13, "avx2", None)],
)
def test_tiles_that_a_virtual_machine_lists_without_their_size_are_not_used(machine, monkeypatch, level, flags, limit):
    """oneDNN believes the flag and configures tiles of size zero."""
    monkeypatch.setenv(TILE_LIMIT, "to be removed")
    monkeypatch.delenv(TILE_LIMIT)
    tree = machine.write({"/proc/cpuinfo": f"processor: 0\nflags: {flags}\ncpuid level: {level}\n"})
    open_cpu("cpu", None, tree)
    assert os.environ.get(TILE_LIMIT) == limit
    assert (limits.tile_instructions(tree, (0,)) is None) == (limit is None)


def test_a_limit_on_instructions_that_the_user_set_stays(machine, monkeypatch):
    monkeypatch.setenv(TILE_LIMIT, "AVX2")
    open_cpu("cpu", None, machine.write({"/proc/cpuinfo": "flags: amx_tile\ncpuid level: 28\n"}))
    assert os.environ[TILE_LIMIT] == "AVX2"


def test_a_quota_below_the_devices_cores_is_a_warning(machine):
    tree = machine.write({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "150000 100000\n"})
    finding = limits.quota(tree, (0, 1, 2, 3))
    assert finding.state == "warning"
    assert "1.5 CPUs" in finding.text
    assert "cpu:0" in finding.fix


@pytest.mark.parametrize(("gib", "state"), [(32, "ok"), (1, "warning"), (0.2, "problem")])
def test_memory(machine, gib, state):
    assert limits.memory(machine.write(meminfo(gib)), (0,)).state == state


def test_a_containers_limit_counts_and_its_file_cache_does_not(machine):
    tree = machine.write(
        meminfo(32)
        | {
            "/proc/self/cgroup": "0::/box\n",
            "/sys/fs/cgroup/box/memory.max": f"{4 << 30}\n",
            "/sys/fs/cgroup/box/memory.current": f"{3 << 30}\n",
            "/sys/fs/cgroup/box/memory.stat": f"anon 1\ninactive_file {2 << 30}\n",
            "/sys/fs/cgroup/memory.max": "max\n",
        }
    )
    assert CpuDevice("cpu", (0,), tree).free_memory_bytes() == 3 << 30
    assert "container" in limits.memory(tree, (0,)).text


def test_free_memory_without_a_container_is_the_kernels(machine):
    assert CpuDevice("cpu", (0,), machine.write(meminfo(3))).free_memory_bytes() == 3 << 30


def test_memory_that_was_swapped_out_is_a_warning(machine):
    assert limits.swap(machine.write(meminfo(8, 4, 4)), (0,)).state == "ok"
    assert limits.swap(machine.write(meminfo(8, 4, 3)), (0,)).state == "warning"


def test_huge_pages(machine):
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    assert limits.huge_pages(machine.write({path: "[always] madvise never"}), (0,)).fix
    assert limits.huge_pages(machine.write({path: "always [madvise] never"}), (0,)).state == "ok"


def test_an_energy_sensor_for_root_only_comes_with_the_command(machine, monkeypatch):
    tree = machine.write({f"{RAPL}/name": "package-0\n", f"{RAPL}/energy_uj": "5\n"})
    assert limits.energy_sensor(tree, (0,)).state == "ok"

    def refuse(*_args, **_kwargs):
        raise PermissionError

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(type(tree), "text", lambda *_: "package-0")
    assert "sudo chmod a+r" in limits.energy_sensor(tree, (0,)).fix


def test_hyper_threads_are_mentioned(machine):
    path = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    tree = machine.write({path.format(0): "0-1", path.format(1): "0-1"})
    assert limits.hyper_threads(tree, (0, 1)).state == "note"
    assert limits.hyper_threads(tree, (0,)) is None


@pytest.mark.parametrize(("cores", "state"), [(0.001, "ok"), (0.05, "note"), (0.9, "warning")])
def test_other_processes_are_listed_by_cpu_use(cores, state):
    finding = load.foreign_load([load.Burner("ffmpeg", 77, cores)])
    assert finding.state == state
    assert ("ffmpeg (pid 77)" in finding.text) == (state != "ok")


@pytest.mark.parametrize(("share", "state"), [(0.0, "ok"), (0.02, "note"), (0.2, "warning")])
def test_steal(share, state):
    assert load.steal(share).state == state


@pytest.mark.parametrize(("avg10", "state"), [("0.50", "ok"), ("42.00", "warning")])
def test_pressure(machine, avg10, state):
    tree = machine.write({"/proc/pressure/cpu": f"some avg10={avg10} avg60=0.00 avg300=0.00 total=5\n"})
    assert load.pressure(tree).state == state


def test_a_kernel_without_pressure_information_says_so(machine):
    assert load.pressure(machine.tree).state == "note"


@pytest.mark.parametrize(("average", "state"), [("0.10", "ok"), ("1.90", "warning")])
def test_load_average(machine, average, state):
    tree = machine.write({"/proc/loadavg": f"{average} 0.5 0.5 1/100 5\n"})
    assert load.load_average(tree, (0, 1)).state == state


def test_without_torch_only_servers_can_be_measured(monkeypatch):
    monkeypatch.setattr(software, "version_of", lambda _: None)
    finding = software.torch_build((0,))
    assert finding.state == "warning"
    assert "only servers" in finding.text


def test_peak_rates_use_readable_units(machine, monkeypatch):
    monkeypatch.setattr(limits, "roofline", lambda *_: PEAK)
    finding = limits.peak_rates(machine.tree, (0,))
    assert finding.state == "ok"
    assert finding.text == "GFLOP/s: float32 200, bfloat16 1; memory 40 GB/s"


def test_peak_rates_of_a_busy_machine_are_marked(machine, monkeypatch):
    monkeypatch.setattr(limits, "roofline", lambda *_: replace(PEAK, undisturbed=False))
    assert limits.peak_rates(machine.tree, (0,)).state == "warning"


def test_unmeasurable_peak_rates_do_not_crash(machine, monkeypatch):
    def fail(*_):
        raise DeviceError("no", hint="why")

    monkeypatch.setattr(limits, "roofline", fail)
    assert limits.peak_rates(machine.tree, (0,)).text == "no"


def test_threads_that_spin_are_mentioned(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert software.waiting_threads((0, 1)).state == "note"
    assert software.waiting_threads((0,)) is None
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert software.waiting_threads((0, 1)).state == "ok"


def test_the_users_thread_variables_are_mentioned(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert "OMP_NUM_THREADS=7" in software.thread_environment().text


@pytest.mark.parametrize(("free", "state"), [(10 << 30, "ok"), (500 << 20, "warning"), (10 << 20, "problem")])
def test_disk_space(monkeypatch, tmp_path, free, state):
    monkeypatch.setattr(software.shutil, "disk_usage", lambda _: type("Usage", (), {"free": free}))
    assert software.disk_space(tmp_path).state == state


def test_a_description_is_json_and_names_the_machine():
    facts = find_device("cpu").describe()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["model"]
    assert facts["memory_bytes"] > 1 << 28
    assert facts["torch"]


def test_a_machine_without_facts_can_still_be_described(machine):
    facts = CpuDevice("cpu", (0,), machine.tree).describe()
    assert facts["memory_bytes"] is None
    assert facts["governors"] == []
    json.dumps(facts)


def test_caches_by_level_without_instructions(machine):
    folder = "/sys/devices/system/cpu/cpu0/cache/index{}"
    for i, (level, kind, size) in enumerate([(1, "Data", "32K"), (1, "Instruction", "64K"), (3, "Unified", "32768K")]):
        machine.write(
            {
                f"{folder.format(i)}/level": f"{level}\n",
                f"{folder.format(i)}/type": kind,
                f"{folder.format(i)}/size": size,
            }
        )
    assert cache_bytes(machine.tree, 0) == {"L1d": 32 << 10, "L3": 32 << 20}
