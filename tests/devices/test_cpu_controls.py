"""Governor and boost: set, read back, restored; refused with a reason where they can't be set."""

import os

import pytest

from cotenant.devices.cpu.cpu_device import CpuDevice
from cotenant.errors import DeviceError

GOVERNOR = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
BOOST = "/sys/devices/system/cpu/cpufreq/boost"
NO_TURBO = "/sys/devices/system/cpu/intel_pstate/no_turbo"


@pytest.fixture
def clocked(machine):
    for core in (0, 1):
        machine.write({GOVERNOR.format(core): "powersave\n"})
    machine.write(
        {"/sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors": "performance powersave\n", BOOST: "1\n"}
    )
    return machine


def device(machine):
    return CpuDevice("cpu", (0, 1), machine.tree)


def state(machine):
    return [machine.tree.text(path) for path in (GOVERNOR.format(0), GOVERNOR.format(1), BOOST)]


def test_settings_hold_inside_and_are_restored_outside(clocked):
    with device(clocked).apply({"governor": "performance", "boost": False}) as not_taken:
        assert state(clocked) == ["performance", "performance", "0"]
        assert not_taken == ()
    assert state(clocked) == ["powersave", "powersave", "1"]


def test_settings_are_restored_when_the_run_fails(clocked):
    with pytest.raises(KeyboardInterrupt), device(clocked).apply({"governor": "performance"}):
        raise KeyboardInterrupt
    assert state(clocked) == ["powersave", "powersave", "1"]


def test_no_settings_touch_nothing(machine):
    with device(machine).apply({}) as not_taken:
        assert not_taken == ()


@pytest.mark.parametrize(("value", "text"), [("off", "1"), (False, "1"), ("on", "0"), (True, "0")])
def test_boost_is_the_opposite_of_intels_no_turbo(machine, value, text):
    machine.write({NO_TURBO: "0\n"})
    with device(machine).apply({"boost": value}):
        assert machine.tree.text(NO_TURBO) == text
    assert machine.tree.text(NO_TURBO) == "0"


def test_a_setting_that_did_not_take_effect_is_reported(clocked, monkeypatch):
    real = type(clocked.tree.root).write_text
    monkeypatch.setattr(
        type(clocked.tree.root),
        "write_text",
        lambda path, text, **kw: real(path, text, **kw) if path.name != "boost" else 1,
    )
    with device(clocked).apply({"boost": "off"}) as not_taken:
        assert len(not_taken) == 1
        assert "boost reads '1' after '0' was written" in not_taken[0]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"govenor": "performance"}, "no control 'govenor'"),
        ({"governor": "turbo"}, "governor 'turbo' is not available here"),
        ({"governor": 3}, "governor 3 is not available here"),
        ({"boost": "maybe"}, "boost is on or off, not 'maybe'"),
        ({"boost": [1]}, "boost is on or off"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(clocked, settings, says):
    with (
        pytest.raises(DeviceError, match=says) as error,
        device(clocked).apply({"governor": "performance", **settings}),
    ):
        pytest.fail("must not be entered")
    assert error.value.hint
    assert state(clocked) == ["powersave", "powersave", "1"]


def test_a_misspelt_control_gets_a_suggestion(clocked):
    with pytest.raises(DeviceError) as error, device(clocked).apply({"govenor": "performance"}):
        pass
    assert "did you mean governor?" in error.value.hint


@pytest.mark.parametrize("settings", [{"governor": "performance"}, {"boost": "off"}])
def test_a_machine_without_the_control_says_so(machine, settings):
    with pytest.raises(DeviceError, match="this machine has no control") as error, device(machine).apply(settings):
        pass
    assert "leave" in error.value.hint


def test_without_permission_the_hint_is_the_command_and_the_rest_is_restored(clocked, monkeypatch):
    real = type(clocked.tree.root).write_text

    def guarded(path, text, **kw):
        if path.name == "boost":
            raise PermissionError(13, os.strerror(13))
        return real(path, text, **kw)

    monkeypatch.setattr(type(clocked.tree.root), "write_text", guarded)
    both = {"governor": "performance", "boost": "off"}
    with pytest.raises(DeviceError, match="needs root") as error, device(clocked).apply(both):
        pass
    assert f"sudo tee {BOOST}" in error.value.hint
    assert state(clocked) == ["powersave", "powersave", "1"]


def test_settings_that_need_root_are_refused_while_planning(clocked, monkeypatch):
    from cotenant.measure.run_plan import plan_for
    from cotenant.study.files import load_study

    study = load_study("quick", ["settings=[{}, {governor: performance}]"])
    before = state(clocked)
    plan_for(study, device(clocked))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(DeviceError, match=r"governor can't be set: .* needs root"):
        plan_for(study, device(clocked))
    assert state(clocked) == before
