"""Complete runs on mocked GPUs: from the study through trials, records and analysis to the report."""

import itertools
import json
import re
from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant.devices import find_device
from cotenant.devices.nvidia import nvml
from cotenant.devices.nvidia.library import DriverProblem
from cotenant.devices.nvidia.sharing import leftovers
from cotenant.measure.live import LiveBench
from cotenant.measure.sampler import Sampler
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.sharing import Sharing
from cotenant.workloads.protocol import Properties, WorkloadSpec

pytestmark = [pytest.mark.slow, pytest.mark.long]

STUDY = """
name: gpu
tenants:
  a: {workload: "sleep", params: {ms: 2}, threads: 1}
  b: {workload: "sleep", params: {ms: 3}, threads: 1}
mixes: [pairs]
sharing: [processes, {mps: [60, 40]}]
settings: [{power_limit_w: 150}]
window: 600ms
lead: 50ms
blocks: 1
"""
UNKNOWN = Properties(params=None, weight_bytes=None, flops=None, bytes_moved=None, peak_memory_bytes=None)


@pytest.fixture
def own_place(gpus, tools, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/tmp")
    monkeypatch.chdir(tmp_path)
    return gpus


def test_a_run_has_power_clocks_throttling_and_activity_in_show_and_report(own_place, tools, capsys):
    tools.setenv("FAKE_DCGMI", "ok")
    own_place.change(0, load=1.0)
    Path("gpu.yaml").write_text(STUDY)
    assert main(["run", "gpu.yaml", "--device", "cuda:0"]) in {0, 2}  # 2: on a busy machine trials are not steady
    [run] = Path("runs/gpu").iterdir()
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["device"] == "cuda:0[torch on cpu]"
    assert manifest["device_description"]["power_sensor"]["update_s"] == 0.02
    capsys.readouterr()

    assert main(["show", str(run), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["device_use"]) == 4  # two alone, one mix shared in two ways
    for use in shown["device_use"]:
        assert use["device"] == "cuda:0[torch on cpu]"
        assert 140 < use["power_w"]["value"] < 160
        assert use["power_w"]["source"] == "NVML power, instant"
        assert use["throttled_share"]["value"] > 0.5
        assert 135 < use["sm_clock_mhz"]["value"] < 1530
        assert use["sm_active"]["value"] == pytest.approx(0.912)
        assert use["sm_active"]["source"] == "DCGM 1002"
        energy = use["energy_per_request_j"]
        assert energy["source"] == "NVML energy counter"
        assert 0 < energy["uncertainty"] < energy["value"]

    assert main(["show", str(run), "--all"]) == 0
    text = capsys.readouterr().out
    assert "[torch on cpu]" in text
    assert re.search(r"a\+b, mps\[60, 40\] +1[45]\d", text)

    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    assert "Device activity" in page
    assert "NVML throttle counters" in page
    assert "sm_clock_mhz" in page
    assert nvml.find(0).power_limits.now == 300  # restored
    assert list(leftovers.folder().glob("*.json")) == []


def test_a_bad_setting_and_a_missing_mode_are_refused_before_anything_starts(own_place, capsys):
    Path("gpu.yaml").write_text(STUDY)
    assert main(["run", "gpu.yaml", "--device", "cuda:0", "--set", "settings=[{sm_clock_mhz: 9999}]"]) == 1
    assert "has no SM clock of 9999 MHz" in capsys.readouterr().err
    assert main(["run", "gpu.yaml", "--device", "cuda:0", "--set", "sharing=[mig]"]) == 1
    assert "can't be cut into instances" in capsys.readouterr().err
    assert not Path("runs").exists()


class TestTrials:
    @pytest.fixture
    def bench(self, own_place):
        made = LiveBench(
            find_device("cuda:1"), run="test", properties=lambda _: UNKNOWN, memory_of=lambda _: 0, warm_s=(0.0, 0.0)
        )
        yield made
        made.kill()

    def trial(self, mode, names="ab", window_s=0.2):
        tenants = tuple(
            Tenant(
                name=name, of=name, load=Load(kind="closed"), threads=1,
                workload=WorkloadSpec(name="sleep", params={"ms": 2}),
            )
            for name in names
        )  # fmt: skip
        return Trial(
            number=0, block=0, order=0, mix="+".join(names), tenants=tenants, sharing=Sharing(mode=mode),
            load="closed(1)", window_s=window_s, lead_s=0.02, seed=1,
        )  # fmt: skip

    def test_clients_that_are_not_attached_make_the_trial_invalid(self, bench, tools):
        tools.setenv("FAKE_MPS", "unattached")
        records = bench.carry_out(self.trial("mps"), session=0, rates={})
        assert records.trial["verdict"] == "invalid"
        assert "sharing_verified" in records.trial["failed_checks"]
        assert any("is not attached to the MPS daemon" in reason for reason in records.trial["reasons"])

    def test_a_daemon_that_does_not_start_invalidates_the_trial_but_not_the_run(self, bench, tools):
        tools.setenv("FAKE_MPS", "cannot-start")
        records = bench.carry_out(self.trial("mps"), session=0, rates={})
        assert records.trial["verdict"] == "invalid"
        assert "the MPS daemon of GPU 1" in " ".join(records.trial["reasons"])

    def test_tenants_end_before_their_fixture_and_stay_while_it_is_up(self, bench, tools):
        first = bench.carry_out(self.trial("mps"), session=0, rates={})
        again = bench.carry_out(self.trial("mps"), session=0, rates={})
        assert [row["pid"] for row in first.tenants] == [row["pid"] for row in again.tenants]
        exclusive = bench.carry_out(self.trial("exclusive"), session=0, rates={})
        assert exclusive.trial["verdict"] != "invalid", exclusive.trial["reasons"]
        after = bench.carry_out(self.trial("mps"), session=0, rates={})
        assert after.trial["verdict"] != "invalid", after.trial["reasons"]
        assert {row["pid"] for row in after.tenants}.isdisjoint(row["pid"] for row in first.tenants)

    def test_a_gpu_lost_midway_is_reported_and_ends_the_measurement(self, bench, own_place, monkeypatch):
        bench.carry_out(self.trial("processes"), session=0, rates={})  # the tenants are running
        read, rounds = Sampler._read, itertools.count(1)

        def lost_after_some_rounds(self, indices):
            read(self, indices)
            if next(rounds) == 6:
                own_place.change(1, lost=1)

        monkeypatch.setattr(Sampler, "_read", lost_after_some_rounds)
        records = bench.carry_out(self.trial("processes", window_s=0.8), session=0, rates={})
        assert "sensors_present" in records.trial["failed_checks"]
        assert any("is lost" in reason for reason in records.trial["reasons"])
        with pytest.raises(DriverProblem, match="is lost"):
            bench.carry_out(self.trial("processes"), session=0, rates={})


@pytest.fixture
def brief(monkeypatch):
    """Trials as short as they can be."""
    monkeypatch.setattr("cotenant.measure.selftest.WINDOW_S", 0.3)
    monkeypatch.setattr("cotenant.measure.selftest.LEAD_S", 0.1)


@pytest.fixture
def light(brief, monkeypatch):
    """Tenants without torch, which takes seconds to load in each process."""
    monkeypatch.setattr("cotenant.measure.selftest.WORKLOAD", "sleep")


def test_the_self_test_tries_everything_and_reports_what_it_skipped(own_place, light, capsys):
    code = main(["selftest", "cuda:1", "--json"])
    found = json.loads(capsys.readouterr().out)
    states = {check["name"]: check["state"] for check in found["checks"]}
    assert code == 0, [check for check in found["checks"] if check["state"] == "failed"]
    assert states["timing"] == states["sharing mps[60, 40]"] == states["control sm_clock_mhz"] == "ok"
    assert states["sharing mps, a first"] == states["sharing streams, a first"] == "ok"
    assert states["sharing green"] == states["sharing mps-static"] == "skipped"
    assert found["facts"]["driver"] == "550.54.15"


def test_the_self_test_finds_a_fallback_and_a_stuck_sensor(own_place, light, tools, capsys):
    tools.setenv("FAKE_MPS", "unattached")
    own_place.change(1, load=1.0, stuck_w=46.19)
    assert main(["selftest", "cuda:1", "--json"]) == 2
    found = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert found["sharing mps"]["state"] == "failed"
    assert found["sensors agree"]["state"] == "failed"
    assert "46.19 W" in found["sensors agree"]["text"]


def test_the_self_test_runs_on_a_cpu_too(brief, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["selftest", "cpu"]) == 0
    text = capsys.readouterr().out
    assert "timing" in text
    assert "sharing processes" in text
