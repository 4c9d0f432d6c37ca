"""The doctor in every state a GPU can be in: correct findings, each with a fix."""

import os
import subprocess
import sys

import pytest

from cotenant.api.doctor import doctor
from cotenant.devices.nvidia import controls, nvml
from cotenant.devices.nvidia.checkup import sharings, sources
from cotenant.devices.nvidia.checkup.state import hardware
from cotenant.devices.nvidia.notes import process_start
from cotenant.devices.nvidia.sharing import compute_mode, leftovers
from cotenant.devices.nvidia.sharing.daemon import Daemon, private_directory
from cotenant.devices.protocol import Finding
from cotenant.errors import DeviceError


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Watching the sensors takes seconds; tests that need it enable it."""
    monkeypatch.setattr(sources, "WATCH_S", 0.01)


@pytest.fixture
def known_cpu(monkeypatch):
    """The CPU's findings have their own tests, and take seconds."""
    monkeypatch.setattr("cotenant.devices.cpu.cpu_device.checkup", lambda *_: (Finding("cores", "ok", "two"),))


def finding(subject, device="cuda:0"):
    found = {one.subject: one for one in doctor(device)}
    assert subject in found, f"no {subject!r} among {list(found)}"
    return found[subject]


def test_a_gpu_that_is_ready(gpus, tools):
    found = doctor("cuda:1")
    assert [one.subject for one in found if one.state == "problem"] == []
    assert {one.subject for one in found if one.state == "warning"} == {"torch"}  # kept on the CPU by the tests
    assert finding("driver").text == "550.54.15, supports CUDA up to 12.4"


def test_every_finding_that_is_not_ok_has_a_fix(gpus, tools):
    gpus.change(0, persistence=0, processes=[(4711, 2 << 30)])
    for one in doctor("cuda:0"):
        if one.state in {"warning", "problem"}:
            assert one.fix, one


def test_a_slow_clock_is_reported_by_drivers_before_535_too(gpus, tools):
    gpus.change(0, load=1.0, power_brake=1)
    slowed = finding("clocks").text
    assert "the power supply signals a slowdown" in slowed
    gpus.fail("nvmlDeviceGetCurrentClocksEventReasons", 13)
    assert "the power supply signals a slowdown" in finding("clocks").text
    gpus.fail("nvmlDeviceGetCurrentClocksThrottleReasons", 13)
    assert "does not report what lowers them" in finding("clocks").text


def test_a_torch_without_cuda_is_a_problem(gpus, monkeypatch):
    monkeypatch.delenv("COTENANT_TORCH_DEVICE")
    found = finding("torch")
    assert found.state == "problem"
    assert "built for CPUs only: it can't use an NVIDIA GPU" in found.text
    assert "pip install torch" in found.fix


def test_no_library(tmp_path):
    code = "from cotenant.cli.main import main; raise SystemExit(main(['doctor', '--device', 'cuda:0']))"
    env = {key: value for key, value in os.environ.items() if key not in {"LD_LIBRARY_PATH", "NVML_MOCK"}}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "libnvidia-ml.so.1 was not found" in " ".join(done.stdout.split())
    assert "fix:" in done.stdout


def test_a_driver_that_is_not_loaded(gpus):
    gpus.set_system(init_error=9)
    found = finding("GPU")
    assert found.state == "problem"
    assert "no matching driver is loaded" in found.text
    assert "modprobe" in found.fix


def test_cards_on_the_bus_without_a_kernel_module(machine):
    tree = machine.write({"/sys/bus/pci/devices/0000:3b:00.0/vendor": "0x10de\n"})
    found = hardware(tree)
    assert found.state == "problem"
    assert found.text == "1 NVIDIA device on the PCI bus, but the kernel module is not loaded"


def test_a_lost_gpu(gpus):
    gpus.change(0, lost=1)
    found = finding("GPU")
    assert found.state == "problem"
    assert "lost" in found.text
    assert "Xid" in found.fix


