"""Clocks and limits: refused before anything starts, set, watched, and restored on every exit."""

import os
import signal
import subprocess
import sys
import time

import pynvml
import pytest

from cotenant.devices.nvidia import controls, notes, nvml, settings
from cotenant.errors import DeviceError
from tests.support import pace

HOLD = """
import sys, time
from cotenant.devices.nvidia import controls, nvml
with controls.applied(nvml.find(0), {"sm_clock_mhz": 1200, "power_limit_w": 200}):
    print("set", flush=True)
    time.sleep(60)
"""


def state(gpu):
    """Clock and power limit according to the driver."""
    device = nvml.handle(gpu)
    return pynvml.nvmlDeviceGetClockInfo(device, 1), pynvml.nvmlDeviceGetPowerManagementLimit(device) / 1e3


@pytest.mark.parametrize(
    ("index", "asked", "said", "hint"),
    [
        (0, {"sm_clock_mhz": 2000}, "has no SM clock of 2000 MHz", "choose 135 to 1530 MHz"),
        (0, {"clock_mhz": 100}, "has no SM clock of 100 MHz", "choose 135 to 1530 MHz"),
        (0, {"power_limit_w": 400}, "can't set a power limit of 400 W", "choose 150 to 300 W"),
        (0, {"mem_clock_mhz": 877}, "can't lock its memory clock: that needs Ampere or newer", "leave"),
        (1, {"mem_clock_mhz": 900}, "has no memory clock of 900 MHz", "choose 1215 or 607 MHz"),
        (0, {"sm_clock": 1200}, "has no control 'sm_clock'", "did you mean sm_clock_mhz?"),
        (0, {"sm_clock_mhz": "fast"}, "must be a number, not 'fast'", None),
        (0, {"sm_clock_mhz": True}, "must be a number, not True", None),
        (0, {"boost": "never"}, "boost is on or off, not 'never'", "write `boost: off`"),
        (0, {"boost": False, "sm_clock_mhz": 1200}, "both set the clock", "leave one of them out"),
        (0, {"clock_mhz": 1200, "sm_clock_mhz": 1200}, "are the same control", "leave one of them out"),
        (0, {"persistence": 3}, "persistence is on or off", "write"),
    ],
)
def test_unsupported_settings_are_refused_before_anything_starts(mock_nvml, index, asked, said, hint):
    gpu = nvml.find(index)
    before = state(gpu)
    with pytest.raises(DeviceError) as refusal, controls.applied(gpu, asked):
        raise AssertionError("never reached")
    assert said in refusal.value.message
    assert hint is None or hint in refusal.value.hint
    assert state(gpu) == before


def test_pascal_has_no_locked_clocks(mock_nvml):
    mock_nvml.change(0, arch=4)
    with pytest.raises(DeviceError, match="can't lock its clocks: that needs Volta or newer"):
        settings.check(nvml.find(0), {"boost": False})


def test_shares_of_the_highest_clock_and_of_the_limit(mock_nvml):
    gpu = nvml.find(0)
    assert settings.absolute(gpu, {"clock_mhz": "80%", "power_w": "70%"}) == {"clock_mhz": 1222, "power_w": 210.0}
    with pytest.raises(DeviceError, match="can't set a power limit of 30 W"):
        settings.absolute(gpu, {"power_limit_w": "10%"})


def test_settings_take_effect_and_are_restored(mock_nvml):
    gpu = nvml.find(1)
    mock_nvml.change(1, load=1)
    before = state(gpu)
    asked = {"sm_clock_mhz": 900, "mem_clock_mhz": 607, "power_limit_w": 300, "persistence": False}
    with controls.applied(gpu, asked) as violations:
        assert state(gpu) == (900, 300)
        assert pynvml.nvmlDeviceGetClockInfo(nvml.handle(gpu), 2) == 607
        assert nvml.find(1).persistence is False
    assert violations == []
    assert state(gpu) == before
    assert pynvml.nvmlDeviceGetClockInfo(nvml.handle(gpu), 2) == 1215
    assert nvml.find(1).persistence is True
    assert notes.read(gpu.uuid) is None


