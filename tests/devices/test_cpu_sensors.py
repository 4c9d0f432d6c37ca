"""Each sensor on a tree of files: its value, unit, and when it is omitted."""

import math
import os
import stat
import sys
import textwrap
import time

import pytest

from cotenant.devices import find_device
from cotenant.devices.child_lines import ChildLines
from cotenant.devices.cpu.sensors import accounting, open_probes
from cotenant.devices.cpu.sensors.accounting import open_memory, open_pressure, open_quota, open_time
from cotenant.devices.cpu.sensors.hardware import find_packages, open_energy, open_frequency, open_temperature
from cotenant.devices.tree import HeldOpen
from tests.support import pace

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
STAT = """cpu  11 22 33 44 55 66 77 88 99 0
cpu0 1 2 3 400 5 6 7 8 9 0
cpu1 10 20 30 400 50 60 70 80 90 0
cpu10 1000 0 0 0 0 0 0 0 0 0
intr 5 1 2 3
ctxt 4242
btime 1
"""
RAPL = "/sys/class/powercap/intel-rapl:0"


def values(probe):
    return dict(zip([sensor.name for sensor in probe.sensors], probe.read(), strict=True))


def test_cpu_time_is_that_of_the_devices_cores(machine):
    tree = machine.write({"/proc/stat": STAT})
    assert values(open_time(tree, (0,))) == pytest.approx(
        {"cpu_busy_s": 19 * TICK_S, "cpu_kernel_s": 16 * TICK_S, "cpu_steal_s": 8 * TICK_S, "context_switches": 4242,
         "package_busy_s": 19 * TICK_S, "package_cores": 1}
    )  # fmt: skip
    assert values(open_time(tree, (0, 1)))["cpu_busy_s"] == pytest.approx((19 + 190) * TICK_S)


def test_the_socket_around_the_device_is_watched_too(machine):
    topology = "/sys/devices/system/cpu/cpu{}/topology/physical_package_id"
    tree = machine.write(
        {"/proc/stat": STAT, "/sys/devices/system/cpu/online": "0-1,10\n", topology.format(0): "0\n",
         topology.format(1): "0\n", topology.format(10): "1\n"}
    )  # fmt: skip
    seen = values(open_time(tree, (0,)))
    assert seen["cpu_busy_s"] == pytest.approx(19 * TICK_S)
    assert seen["package_busy_s"] == pytest.approx((19 + 190) * TICK_S), "core 10 is on another socket"
    assert seen["package_cores"] == 2


def test_a_file_is_kept_open_and_read_afresh(machine):
    tree = machine.write({"/proc/stat": STAT})
    probe = open_time(tree, (0,))
    machine.write({"/proc/stat": STAT.replace("ctxt 4242", "ctxt 5000")})
    assert values(probe)["context_switches"] == 5000


def test_files_larger_than_one_read_are_complete(machine):
    text = "x" * 200_000
    tree = machine.write({"/proc/large": text})
    assert HeldOpen(tree.path("/proc/large")).read() == text.encode()


def test_pressure_is_a_counter_in_seconds(machine):
    line = "{} avg10=1.00 avg60=2.00 avg300=3.00 total={}\n"
    tree = machine.write(
        {
            "/proc/pressure/cpu": line.format("some", 1_500_000) + line.format("full", 0),
            "/proc/pressure/memory": line.format("some", 20) + line.format("full", 10),
        }
    )
    assert values(open_pressure(tree)) == pytest.approx(
        {"pressure_cpu_some_s": 1.5, "pressure_memory_some_s": 20e-6, "pressure_memory_full_s": 10e-6}
    )


def test_memory_is_in_bytes(machine):
    text = (
        "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\nSwapCached: 9 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n"
    )
    assert values(open_memory(machine.write({"/proc/meminfo": text}))) == {
        "memory_used_bytes": 400 * 1024,
        "memory_available_bytes": 600 * 1024,
        "swap_used_bytes": 30 * 1024,
    }


