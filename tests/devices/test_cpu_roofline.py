"""Peak rates: measured in a separate process, cached per machine, measured again when the cache is invalid."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from cotenant.devices import find_device
from cotenant.devices.cpu import roofline as module
from cotenant.devices.cpu.roofline import cache_path, roofline
from cotenant.devices.protocol import Roofline
from cotenant.errors import DeviceError

MEASURED = Roofline({"float32": 2e11, "float64": 1e11, "bfloat16": 1e9}, 4e10, 2, "2026-01-01T00:00:00+00:00")


@pytest.fixture
def measurements(monkeypatch, tmp_path):
    """Counts the measurements that would be made; the cache is in a temporary folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = []

    def measure(tree, cores):
        made.append(cores)
        return MEASURED

    monkeypatch.setattr(module, "_measure", measure)
    return made


def test_measured_once_and_then_cached(machine, measurements):
    first, second = (roofline(machine.tree, (0, 1)) for _ in range(2))
    assert first == second == MEASURED
    assert len(measurements) == 1


def test_refreshing_measures_again(machine, measurements):
    roofline(machine.tree, (0,))
    roofline(machine.tree, (0,), refresh=True)
    assert len(measurements) == 2


def test_other_cores_and_machines_are_measured_separately(machine, measurements):
    paths = {cache_path(machine.tree, (0,)), cache_path(machine.tree, (0, 1))}
    machine.write({"/proc/cpuinfo": "model name : Other\n"})
    paths.add(cache_path(machine.tree, (0,)))
    assert len(paths) == 3


@pytest.mark.parametrize(
    "kept",
    [
        "",
        "{",
        "[]",
        "null",
        '{"flops_per_s": 3}',
        '{"flops_per_s": {"float32": "x"}, "bytes_per_s": 1, "cores": 1, "measured_utc": ""}',
        '{"flops_per_s": {}, "bytes_per_s": 1, "cores": 1, "measured_utc": ""}',
        '{"flops_per_s": {"float32": 1}, "bytes_per_s": 0, "cores": 1, "measured_utc": ""}',
    ],
)
def test_a_corrupt_cache_is_measured_again_and_rewritten(machine, measurements, kept):
    path = cache_path(machine.tree, (0,))
    path.parent.mkdir(parents=True)
    path.write_text(kept)
    assert roofline(machine.tree, (0,)) == MEASURED
    assert json.loads(path.read_text())["bytes_per_s"] == MEASURED.bytes_per_s


def test_an_unwritable_cache_costs_only_time(machine, measurements, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert roofline(machine.tree, (0,)) == MEASURED


def test_a_disturbed_measurement_is_returned_but_not_cached(machine, measurements, monkeypatch):
    disturbed = replace(MEASURED, undisturbed=False)
    monkeypatch.setattr(module, "_measure", lambda *_: disturbed)
    assert roofline(machine.tree, (0,)) == disturbed
    assert not cache_path(machine.tree, (0,)).exists()


def test_time_used_by_others_counts_as_disturbance(machine, monkeypatch, tmp_path):
    """A worker during which other processes used the cores."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ticks = os.sysconf("SC_CLK_TCK")
    machine.write({"/proc/stat": "cpu0 0 0 0 0 0 0 0 0 0 0\n"})
    answer = '{"flops_per_s": {"float32": 1e9}, "bytes_per_s": 1e9}'

    def run(foreign_s):
        def fake(command, **_):
            machine.write({"/proc/stat": f"cpu0 {int(foreign_s * ticks)} 0 0 0 0 0 0 0 0 0\n"})
            return subprocess.CompletedProcess(command, 0, stdout=answer)

        return fake

    monkeypatch.setattr(subprocess, "run", run(0))
    assert roofline(machine.tree, (0,), refresh=True).undisturbed
    monkeypatch.setattr(subprocess, "run", run(1000))
    assert not roofline(machine.tree, (0,), refresh=True).undisturbed


def test_a_measurement_that_fails_says_why(machine, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fail(command, **_):
        raise subprocess.CalledProcessError(
            1, command, stderr="Traceback\nModuleNotFoundError: No module named 'torch'\n"
        )

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(DeviceError, match="No module named 'torch'"):
        roofline(machine.tree, (0,))


@pytest.mark.slow
def test_on_this_machine_the_rates_are_those_of_a_computer(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    loaded_before = "torch" in sys.modules
    device = find_device("cpu")
    measured = device.roofline()
    assert set(measured.flops_per_s) == {"float32", "float64", "bfloat16"}
    assert min(measured.flops_per_s.values()) > 1e8
    assert measured.bytes_per_s > 1e8
    assert measured.cores == len(device.cores)
    assert ("torch" in sys.modules) == loaded_before, "the caller's process is unaffected"