def test_boost_off_is_the_base_clock_also_where_only_the_driver_knows_it(mock_nvml):
    for index, base in ((0, 1312), (2, 1590)):
        mock_nvml.change(index, load=0.5)
        gpu = nvml.find(index)
        with controls.applied(gpu, {"boost": "off"}) as violations:
            time.sleep(0.05)
            assert state(gpu)[0] == base
        assert violations == []


def test_no_settings_touch_nothing(mock_nvml):
    mock_nvml.set_system(root=0)
    with controls.applied(nvml.find(0), {}) as violations:
        pass
    with controls.applied(nvml.find(0), {"boost": True}) as more:
        pass
    assert violations == more == []


def test_a_locked_clock_lowered_by_the_power_limit_is_reported(mock_nvml):
    mock_nvml.change(0, load=1)
    with controls.applied(nvml.find(0), {"sm_clock_mhz": 1500, "power_limit_w": 200}) as violations:
        assert violations == [], "nothing shows yet"
        time.sleep(0.3)
    [said] = violations
    assert "was locked to 1500 MHz, but the power limit held it back for" in said


@pytest.fixture
def watched_often(monkeypatch):
    """Even on a busy machine, wait until the watch has seen something."""
    monkeypatch.setattr(controls, "PERIOD_S", 0.01)


@pytest.mark.usefixtures("watched_often")
def test_the_same_without_throttle_counters(mock_nvml):
    mock_nvml.fail("nvmlDeviceGetFieldValues", 13)
    mock_nvml.change(0, load=1)
    with controls.applied(nvml.find(0), {"sm_clock_mhz": 1500, "power_limit_w": 200}) as violations:
        time.sleep(0.5)
    assert "the power limit held it back" in violations[0]


def test_a_locked_clock_lowered_by_heat_or_power_brake_is_reported(mock_nvml):
    mock_nvml.change(0, load=1, ambient_c=84, slow_s=0.05)
    with controls.applied(nvml.find(0), {"sm_clock_mhz": 1300}) as hot:
        time.sleep(0.3)
    mock_nvml.change(1, load=1, power_brake=1)
    with controls.applied(nvml.find(1), {"sm_clock_mhz": 900}) as braked:
        time.sleep(0.3)
    assert "the driver, for heat held it back" in hot[0]
    assert "by a signal of the power supply held it back" in braked[0]


@pytest.mark.usefixtures("watched_often")
def test_a_lock_the_driver_ignored_is_reported(mock_nvml):
    mock_nvml.change(0, load=0.3)
    gpu = nvml.find(0)
    with controls.applied(gpu, {"sm_clock_mhz": 1200}) as violations:
        pynvml.nvmlDeviceSetGpuLockedClocks(nvml.handle(gpu), 1005, 1005)  # another process interferes
        time.sleep(1.0)
    assert violations == [f"the clock of {gpu.label} read 1005 MHz though it was locked to 1200 MHz"]


def test_an_idle_gpu_does_not_break_a_lock(mock_nvml):
    with controls.applied(nvml.find(0), {"sm_clock_mhz": 1200}) as violations:
        time.sleep(0.45)
    assert violations == []


def test_without_root_the_error_says_so_and_nothing_changes(mock_nvml):
    mock_nvml.set_system(root=0)
    gpu = nvml.find(0)
    before = state(gpu)
    with pytest.raises(nvml.DriverProblem) as refusal, controls.applied(gpu, {"power_limit_w": 200}):
        raise AssertionError("never reached")
    assert refusal.value.trouble == "no permission"
    assert refusal.value.message == f"only root can set power_limit_w of {gpu.label}"
    assert "`sudo nvidia-smi -i 0 -pl 200`" in refusal.value.hint
    assert state(gpu) == before
    assert controls.left_behind() == {}


def test_settings_are_all_or_nothing(mock_nvml):
    mock_nvml.fail("nvmlDeviceSetGpuLockedClocks", 3)
    gpu = nvml.find(0)
    with (
        pytest.raises(nvml.DriverProblem, match="doesn't support nvmlDeviceSetGpuLockedClocks"),
        controls.applied(gpu, {"power_limit_w": 200, "sm_clock_mhz": 1200}),
    ):
        raise AssertionError("never reached")
    assert state(gpu)[1] == 300


