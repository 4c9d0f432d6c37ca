"""Complete profile passes on this machine's CPU: real torch.profiler, a stand-in for Nsight Systems."""

import json
import os
import re
import time
from pathlib import Path

import pytest

from cotenant import profile
from cotenant.api.show import show
from cotenant.cli.main import main
from cotenant.devices import find_device
from cotenant.devices.nvidia import nvml
from cotenant.devices.single import SingleDevice
from cotenant.errors import DataError, DeviceError, RunFolderError, TenantFailed
from cotenant.measure.profile.kernels import from_export, of_trial, samples_of_trial
from cotenant.measure.profile.tools import ON_A_CPU, choose
from cotenant.store.query import sql
from tests.fake_tools.nsys_export import Export, thread

TOOLS = Path(__file__).parents[2] / "fake_tools"
STUDY = """
name: pair
device: cpu
tenants:
  mm: {workload: sgemm, params: {size: 64}, threads: 1}
  tri: {workload: triad, params: {size: 4096}, threads: 1}
mixes: [pairs]
sharing: [SHARING]
window: 150ms
lead: 50ms
"""


@pytest.fixture
def study(tmp_path):
    def written(sharing="processes", text=STUDY):
        path = tmp_path / "pair.yaml"
        path.write_text(text.replace("SHARING", sharing))
        return path

    return written


@pytest.fixture
def nsys(monkeypatch):
    def faring(how):
        monkeypatch.setenv("PATH", f"{TOOLS}:{os.environ['PATH']}")
        monkeypatch.setenv("FAKE_NSYS", how)

    return faring


@pytest.fixture(scope="module")
def threads_pass(tmp_path_factory):
    """One real pass, shared by all tests that only read it."""
    folder = tmp_path_factory.mktemp("pass")
    path = folder / "pair.yaml"
    path.write_text(STUDY.replace("SHARING", "threads"))
    return profile(path, out=folder / "runs")