def test_a_missing_index_lists_the_available_ones(gpus):
    found = finding("GPU", "cuda:9")
    assert found.state == "problem"
    assert "Tesla V100-SXM2-16GB" in found.fix


def test_a_foreign_process_is_named(gpus):
    gpus.change(0, processes=[(4711, 2 << 30)])
    found = finding("other processes")
    assert found.state == "warning"
    assert "pid 4711, 2.0 GiB" in found.text
    assert "4711" in found.fix


def test_persistence_that_is_off(gpus):
    gpus.change(0, persistence=0)
    assert finding("persistence").state == "warning"
    assert "nvidia-smi -i 0 -pm 1" in finding("persistence").fix


def test_a_lowered_power_limit(gpus):
    with controls.applied(nvml.find(0), {"power_limit_w": 200}):
        found = finding("power limit")
    assert found.state == "warning"
    assert "200 W, below the usual 300 W" in found.text
    assert found.fix == "sudo nvidia-smi -i 0 -pl 300"


def test_a_gpu_held_down_by_its_power_limit(gpus):
    gpus.change(0, load=1.0)
    with controls.applied(nvml.find(0), {"power_limit_w": 150}):
        found = finding("clocks")
    assert found.state == "warning"
    assert "the power limit lowers the clock" in found.text


def test_compute_modes(gpus):
    compute_mode.write(nvml.find(0), compute_mode.EXCLUSIVE_PROCESS)
    assert finding("compute mode").state == "warning"
    compute_mode.write(nvml.find(0), compute_mode.PROHIBITED)
    assert finding("compute mode").state == "problem"
    assert finding("compute mode").fix == "sudo nvidia-smi -i 0 -c 0"


def test_a_user_without_root_is_told_the_consequences(gpus):
    gpus.set_system(root=0)
    found = finding("controls")
    assert found.state == "note"
    assert "only root may set clocks" in found.text
    assert finding("sharing: exclusive").state == "note"


def test_mig_with_and_without_instances(gpus):
    gpus.change(1, mig=1)
    assert finding("MIG", "cuda:1").state == "problem"
    uuid = gpus.add_instance(1, "3g.20gb", sms=42, slices=3, memory_mib=19968)
    found = finding("MIG", "cuda:1")
    assert found.state == "warning"
    assert f"3g.20gb (cuda:{uuid})" in found.text
    assert "not on the whole GPU" in found.text


def test_a_stuck_power_sensor(gpus, monkeypatch):
    monkeypatch.setattr(sources, "WATCH_S", 2.3)
    gpus.change(0, load=1.0, stuck_w=46.19)
    found = finding("sensors")
    assert found.state == "problem"
    assert "power stood still at 46.19 W" in found.text


def test_activity_names_its_source_and_why_no_better_one(gpus, tools):
    v100 = finding("activity", "cuda:0")
    assert v100.state == "note"
    assert "not from DCGM: DCGM's host engine is not running" in v100.text
    assert "nvidia-dcgm" in v100.fix
    assert finding("activity", "cuda:2").text.startswith("from NVML GPM")


def test_a_function_the_driver_lacks_costs_only_one_source(gpus):
    gpus.fail("nvmlDeviceGetFieldValues", 13)
    assert finding("power").state == "note"
    assert "from NVML power usage" in finding("power").text


@pytest.mark.parametrize(("value", "state"), [("1", "note"), ("0", "ok")])
def test_profiling_counters_restricted_to_root(machine, value, state):
    tree = machine.write({"/proc/driver/nvidia/params": f"RmMsg: \nRmProfilingAdminOnly: {value}\n"})
    found = sources.profiling_counters(tree)
    assert found.state == state
    assert (found.fix is None) == (state == "ok")


def test_a_foreign_mps_daemon_is_reported_and_ours_is_not(machine):
    tree = machine.write(
        {
            "/proc/77/cmdline": "/usr/bin/nvidia-cuda-mps-control\0-d\0",
            "/proc/77/environ": "PATH=/usr/bin\0",
            "/proc/78/cmdline": "nvidia-cuda-mps-control\0-d\0",
            "/proc/78/environ": "CUDA_MPS_PIPE_DIRECTORY=/tmp/cotenant-mps-0-aa/pipe\0",
        }
    )
    found = sharings.system_daemon(tree)
    assert "pid 77)" in found.text
    assert "quit" in found.fix