def test_throttled_time_of_either_version_of_control_groups(machine):
    machine.write(
        {
            "/proc/self/cgroup": "0::/\n",
            "/sys/fs/cgroup/cpu.max": "100000 100000\n",
            "/sys/fs/cgroup/cpu.stat": "usage_usec 9\nthrottled_usec 2500000\n",
        }
    )
    assert values(open_quota(machine.tree)) == {"cpu_throttled_s": 2.5}
    machine.write(
        {
            "/proc/self/cgroup": "2:cpu:/\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/cpu/cpu.stat": "nr_periods 1\nthrottled_time 2500000000\n",
        }
    )
    assert values(open_quota(machine.tree)) == {"cpu_throttled_s": 2.5}


def test_frequency_comes_from_the_driver_where_there_is_one(machine):
    path = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
    tree = machine.write({path.format(0): "2000000\n", path.format(1): "3000000\n"})
    assert values(open_frequency(tree, (0, 1))) == {"frequency_mhz": 2500, "frequency_min_mhz": 2000}


def test_a_virtual_machines_frequency_is_called_nominal(machine):
    text = "processor\t: 0\ncpu MHz\t\t: 2600.5\nflags\t\t: fpu{}\n\nprocessor\t: 1\ncpu MHz\t\t: 1000.0\n"
    real = machine.write({"/proc/cpuinfo": text.format("")})
    assert values(open_frequency(real, (0,))) == {"frequency_mhz": 2600.5}
    virtual = machine.write({"/proc/cpuinfo": text.format(" hypervisor")})
    probe = open_frequency(virtual, (0,))
    assert values(probe) == {"frequency_nominal_mhz": 2600.5}
    assert "can't be seen" in probe.sensors[0].quality


def test_temperature_is_the_hottest_processor_sensor(machine):
    tree = machine.write(
        {
            "/sys/class/hwmon/hwmon0/name": "nvme\n",
            "/sys/class/hwmon/hwmon0/temp1_input": "99000\n",
            "/sys/class/hwmon/hwmon1/name": "coretemp\n",
            "/sys/class/hwmon/hwmon1/temp1_input": "51000\n",
            "/sys/class/hwmon/hwmon1/temp2_input": "54500\n",
        }
    )
    assert values(open_temperature(tree)) == {"temperature_c": 54.5}


def test_thermal_zones_are_used_without_a_monitor(machine):
    tree = machine.write(
        {
            "/sys/class/thermal/thermal_zone0/type": "acpitz\n",
            "/sys/class/thermal/thermal_zone0/temp": "90000\n",
            "/sys/class/thermal/thermal_zone1/type": "CPU-therm\n",
            "/sys/class/thermal/thermal_zone1/temp": "45000\n",
        }
    )
    assert values(open_temperature(tree)) == {"temperature_c": 45.0}


def test_energy_continues_when_the_counter_wraps(machine):
    tree = machine.write(
        {f"{RAPL}/name": "package-0\n", f"{RAPL}/energy_uj": "9000000\n", f"{RAPL}/max_energy_range_uj": "10000000\n"}
    )
    probe = open_energy(tree)
    read = [values(probe)["package_energy_j"]]
    for now in (9_500_000, 500_000, 700_000, 100_000):
        machine.write({f"{RAPL}/energy_uj": f"{now}\n"})
        read.append(values(probe)["package_energy_j"])
    assert read == pytest.approx([9.0, 9.5, 10.5, 10.7, 20.1])


def test_energy_sums_packages_without_counting_parts_twice(machine):
    for zone, name in (("0", "package-0"), ("1", "package-1"), ("0:0", "core"), ("2", "psys")):
        folder = f"/sys/class/powercap/intel-rapl:{zone}"
        machine.write({f"{folder}/name": name, f"{folder}/energy_uj": "5000000\n"})
    assert values(open_energy(machine.tree)) == {"package_energy_j": 10.0}


def test_unreadable_energy_is_omitted_and_named(machine, monkeypatch):
    machine.write({f"{RAPL}/name": "package-0\n", f"{RAPL}/energy_uj": "5\n"})
    real_open = type(machine.tree.root).open

    def guarded(path, *args, **kwargs):
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return real_open(path, *args, **kwargs)

    monkeypatch.setattr(type(machine.tree.root), "open", guarded)
    assert find_packages(machine.tree).denied == (f"{RAPL}/energy_uj",)
    assert open_energy(machine.tree) is None