class TestWithTorch:
    def test_every_mix_once_with_kernels_under_their_tenants_names(self, threads_pass):
        assert [(one.mix, one.sharing) for one in threads_pass.profiles] == [
            ("mm", "alone"),
            ("tri", "alone"),
            ("mm+tri", "threads"),
        ]
        alone, _, both = threads_pass.profiles
        assert [one.tenant for one in alone.tenants] == ["mm"]
        assert alone.tenants[0].top[0].name == "aten::mm"
        assert {one.tenant for one in both.tenants} == {"mm", "tri"}
        [overlap] = both.overlaps
        assert 0 <= overlap.share <= 1

    def test_kernels_match_the_requests_they_served(self, threads_pass):
        rows = sql(
            """SELECT count(*), count(*) FILTER (EXISTS (FROM requests r WHERE r.trial = k.trial AND r.tenant = k.tenant
               AND k.start_ns >= r.started_ns - 1000000 AND k.start_ns <= r.done_ns + 1000000))
               FROM kernels k WHERE tenant = 'mm' AND trial = 0""",
            [threads_pass.folder],
        ).rows
        seen, within = rows[0]
        assert seen > 3
        assert within > 0.9 * seen

    def test_it_is_marked_and_no_slowdown_is_taken_from_it(self, threads_pass):
        manifest = json.loads((threads_pass.folder / "manifest.json").read_text())
        assert manifest["profile_pass"]["tool"] == "torch"
        assert sql("SELECT DISTINCT block FROM trials", [threads_pass.folder]).rows == ((-1,),)
        assert show([threads_pass.folder]).tenants == ()
        assert not list(threads_pass.folder.glob(".profile-*"))

    def test_showing_it_points_to_its_kernels(self, threads_pass, capsys):
        assert main(["show", str(threads_pass.folder)]) == 0
        shown = "".join(capsys.readouterr().out.split())
        assert f"isaprofilepass,whosetimesarenotused.Itskernels:cotenantprofile{threads_pass.folder}" in shown

    def test_it_is_never_resumed_as_a_run(self, threads_pass, capsys):
        assert main(["run", "--resume", str(threads_pass.folder)]) == 1
        assert "is a profile pass" in capsys.readouterr().err

    def test_it_can_be_shown_again_and_as_json(self, threads_pass, capsys):
        assert main(["profile", str(threads_pass.folder), "--top", "1"]) == 0
        shown = capsys.readouterr().out
        assert "aten::mm" in shown
        assert "ran at once" in " ".join(shown.split())
        assert main(["profile", str(threads_pass.folder), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["profiles"][2]["overlaps"][0]["one"] == "mm"


class TestWithNsys:
    def test_kernels_by_process_and_counters(self, study, tmp_path, nsys, monkeypatch):
        nsys("ok")
        found = profile(study(), out=tmp_path / "runs", tool="nsys")
        assert found.tool == "nsys"
        both = found.profiles[2]
        assert {one.tenant for one in both.tenants} == {"mm", "tri"}
        for tenant in both.tenants:
            assert tenant.running_share == pytest.approx(0.5, abs=0.05)
        [overlap] = both.overlaps
        assert overlap.share == pytest.approx(0.25, abs=0.05)

    @pytest.fixture
    def report(self, tmp_path):
        """A report as written by the stand-in, of a session of ten milliseconds."""
        seen = {"pids": [11, 12], "began": time.time_ns(), "ended": time.time_ns() + 10_000_000, "metrics": True}
        (tmp_path / "report.nsys-rep").write_text(json.dumps(seen))
        return tmp_path

    def test_an_export_that_fails(self, report, nsys):
        nsys("no-export")
        with pytest.raises(DeviceError, match="the report is damaged"):
            choose(Gpu(), "nsys").export(report)

    @pytest.mark.parametrize("how", ["ok", "old"])
    def test_kernels_of_a_trial_are_its_tenants_and_of_its_time(self, report, nsys, how):
        nsys(how)
        begin = time.monotonic_ns()
        kernels, samples, note = from_export(choose(Gpu(), "nsys").export(report), start_ns=0)
        assert note is None
        assert abs(kernels["start_ns"].min() - begin) < 5e9
        first = int(kernels["start_ns"].min())
        mine = of_trial(kernels, {"a": 11, "b": 99}, (first + 2_000_000, first + 6_000_000))
        assert set(mine["tenant"]) == {"a"}
        assert len(mine["name"]) == 2
        sampled = samples_of_trial(samples, "cuda:1", (first, first + 1_000_000))
        assert (set(sampled["device"]), sampled["value"].tolist()) == ({"cuda:1"}, [0.8])

    def test_missing_kernels_are_reported(self, report, nsys):
        nsys("no-kernels")
        (report / "report.nsys-rep").write_text((report / "report.nsys-rep").read_text().replace("true", "false"))
        kernels, samples, note = from_export(choose(Gpu(), "nsys").export(report), start_ns=0)
        assert (kernels, samples) == ({}, {})
        assert "has no kernels" in note


class Gpu(SingleDevice):
    simulated = False
    name = "cuda:1"
    nsys_index = 1


class TestChoosingTheTool:
    def test_nsys_for_a_gpu_with_counters_of_that_gpu(self, nsys):
        nsys("ok")
        tool = choose(Gpu(), None)
        assert tool.name == "nsys"
        assert tool.metrics[0] == "--gpu-metrics-devices=1"

    def test_a_gpu_named_by_uuid_works_too(self, nsys, mock_nvml, monkeypatch):
        nsys("ok")
        monkeypatch.delenv("COTENANT_TORCH_DEVICE", raising=False)
        name = f"cuda:{nvml.find(2).uuid}"
        assert choose(find_device(name), None).metrics[0] == "--gpu-metrics-devices=2"
        monkeypatch.setenv("COTENANT_TORCH_DEVICE", "cpu")
        assert choose(find_device(name), None).notes == (ON_A_CPU,)

    def test_the_older_name_of_the_option(self, nsys):
        nsys("old")
        assert choose(Gpu(), None).metrics[0] == "--gpu-metrics-device=1"

    def test_counters_without_permission_are_omitted_with_the_reason(self, nsys):
        nsys("no-permission")
        tool = choose(Gpu(), None)
        assert tool.metrics == ()
        assert "NVreg_RestrictProfilingToAdminUsers=0" in tool.notes[0]

    def test_torch_where_nsys_is_missing(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        tool = choose(Gpu(), None)
        assert tool.name == "torch"
        assert "nsys is not installed" in tool.notes[0]
        with pytest.raises(DeviceError, match="nsys is not installed"):
            choose(Gpu(), "nsys")

    def test_a_simulated_device_has_nothing_to_profile(self, study):
        with pytest.raises(DeviceError, match="is simulated"):
            profile(study(), device="sim:a100-sxm4-40gb")


class TestFilesOfOtherTools:
    @pytest.fixture
    def export(self, tmp_path):
        made = Export(tmp_path / "report.sqlite")
        made.kernel(0, 600, 11, "gemm")
        made.kernel(400, 1000, 12, "conv")
        made.range(0, 1000, thread(11, 1), "cotenant:bert")
        made.metric(0, 1, "SMs Active [Throughput %]", [(0, 50), (500, 100)])
        made.close()
        return tmp_path / "report.sqlite"

    def test_an_export_of_nsight_systems(self, export, capsys):
        found = profile(export)
        assert found.folder is None
        [one] = found.profiles
        assert [tenant.tenant for tenant in one.tenants] == ["bert", "process 12"]
        assert one.overlaps[0].share == pytest.approx(0.2)
        assert main(["profile", str(export)]) == 0
        shown = capsys.readouterr().out
        assert "sm_active" in shown
        assert "█" in shown

    def test_names_on_a_page_with_timelines_are_text(self, tmp_path, capsys):
        made = Export(tmp_path / "report.sqlite")
        made.kernel(0, 600, 11, "<script>alert(1)</script>")
        made.kernel(400, 1000, 12, "conv")
        made.metric(0, 1, "SMs Active [Throughput %]", [(0, 50), (500, 100)])
        made.close()
        page = tmp_path / "profile.html"
        assert main(["profile", str(tmp_path / "report.sqlite"), "--html", str(page)]) == 0
        text = page.read_text()
        assert "<script>alert" not in text
        assert "&lt;script&gt;" in text
        figures = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])["figures"]
        assert [len(figures[name]["rows"]) for name in ("timeline-1", "counters-1")] == [2, 2]
        assert "75 %" in text

    def test_sensors_alone_are_not_a_profile(self, tmp_path):
        path = tmp_path / "smi.csv"
        path.write_text("timestamp, power.draw [W]\n2023/07/30 18:26:14.684, 81.46\n")
        with pytest.raises(DataError, match="contains no kernels"):
            profile(path)

    def test_a_run_that_was_timed_has_no_profile(self, tmp_path):
        from cotenant.store.folder import RunFolder

        RunFolder.create(tmp_path / "run", {"run": "r"})
        with pytest.raises(RunFolderError, match="not a profile pass"):
            profile(tmp_path / "run")

    def test_neither_a_study_nor_a_file(self, capsys):
        assert main(["profile", "nothing-of-the-kind"]) == 1
        assert "nothing-of-the-kind" in capsys.readouterr().err


def test_a_failing_mix_names_itself(study, tmp_path, monkeypatch):
    from cotenant.measure.profile import profile_pass

    monkeypatch.setattr(profile_pass, "interpreter", lambda: ["/bin/false"])
    with pytest.raises(TenantFailed, match="mm could not be profiled with torch"):
        profile(study(), out=tmp_path / "runs")