def test_all_is_the_cpu_and_every_gpu(gpus, tools, known_cpu):
    gpus.change(1, lost=1)
    found = {one.subject: one for one in doctor()}
    assert "cores" in found
    assert found["cuda:0 driver"].state == "ok"
    assert found["cuda:1 GPU"].state == "problem"
    assert "cuda:2 sharing: processes" in found


def test_without_a_gpu_the_machine_is_still_ready(gpus, known_cpu):
    gpus.set_system(init_error=9)
    found = {one.subject: one for one in doctor()}
    assert found["NVIDIA GPUs"].state == "note"


class TestMending:
    def test_persistence_is_turned_on_and_off_again(self, gpus):
        gpus.change(0, persistence=0)
        assert [one.text for one in doctor("cuda:0", fix=True)] == ["of GPU 0 (Tesla V100-SXM2-16GB) is on now"]
        assert nvml.find(0).persistence
        assert doctor("cuda:0", fix=True) == ()
        assert [one.text for one in doctor(restore=True)] == ["of GPU 0 (Tesla V100-SXM2-16GB) is off again"]
        assert not nvml.find(0).persistence
        assert doctor(restore=True) == ()

    def test_without_root_it_names_the_command(self, gpus):
        gpus.change(0, persistence=0)
        gpus.set_system(root=0)
        [found] = doctor("cuda:0", fix=True)
        assert found.state == "problem"
        assert found.fix == "sudo nvidia-smi -i 0 -pm 1"

    def test_a_missing_gpu_is_refused(self, gpus):
        with pytest.raises(DeviceError, match="no GPU '9'"):
            doctor("cuda:9", fix=True)

    def test_a_daemon_the_guard_could_not_stop_is_found_and_stopped(self, gpus, tools):
        daemon = Daemon(private_directory(), nvml.find(0).uuid)
        assert daemon.start() is None
        gone = subprocess.Popen(["true"])
        gone.wait()
        leftovers.folder().mkdir(parents=True)
        note = leftovers.folder() / f"mps-{gone.pid}-0.json"
        facts = {"directory": str(daemon.directory), "gpu": daemon.gpu}
        leftovers._write(leftovers.Leftover(note, "mps", gone.pid, "long ago", facts))
        assert finding("left behind").fix == "cotenant doctor --restore"
        assert [one.text for one in doctor(restore=True)] == [f"stopped the MPS daemon in {daemon.directory}"]
        assert not daemon.answers()
        assert not note.exists()

    def test_a_process_that_reuses_the_killed_pid_does_not_keep_its_note(self, gpus):
        leftovers.folder().mkdir(parents=True)
        note = leftovers.folder() / f"compute_mode-{os.getpid()}-0.json"
        facts = {"gpu": nvml.find(0).uuid, "mode": 0}
        leftovers._write(leftovers.Leftover(note, "compute_mode", os.getpid(), "long ago", facts))
        assert [left.path for left in leftovers.abandoned()] == [note]
        mine = leftovers.Leftover(note, "compute_mode", os.getpid(), process_start(os.getpid()), facts)
        leftovers._write(mine)
        assert leftovers.abandoned() == []

    def test_a_note_that_points_elsewhere_is_not_followed(self, gpus, tmp_path):
        leftovers.folder().mkdir(parents=True)
        precious = tmp_path / "precious"
        precious.mkdir()
        note = leftovers.folder() / "mps-999999999-0.json"
        facts = {"directory": str(precious), "gpu": "GPU-0"}
        leftovers._write(leftovers.Leftover(note, "mps", 999_999_999, "long ago", facts))
        [found] = doctor(restore=True)
        assert found.state == "problem"
        assert precious.is_dir()
