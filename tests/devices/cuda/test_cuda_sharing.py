"""Every sharing mode of a GPU: refused with a reason, laid out as requested, verified, and restored."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.devices import find_device
from cotenant.devices.nvidia import nvml
from cotenant.devices.nvidia.sharing import compute_mode, green, leftovers
from cotenant.devices.nvidia.tools import TorchBuild
from cotenant.devices.protocol import SeatReport
from cotenant.errors import SharingUnavailable
from cotenant.measure.run_plan import plan_for
from cotenant.study.files import study_from
from cotenant.tenancy.sharing import Sharing
from tests.support import pace

A100 = "cuda:1"
NOBODY = "/nonexistent/cotenant-without-mps"


def share(mode, *shares):
    return Sharing(mode=mode, shares=shares)


def reports(arrangement, pids=None, **changes):
    """Reports of correctly placed tenants, except for the changes."""
    said = []
    for number, host in enumerate(arrangement.hosts):
        for seat in host.seats:
            name = arrangement.tenants[seat.tenant]
            expected = arrangement.expected()[seat.tenant]
            options = seat.options
            observed = {
                "uuid": expected.uuid,
                "sms": expected.sms[0] if expected.sms else None,
                "green_sms": options["green_sms"][options["green_part"]] if "green_sms" in options else None,
                "environment": dict(host.env),
                **changes.get(name, {}),
            }
            said.append(SeatReport(name, pids[number] if pids else 100 + number, observed))
    return said


class TestProcessesAndStreams:
    def test_each_tenant_gets_a_process_that_sees_only_this_gpu_and_no_foreign_mps_daemon(self, gpus, tenants):
        arrangement = find_device(A100).arrange(share("processes"), tenants("a", "b"))
        uuid = nvml.find(1).uuid
        assert [host.env["CUDA_VISIBLE_DEVICES"] for host in arrangement.hosts] == [uuid, uuid]
        assert {host.env["CUDA_MPS_PIPE_DIRECTORY"] for host in arrangement.hosts} == {NOBODY}
        assert arrangement.fixture is None
        assert arrangement.verify(reports(arrangement)) == ()

    def test_a_tenant_on_another_gpu_is_detected(self, gpus, tenants):
        arrangement = find_device(A100).arrange(share("processes"), tenants("a", "b"))
        [sentence] = arrangement.verify(reports(arrangement, b={"uuid": "GPU-other"}))
        assert sentence == f"b runs on GPU-other, not on {nvml.find(1).uuid}"

    def test_a_lone_tenant_that_sees_too_few_sms_is_detected(self, gpus, tenants):
        arrangement = find_device(A100).arrange(share("alone"), tenants("a"))
        assert arrangement.verify(reports(arrangement, a={"sms": 54})) == ("a sees 54 SMs instead of at least 102",)

    def test_streams_put_all_tenants_into_one_process_by_priority(self, gpus, tenants):
        low, high = tenants("low"), tenants("high", priority=5)
        arrangement = find_device(A100).arrange(share("streams"), [*low, *high])
        [host] = arrangement.hosts
        assert [seat.options["priority"] for seat in host.seats] == [0, 1]
        assert all(seat.options["stream"] for seat in host.seats)

    def test_priorities_the_gpu_lacks_are_reported(self, gpus, tenants):
        arrangement = find_device(A100).arrange(share("streams"), [*tenants("a"), *tenants("b", priority=1)])
        said = reports(arrangement, a={"stream_priorities": [0, 0]}, b={"stream_priorities": [0, 0]})
        assert arrangement.verify(said) == ("the GPU has 1 stream priorities, but the mix uses 2",)
        said = reports(arrangement, a={"stream_priorities": [0, -5]}, b={"stream_priorities": [0, -5]})
        assert arrangement.verify(said) == ()

    def test_shares_are_refused_by_modes_that_do_not_split(self, gpus, tenants):
        with pytest.raises(SharingUnavailable, match="does not split a GPU"):
            find_device(A100).arrange(share("streams", 60.0, 40.0), tenants("a", "b"))

    def test_one_process_at_a_time_leaves_streams(self, gpus, tenants):
        compute_mode.write(nvml.find(1), compute_mode.EXCLUSIVE_PROCESS)
        with pytest.raises(SharingUnavailable, match="`processes` needs the default compute mode") as refusal:
            find_device(A100).arrange(share("processes"), tenants("a", "b"))
        assert "use `streams`" in refusal.value.hint


class TestMps:
    def test_it_is_refused_before_the_run_without_a_daemon(self, gpus, tenants, monkeypatch):
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(SharingUnavailable, match="`mps` needs nvidia-cuda-mps-control") as refusal:
            find_device(A100).arrange(share("mps"), tenants("a", "b"))
        assert "use `processes`" in refusal.value.hint

    def test_shares_and_priorities_reach_the_clients(self, gpus, tools, tenants):
        mix = [*tenants("a", priority=1), *tenants("b")]
        hosts = find_device(A100).arrange(share("mps", 60.0, 40.0), mix).hosts
        assert [host.env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] for host in hosts] == ["60", "40"]
        assert [host.env["CUDA_MPS_CLIENT_PRIORITY"] for host in hosts] == ["0", "1"]

    @pytest.mark.parametrize(
        ("shares", "sentence"),
        [((60.0,), "names 1 shares for 2 tenants"), ((60.0, "3g.20gb"), "'3g.20gb' is not a share for `mps`")],
    )
    def test_invalid_shares_are_refused_in_one_sentence(self, gpus, tools, tenants, shares, sentence):
        with pytest.raises(SharingUnavailable, match=sentence) as refusal:
            find_device(A100).arrange(share("mps", *shares), tenants("a", "b"))
        assert "\n" not in refusal.value.message

    def test_a_private_daemon_starts_stops_and_knows_its_clients(self, gpus, tools, tenants):
        arrangement = find_device(A100).arrange(share("mps", 60.0, 40.0), tenants("a", "b"))
        fixture = arrangement.fixture
        with fixture:
            assert fixture.stands()
            clients = [client(host.env) for host in arrangement.hosts]
            try:
                pids = [one.pid for one in clients]
                assert arrangement.verify(reports(arrangement, pids)) == ()
                outside = arrangement.verify(reports(arrangement, [pids[0], os.getpid()]))
                assert outside == (
                    f"b (process {os.getpid()}) is not attached to the MPS daemon, so it ran time-sliced",
                )
            finally:
                end(clients)
        assert not fixture.stands()
        assert not fixture.daemon.directory.exists()
        assert leftovers.abandoned() == []

    def test_the_command_version_is_ours_whatever_the_environment_selects(self, gpus, tools, tenants):
        tools.setenv("CUDA_MPS_PROTOCOL_VERSION", "3")
        with find_device(A100).arrange(share("mps"), tenants("a")).fixture as fixture:
            assert fixture.stands()

    def test_a_daemon_that_no_client_finds_makes_the_trial_invalid(self, gpus, tools, tenants):
        tools.setenv("FAKE_MPS", "unattached")
        arrangement = find_device(A100).arrange(share("mps"), tenants("a", "b"))
        with arrangement.fixture:
            said = arrangement.verify(reports(arrangement))
        assert [sentence.partition(" (")[0] for sentence in said] == ["a", "b"]
        assert all("is not attached to the MPS daemon" in sentence for sentence in said)

    def test_a_daemon_that_died_is_reported(self, gpus, tools, tenants):
        arrangement = find_device(A100).arrange(share("mps"), tenants("a"))
        with arrangement.fixture as fixture:
            fixture.daemon.ask("quit")
            assert arrangement.verify(reports(arrangement)) == (
                "the MPS daemon of GPU 1 (NVIDIA A100-SXM4-40GB) is no longer set up",
            )

    def test_a_server_that_gives_less_than_the_share_is_reported(self, gpus, tools, tenants):
        tools.setenv("FAKE_MPS", "limit=50.0")
        arrangement = find_device(A100).arrange(share("mps", 60.0, 40.0), tenants("a", "b"))
        with arrangement.fixture:
            clients = [client(host.env) for host in arrangement.hosts]
            try:
                said = arrangement.verify(reports(arrangement, [one.pid for one in clients]))
            finally:
                end(clients)
        assert said == ("a should have 60 % of the SMs, but the MPS server gives 50 %",)

    def test_a_share_not_in_force_shows_in_the_number_of_sms(self, gpus, tools, tenants):
        arrangement = find_device(A100).arrange(share("mps", 60.0, 40.0), tenants("a", "b"))
        with arrangement.fixture:
            said = arrangement.verify(reports(arrangement, a={"sms": 108}))
        assert "a sees 108 SMs instead of 60 to 69" in said

    @pytest.mark.parametrize("how", ["cannot-start", "no-permission"])
    def test_a_daemon_that_does_not_start_is_reported_and_leaves_nothing(self, gpus, tools, tenants, how):
        tools.setenv("FAKE_MPS", how)
        fixture = find_device(A100).arrange(share("mps"), tenants("a")).fixture
        with pytest.raises(SharingUnavailable, match="did not start: An instance of this daemon") as refusal:
            fixture.__enter__()
        assert "use `processes`" in refusal.value.hint
        assert not fixture.daemon.directory.exists()
        assert list(leftovers.folder().glob("*.json")) == []

    def test_a_killed_runner_leaves_no_daemon(self, gpus, tools, tmp_path):
        code = (
            "import sys, time\n"
            "from cotenant.devices import find_device\n"
            "device = find_device('cuda:1')\n"
            "from cotenant.devices.nvidia.sharing.mps import MpsFixture\n"
            "fixture = MpsFixture(device.place()).__enter__()\n"
            "print(fixture.daemon.directory, flush=True)\n"
            "time.sleep(60)\n"
        )
        runner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        directory = Path(runner.stdout.readline().strip())
        assert directory.is_dir()
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        runner.stdout.close()
        pace.until(lambda: not directory.exists() and not list(leftovers.folder().glob("*.json")), 20)


def test_tenants_of_a_gpu_are_programs_since_drivers_do_not_survive_a_fork(gpus, tenants):
    hosts = find_device("cuda:0").arrange(share("processes"), tenants("a", "b")).hosts
    assert [host.forked for host in hosts] == [False, False]
    hosts = find_device("cpu").arrange(share("processes"), tenants("a", "b")).hosts
    assert [host.forked for host in hosts] == [True, True]


class TestStaticPartitions:
    def test_they_need_ampere_and_a_recent_driver(self, gpus, tools, tenants):
        with pytest.raises(SharingUnavailable, match="older than Ampere"):
            find_device("cuda:0").arrange(share("mps-static"), tenants("a", "b"))
        with pytest.raises(SharingUnavailable, match="need driver 580"):
            find_device(A100).arrange(share("mps-static"), tenants("a", "b"))

    def test_partitions_are_cut_in_chunks_and_named_to_the_clients(self, gpus, tools, tenants):
        gpus.set_system(driver="580.65.06")
        arrangement = find_device(A100).arrange(share("mps-static", 50.0, 25.0), tenants("a", "b"))
        with arrangement.fixture as fixture:
            assert fixture.stands()
            names = [host.env["CUDA_MPS_SM_PARTITION"] for host in arrangement.hosts]
            assert len(set(names)) == 2
            assert all(name.startswith(f"{nvml.find(1).uuid}/") for name in names)
            assert [one.sms for one in arrangement.expected()] == [(49, 55), (21, 27)]

    def test_parts_that_overlap_are_refused(self, gpus, tools, tenants):
        gpus.set_system(driver="580.65.06")
        with pytest.raises(SharingUnavailable, match="add up to 110 %"):
            find_device(A100).arrange(share("mps-static", 60.0, 50.0), tenants("a", "b"))

    def test_a_daemon_without_them_is_refused_with_the_next_best_mode(self, gpus, tools, tenants):
        gpus.set_system(driver="580.65.06")
        tools.setenv("FAKE_MPS", "no-static")
        with pytest.raises(SharingUnavailable, match="invalid option") as refusal:
            find_device(A100).arrange(share("mps-static"), tenants("a", "b")).fixture.__enter__()
        assert "use `mps` with shares" in refusal.value.hint


class TestGreen:
    def test_without_such_a_torch_it_is_refused(self, gpus, tenants):
        with pytest.raises(SharingUnavailable, match="`green` needs torch on the GPU") as refusal:
            find_device(A100).arrange(share("green"), tenants("a", "b"))
        assert "use `streams`" in refusal.value.hint

    def test_sms_come_in_the_granularity_of_the_architecture(self, gpus, tenants, monkeypatch):
        monkeypatch.setattr(green, "missing", lambda place: None)
        arrangement = find_device(A100).arrange(share("green", 60.0, 40.0), tenants("a", "b"))
        [host] = arrangement.hosts
        assert [seat.options["green_sms"] for seat in host.seats] == [[64, 42], [64, 42]]  # one split for all
        assert [seat.options["green_part"] for seat in host.seats] == [0, 1]
        assert arrangement.verify(reports(arrangement)) == ()
        assert arrangement.verify(reports(arrangement, b={"green_sms": 44})) == ()  # the driver rounds up
        said = arrangement.verify(reports(arrangement, a={"green_sms": 108}, b={"green_sms": None}))
        assert said == (
            "a is in a green context of 108 SMs instead of 64",
            "b is not in a green context of 42 SMs",
        )

    @pytest.mark.parametrize(
        ("cuda", "missing"),
        [
            (None, "a CUDA build of torch; installed: 2.13.0"),
            ("12.4", "pip install cuda-bindings"),
            ("12.8", "they need driver 550 or newer, this is 535.104"),
        ],
    )
    def test_the_missing_requirement_is_named(self, gpus, tenants, monkeypatch, cuda, missing):
        gpus.set_system(driver="535.104")
        monkeypatch.delenv("COTENANT_TORCH_DEVICE")
        monkeypatch.setattr(green, "torch_build", lambda: TorchBuild("2.13.0", cuda=cuda))
        monkeypatch.setattr(green, "bindings_here", lambda: cuda == "12.8")
        with pytest.raises(SharingUnavailable, match=re.escape(missing)):
            find_device("cuda:1").arrange(share("green"), tenants("a", "b"))

    @pytest.mark.parametrize(("shares", "sentence"), [((60.0, 50.0), "add up to 110 %"), ((97.0, 3.0), "is 4 SMs")])
    def test_parts_that_do_not_fit_are_refused(self, gpus, tenants, monkeypatch, shares, sentence):
        monkeypatch.setattr(green, "missing", lambda place: None)
        with pytest.raises(SharingUnavailable, match=sentence):
            find_device(A100).arrange(share("green", *shares), tenants("a", "b"))


class TestExclusive:
    def test_the_compute_mode_is_set_verified_and_restored(self, gpus, tenants):
        arrangement = find_device(A100).arrange(share("exclusive"), tenants("a", "b"))
        with arrangement.fixture as fixture:
            assert fixture.alone
            assert compute_mode.read(nvml.find(1)) == compute_mode.EXCLUSIVE_PROCESS
            assert arrangement.verify(reports(arrangement)) == ()
            compute_mode.write(nvml.find(1), compute_mode.DEFAULT)
            assert "is no longer set up" in arrangement.verify(reports(arrangement))[0]
        assert compute_mode.read(nvml.find(1)) == compute_mode.DEFAULT

    def test_without_root_it_is_refused_before_the_run(self, gpus, tenants):
        gpus.set_system(root=0)
        with pytest.raises(SharingUnavailable, match="needs root") as refusal:
            find_device(A100).arrange(share("exclusive"), tenants("a", "b"))
        assert "use `streams`" in refusal.value.hint


def client(env):
    """A process that looks for the daemon as CUDA does."""
    code = "import time; print('here', flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **env}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "here\n"  # right after its start its environment can't be read yet
    return process


def end(processes):
    for process in processes:
        process.kill()
        process.communicate()


def test_a_search_of_shares_tries_caps_of_mps_on_a_real_gpu(gpus, tools):
    study = study_from(
        {
            "device": A100,
            "tenants": {"a": {"workload": "gemm"}, "b": {"workload": "triad"}},
            "mixes": ["pairs"],
            "sharing": ["mps"],
            "shares": "searched",
        }
    )
    plan = plan_for(study, find_device(A100))
    shared = [trial.sharing for trial in plan.block(0).trials if len(trial.tenants) > 1]
    assert sorted(map(str, shared)) == ["mps", "mps[25, 75]", "mps[50, 50]", "mps[75, 25]"]
