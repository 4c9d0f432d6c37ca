"""`dcgmi dmon` as a probe, against a stand-in with the output of the real one."""

import math
import os
import time
from pathlib import Path

import psutil
import pytest

from cotenant.devices.nvidia import dcgm
from cotenant.measure.sampler import Sampler
from tests.support import pace

TOOLS = Path(__file__).parents[2] / "fake_tools"


@pytest.fixture
def dcgmi(monkeypatch):
    def faring(how):
        monkeypatch.setenv("PATH", f"{TOOLS}:{os.environ['PATH']}")
        monkeypatch.setenv("FAKE_DCGMI", how)

    return faring


def test_activity_by_name_and_unit(dcgmi):
    dcgmi("ok")
    probe = dcgm.probe(1)
    values = dict(zip([info.name for info in probe.sensors], probe.read(), strict=True))
    assert values["sm_active"] == 0.912
    assert values["tensor_active"] == 0.521
    assert values["dram_active"] == 0.310
    assert values["pcie_tx_bytes_per_s"] == 123456
    assert {info.period_s for info in probe.sensors} == {0.1}
    probe.close()


def test_the_gpu_is_found_by_uuid_since_dcgm_has_its_own_numbering(dcgmi, monkeypatch):
    dcgmi("ok")
    monkeypatch.setenv("FAKE_DCGMI_GPUS", "GPU-aaaa GPU-bbbb GPU-cccc")
    probe = dcgm.probe(0, "GPU-cccc")  # a container that sees only the last GPU
    assert not math.isnan(probe.read()[0])
    assert psutil.Process(probe._lines.pid).cmdline()[-2:] == ["-i", "2"]
    probe.close()
    assert dcgm.probe(0, "GPU-dddd").reason == "DCGM doesn't know this GPU"


def test_a_dcgm_that_lists_no_gpu_is_asked_by_index(dcgmi):
    dcgmi("ok")
    probe = dcgm.probe(1, "GPU-bbbb")
    assert psutil.Process(probe._lines.pid).cmdline()[-2:] == ["-i", "1"]
    probe.close()


def test_readings_between_two_lines_are_empty(dcgmi):
    dcgmi("ok")
    probe = dcgm.probe(0)
    probe.read()
    begin = time.monotonic()
    values = probe.read()
    if time.monotonic() - begin < 0.05:
        assert all(math.isnan(value) or value >= 0 for value in values)
    pace.until(lambda: not math.isnan(probe.read()[0]))
    probe.close()


def test_fields_that_a_v100_lacks_are_dropped_one_by_one(dcgmi):
    dcgmi("v100")
    probe = dcgm.probe(0)
    names = [info.name for info in probe.sensors]
    assert names == [field.sensor for field in dcgm.FIELDS if field.number < 1013]
    probe.close()


@pytest.mark.parametrize(
    ("how", "reason", "fix"),
    [
        ("no-engine", "host engine is not running", "systemctl start nvidia-dcgm"),
        ("no-root", "may not use the profiling counters", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("no-module", "profiling module is not loaded", "dcgmi modules -l"),
        ("in-use", "another profiler", "dcgm-exporter"),
        ("paused", "paused", "dcgmi profile --resume"),
        ("old-gpu", "none of DCGM's profiling fields", None),
    ],
)
def test_each_failure_names_its_cause_and_fix(dcgmi, how, reason, fix):
    dcgmi(how)
    answer = dcgm.probe(0)
    assert isinstance(answer, dcgm.Unavailable)
    assert reason in answer.reason
    assert fix is None or fix in answer.fix


def test_not_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert dcgm.probe(0).reason == "dcgmi is not installed"


def test_a_silent_dcgm_is_abandoned(dcgmi, monkeypatch):
    dcgmi("silent")
    monkeypatch.setattr(dcgm, "FIRST_ROWS_S", 0.2)
    assert "printed nothing" in dcgm.probe(0).reason


def test_the_sampler_reports_an_early_end(dcgmi):
    dcgmi("dies")
    probe = dcgm.probe(0)
    with Sampler("cuda:0", [probe]) as sampler:
        pace.until(lambda: sampler.samples().lost)
    samples = sampler.samples()
    assert samples.columns["value"].size
    assert "dcgmi has ended" in samples.lost[0]


def test_the_child_ends_with_the_probe(dcgmi):
    dcgmi("ok")
    probe = dcgm.probe(0)
    pid = probe._lines.pid
    assert psutil.pid_exists(pid)
    del probe
    pace.until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