def test_an_exception_restores_everything(mock_nvml):
    gpu = nvml.find(0)
    with pytest.raises(ZeroDivisionError), controls.applied(gpu, {"power_limit_w": 200, "sm_clock_mhz": 1200}):
        raise ZeroDivisionError
    assert state(gpu) == (135, 300)
    assert notes.read(gpu.uuid) is None


def test_a_lost_gpu_keeps_its_note_until_it_returns(mock_nvml):
    gpu = nvml.find(0)
    with controls.applied(gpu, {"power_limit_w": 200}):
        mock_nvml.change(0, lost=1)
    assert notes.read(gpu.uuid) is not None
    mock_nvml.change(0, lost=0)
    with controls.applied(gpu, {"power_limit_w": 250}):
        assert state(gpu)[1] == 250
    assert state(gpu)[1] == 300


@pytest.fixture
def holder(mock_nvml):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], env={**os.environ, **mock_nvml.env()}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "set\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_another_process_sees_the_settings_and_sigterm_restores_them(holder):
    gpu = nvml.find(0)
    assert state(gpu) == (1200, 200)
    assert controls.left_behind() == {}, "its owner lives"
    holder.send_signal(signal.SIGTERM)
    holder.wait(timeout=pace.seconds(20))
    assert state(gpu) == (135, 300)


def test_after_a_kill_the_next_command_restores_it(holder):
    holder.kill()
    holder.wait(timeout=pace.seconds(20))
    gpu = nvml.find(0)
    assert state(gpu) == (1200, 200)
    assert controls.left_behind()[gpu.uuid] == (
        "unlock the SM clock of GPU 0 (Tesla V100-SXM2-16GB)",
        "set the power limit of GPU 0 (Tesla V100-SXM2-16GB) back to 300 W",
    )
    assert controls.restore(gpu) == (
        "the SM clock of GPU 0 (Tesla V100-SXM2-16GB) is unlocked",
        "the power limit of GPU 0 (Tesla V100-SXM2-16GB) is 300 W again",
    )
    assert state(gpu) == (135, 300)
    assert controls.restore(gpu) == ()


def test_after_a_kill_the_next_run_starts_from_the_original_state(holder):
    holder.kill()
    holder.wait(timeout=pace.seconds(20))
    gpu = nvml.find(0)
    with controls.applied(gpu, {"power_limit_w": 250}):
        assert state(gpu) == (135, 250)
    assert state(gpu) == (135, 300)


def test_after_a_kill_a_trial_without_settings_does_not_inherit_them(holder, mock_nvml):
    holder.kill()
    holder.wait(timeout=pace.seconds(20))
    gpu = nvml.find(0)
    mock_nvml.set_system(root=0)
    with controls.applied(gpu, {}) as violations:
        assert state(gpu) == (1200, 200)
    [sentence] = violations
    assert sentence.startswith("clocks or limits of GPU 0 (Tesla V100-SXM2-16GB) are still as an earlier run set them")
    assert "is not permitted for this user" in sentence
    mock_nvml.set_system(root=1)
    with controls.applied(gpu, {}) as violations:
        assert state(gpu) == (135, 300)
    assert violations == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"uuid": 1}', '{"before": {}}'])
def test_a_damaged_note_is_ignored(mock_nvml, content):
    gpu = nvml.find(0)
    notes.write(gpu.uuid, notes.SettingsNote(power_limit_w=200))
    notes._path(gpu.uuid).write_text(content)
    assert notes.read(gpu.uuid) is None
    assert controls.restore(gpu) == ()


def test_settings_that_need_root_are_refused_before_anything_starts(mock_nvml):
    gpu = nvml.find(0)
    before = state(gpu)
    controls.require_permission(gpu, {"power_limit_w": 200})
    mock_nvml.set_system(root=0)
    controls.require_permission(gpu, {})
    with pytest.raises(nvml.DriverProblem) as refusal:
        controls.require_permission(gpu, {"sm_clock_mhz": 1200})
    assert refusal.value.message == f"only root can set sm_clock_mhz of {gpu.label}"
    assert "`sudo nvidia-smi -i 0 -lgc 1200,1200`" in refusal.value.hint
    assert state(gpu) == before


def test_without_persistence_mode_settings_are_not_refused_beforehand(mock_nvml):
    mock_nvml.fail("nvmlDeviceSetPersistenceMode", 3)
    controls.require_permission(nvml.find(0), {"power_limit_w": 200})