def test_a_machine_without_sensors_has_no_probes(machine, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert open_probes(machine.tree, (0,)) == ()


@pytest.fixture
def fake_perf(tmp_path, monkeypatch):
    """A `perf` on PATH with the given behaviour."""

    def install(body):
        folder = tmp_path / "bin"
        folder.mkdir()
        script = folder / "perf"
        script.write_text(f"#!{sys.executable}\nimport sys, time\n" + textwrap.dedent(body))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(folder))

    return install


COUNTING = """
e = sys.stderr
assert sys.argv[sys.argv.index("-C") + 1] == "0-1"
if "-I" in sys.argv:
    for i in range(3):
        for name, n in (("instructions", 1000), ("cycles", 500), ("cache-references", 20)):
            e.write(f"     0.{i}00,{n},,{name},200,100.00,,\\n")
        e.write(f"     0.{i}00,<not supported>,,cache-misses,0,100.00,,\\n")
        e.flush()
    time.sleep(60)
else:
    e.write("1000,,instructions,200,100.00,,\\n")
"""


def test_perf_counts_are_summed_and_the_child_ends_with_the_probe(fake_perf, monkeypatch):
    pids = []

    class Noted(ChildLines):
        def __init__(self, *given):
            super().__init__(*given)
            pids.append(self.pid)

    monkeypatch.setattr(accounting, "ChildLines", Noted)
    fake_perf(COUNTING)
    probe = accounting.open_perf((0, 1))
    pace.until(lambda probe=probe: values(probe)["cache_references"] == 60, 20)
    last = values(probe)
    assert (last["instructions"], last["cycles"], last["cache_references"]) == (3000, 1500, 60)
    assert math.isnan(last["cache_misses"])
    del probe
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_perf_that_ends_is_a_lost_source(fake_perf):
    fake_perf('sys.stderr.write("1,,instructions,200,100.00,,\\n")')
    probe = accounting.open_perf((0, 1))
    deadline = time.monotonic() + pace.seconds(60)
    seen = []

    def read_on():
        while time.monotonic() < deadline:
            seen.append(values(probe)["instructions"])

    with pytest.raises(OSError, match="perf has ended"):
        read_on()
    assert seen[-1] == 1, "its earlier output is not lost"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('sys.stderr.write("<not supported>,,instructions,0,100.00,,\\n")', "exposes no counters"),
        ('sys.stderr.write("Access to performance monitoring is limited\\n"); sys.exit(255)', "may not count"),
    ],
)
def test_a_perf_that_cannot_count_is_omitted_with_the_reason(fake_perf, body, reason):
    fake_perf(body)
    assert reason in accounting.why_no_perf((0, 1))
    assert accounting.open_perf((0, 1)) is None


@pytest.mark.parametrize("name", ["instructions", "instructions:u", "cpu_core/instructions/", "cpu/instructions/u"])
def test_an_event_is_recognised_in_every_notation_of_perf(name):
    line = f"     0.101064410,37,,{name},101115379,100.00,,"
    assert accounting.counts_by_event(f"{line}\n{line}\n# comment\n") == {"instructions": 74}


def test_a_missing_perf_is_a_reason_too(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert accounting.why_no_perf((0,)) == "perf is not installed"


def test_on_this_machine_each_sensor_states_its_quality_and_counters_never_decrease():
    probes = find_device("cpu").probes()
    assert {"cpu_busy_s", "context_switches", "memory_used_bytes"} <= {s.name for p in probes for s in p.sensors}
    for probe in probes:
        first, second = values(probe), values(probe)
        for sensor in probe.sensors:
            assert sensor.source
            assert sensor.quality
            assert sensor.unit
            assert sensor.period_s > 0
            if "counter" in sensor.quality and not math.isnan(first[sensor.name]):
                assert second[sensor.name] >= first[sensor.name]


def test_reading_every_sensor_opens_no_file(monkeypatch):
    """Files stay open between readings, or sampling would disturb what it measures."""
    probes = find_device("cpu").probes()
    opened, reads = [], []
    pread = os.pread
    monkeypatch.setattr(os, "open", lambda *arguments, **_: opened.append(arguments))
    monkeypatch.setattr("builtins.open", lambda *arguments, **_: opened.append(arguments))
    monkeypatch.setattr(os, "pread", lambda *arguments: reads.append(arguments) or pread(*arguments))
    for probe in probes:
        probe.read()
    monkeypatch.undo()
    assert opened == []
    assert len({file for file, *_ in reads}) == len(reads) > 0, "each file is read once"
