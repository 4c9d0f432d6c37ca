"""Devices are found by name, and the error for a wrong name lists the right ones."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.devices import find_device, list_devices
from cotenant.devices.cpu.cores import format_cores, parse_cores, physical_cores, usable_cores
from cotenant.errors import DeviceError

ALLOWED = tuple(sorted(os.sched_getaffinity(0)))


def test_cpu_is_every_core_this_process_can_keep_busy():
    device = find_device("cpu")
    assert set(device.cores) <= set(ALLOWED)
    assert device.simulated is False
    assert device.lock_keys() == tuple(f"cpu:{core}" for core in device.cores)


def test_some_cores_by_number():
    core = ALLOWED[-1]
    assert find_device(f"cpu:{core}").cores == (core,)
    assert find_device(f"cpu:{core}").lock_keys() == (f"cpu:{core}",)


def test_ranges_and_lists_of_cores(two_cores):
    a, b = two_cores
    assert find_device(f"cpu:{a},{b}").cores == (a, b)


def test_overlapping_devices_share_a_lock_key(two_cores):
    a, b = two_cores
    assert set(find_device(f"cpu:{a}").lock_keys()) & set(find_device(f"cpu:{a},{b}").lock_keys())
    assert not set(find_device(f"cpu:{a}").lock_keys()) & set(find_device(f"cpu:{b}").lock_keys())


def test_the_error_for_a_missing_core_lists_the_available_ones():
    with pytest.raises(DeviceError, match="names core 60000, but this process may use") as error:
        find_device("cpu:60000")
    assert format_cores(ALLOWED) in error.value.hint


@pytest.mark.parametrize(
    "name", ["cpu:", "cpu:x", "cpu:1-0", "cpu:-1", "cpu:0,,1", "cpu:0-99999999", "cpu:0:1", "cpu:²"]
)
def test_malformed_cores_are_refused_with_the_right_forms(name):
    with pytest.raises(DeviceError) as error:
        find_device(name)
    assert "cpu:0-1" in error.value.hint
    assert "\n" not in error.value.message


@pytest.mark.parametrize(
    ("name", "meant"), [("gpu", "cuda"), ("nvidia:0", "cuda"), ("hip:0", "rocm"), ("cudo:0", "cuda")]
)
def test_common_names_for_a_gpu_get_a_suggestion(name, meant):
    with pytest.raises(DeviceError, match="there is no device") as error:
        find_device(name)
    assert f"did you mean {meant!r}?" in error.value.hint


@pytest.mark.parametrize("name", ["cpus", "CPU", "cp", "cpu0"])
def test_a_near_miss_gets_a_suggestion(name):
    with pytest.raises(DeviceError) as error:
        find_device(name)
    assert "did you mean 'cpu'?" in error.value.hint


@pytest.mark.parametrize("name", ["", "tpu-v5", "<script>", "'; drop table trials"])
def test_anything_else_gets_the_list_of_forms(name):
    with pytest.raises(DeviceError, match="there is no device") as error:
        find_device(name)
    assert "cpu:0,2" in error.value.hint


def test_the_list_of_devices_says_what_they_are_and_how_they_are_shared():
    cpu, *simulated = list_devices()
    assert cpu.name == "cpu"
    assert all(device.simulated and device.name.startswith("sim:") for device in simulated)
    assert "core" in cpu.meaning
    assert [mode.mode for mode in cpu.sharings] == ["processes", "threads", "pinned"]


@given(st.sets(st.integers(0, 300), min_size=1))
def test_cores_survive_being_written_and_read(cores):
    assert parse_cores(format_cores(tuple(cores))) == tuple(sorted(cores))


def test_cores_are_written_as_short_as_possible():
    assert format_cores((0, 1, 2, 5, 7, 8)) == "0-2,5,7-8"


def test_a_quota_of_time_takes_whole_cores_away(machine, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    tree = machine.write({"/proc/self/cgroup": "0::/app\n", "/sys/fs/cgroup/app/cpu.max": "250000 100000\n"})
    assert usable_cores(tree) == (0, 1)


def test_a_quota_below_one_core_leaves_one(machine, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    tree = machine.write(
        {
            "/proc/self/cgroup": "3:cpu,cpuacct:/docker/abc\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        }
    )
    assert usable_cores(tree) == (3,)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "max 100000\n"},
        {
            "/proc/self/cgroup": "1:cpu:/\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    ],
)
def test_without_a_quota_affinity_alone_decides(machine, monkeypatch, files):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    assert usable_cores(machine.write(files)) == (0, 1, 2)


def test_hyper_threads_of_one_core_are_kept_together(machine):
    sibling = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    tree = machine.write({sibling.format(c): s for c, s in enumerate(["0,2", "1,3", "0,2", "1,3"])})
    assert physical_cores(tree, (0, 1, 2, 3)) == ((0, 2), (1, 3))
    assert physical_cores(tree, (0, 1)) == ((0,), (1,))
