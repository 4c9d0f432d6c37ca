"""MIG: existing instances are used, missing ones created, and the previous state restored."""

import os

import pynvml
import pytest

from cotenant.devices import find_device
from cotenant.devices.nvidia import nvml
from cotenant.devices.nvidia.sharing import leftovers
from cotenant.errors import DeviceError, SharingUnavailable
from cotenant.tenancy.sharing import Sharing


@pytest.fixture
def root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.fixture
def user(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def mig(*profiles):
    return Sharing(mode="mig", shares=profiles)


def test_a_card_without_mig_is_refused(gpus, tools, tenants):
    with pytest.raises(SharingUnavailable, match="can't be cut into instances") as refusal:
        find_device("cuda:0").arrange(mig("3g.20gb", "3g.20gb"), tenants("a", "b"))
    assert "use `mps`" in refusal.value.hint


def test_a_profile_the_card_lacks_is_refused_before_anything_starts(gpus, tools, tenants, root):
    with pytest.raises(SharingUnavailable, match=r"has no MIG instance '3g.40gb'") as refusal:
        find_device("cuda:1").arrange(mig("3g.40gb", "3g.40gb"), tenants("a", "b"))
    assert "3g.20gb" in refusal.value.hint
    assert not nvml.find(1).mig_mode


def test_instances_that_do_not_fit_together_are_refused(gpus, tools, tenants, root):
    with pytest.raises(SharingUnavailable, match="can't hold the MIG instances") as refusal:
        find_device("cuda:1").arrange(mig("4g.20gb", "4g.20gb"), tenants("a", "b"))
    assert "7 SM slices and 40 GB" in refusal.value.hint


@pytest.mark.usefixtures("tools", "root")
@pytest.mark.parametrize(
    ("name", "mib", "halves"),
    [
        ("NVIDIA A30", 24_576, "2g.12gb"),
        ("NVIDIA A100 80GB PCIe", 81_920, "3g.40gb"),
        ("NVIDIA H100 NVL", 95_830, "3g.47gb"),
        ("NVIDIA H100", 97_871, "3g.48gb"),
        ("NVIDIA H200", 143_771, "3g.71gb"),
        ("NVIDIA B200", 183_359, "3g.90gb"),
    ],
)
def test_halves_of_cards_whose_driver_lists_profiles_only_with_mig_on(gpus, tenants, name, mib, halves):
    gpus.change(1, name=name, memory_mib=mib)
    arrangement = find_device("cuda:1").arrange(mig(), tenants("a", "b"))
    assert arrangement.fixture.name.startswith(f"MIG instances {halves}, {halves} of")


def test_a_card_missing_from_the_tables_accepts_the_studys_profiles(gpus, tools, tenants, root):
    gpus.change(1, name="NVIDIA GH200 480GB", memory_mib=97_871)  # not an H200, despite its name
    find_device("cuda:1").arrange(mig("3g.48gb", "3g.48gb"), tenants("a", "b"))


def test_without_root_and_without_instances_it_is_refused(gpus, tools, tenants, user):
    with pytest.raises(SharingUnavailable, match="only root may turn it on"):
        find_device("cuda:1").arrange(mig("3g.20gb", "3g.20gb"), tenants("a", "b"))


def test_sharing_all_does_not_turn_mig_on(gpus, tools, root):
    modes = {mode.mode: mode for mode in find_device("cuda:1").sharings()}
    assert not modes["mig"].available
    assert "turns it on" in modes["mig"].missing


def test_mig_is_turned_on_split_and_turned_off_again(gpus, tools, tenants, root):
    arrangement = find_device("cuda:1").arrange(mig("3g.20gb", "2g.10gb"), tenants("a", "b"))
    with arrangement.fixture as fixture:
        assert nvml.find(1).mig_mode
        assert fixture.alone
        assert fixture.stands()
        visible = [host.env["CUDA_VISIBLE_DEVICES"] for host in arrangement.hosts]
        assert [one.uuid for one in fixture.instances] == visible
        assert [one.profile for one in fixture.instances] == ["3g.20gb", "2g.10gb"]
        assert [one.sms for one in arrangement.expected()] == [(42, 42), (28, 28)]
    assert not nvml.find(1).mig_mode
    assert nvml.find(1).instances == ()
    assert list(leftovers.folder().glob("*.json")) == []


def test_even_parts_without_shares(gpus, tools, tenants, root):
    arrangement = find_device("cuda:1").arrange(mig(), tenants("a", "b"))
    with arrangement.fixture as fixture:
        assert [one.profile for one in fixture.instances] == ["3g.20gb", "3g.20gb"]


def test_instances_of_an_administrator_are_used_and_left_alone(gpus, tools, tenants, user):
    gpus.change(1, mig=1)
    uuids = [gpus.add_instance(1, "3g.20gb", sms=42, slices=3, memory_mib=19968) for _ in range(2)]
    device = find_device("cuda:1")
    arrangement = device.arrange(mig("3g.20gb", "3g.20gb"), tenants("a", "b"))
    with arrangement.fixture:
        assert [host.env["CUDA_VISIBLE_DEVICES"] for host in arrangement.hosts] == uuids
    assert [one.uuid for one in nvml.find(1).instances] == uuids
    assert nvml.find(1).mig_mode


def test_with_mig_on_the_baseline_is_the_largest_instance(gpus, tools, tenants):
    gpus.change(1, mig=1)
    gpus.add_instance(1, "2g.10gb", sms=28, slices=2, memory_mib=9856)
    large = gpus.add_instance(1, "3g.20gb", sms=42, slices=3, memory_mib=19968)
    device = find_device("cuda:1")
    [host] = device.arrange(Sharing(mode="alone"), tenants("a")).hosts
    assert host.env["CUDA_VISIBLE_DEVICES"] == large
    assert "not on the whole GPU" in device.describe()["solo_baseline"]
    assert {mode.mode for mode in device.sharings() if mode.available} == {"mig"}


def test_an_instance_is_a_separate_device(gpus, tools, tenants):
    gpus.change(1, mig=1)
    uuid = gpus.add_instance(1, "3g.20gb", sms=42, slices=3, memory_mib=19968)
    device = find_device(f"cuda:{uuid}")
    assert device.lock_keys() == (nvml.find(1).uuid,)
    assert {mode.mode for mode in device.sharings() if mode.available} == {"processes", "mps", "streams"}
    assert device.free_memory_bytes() == 19968 << 20
    with pytest.raises(DeviceError, match="no MIG instance") as error:
        find_device("cuda:MIG-nothing")
    assert uuid in error.value.hint


REFUSALS = {
    "no-permission": "Insufficient Permissions",
    "no-room": "Insufficient Resources",
    "pending": "waits for a GPU reset",
}


@pytest.mark.parametrize("how", REFUSALS)
def test_a_refusal_by_nvidia_smi_is_reported_and_everything_restored(gpus, tools, tenants, root, how):
    tools.setenv("FAKE_SMI", how)
    fixture = find_device("cuda:1").arrange(mig("3g.20gb", "3g.20gb"), tenants("a", "b")).fixture
    with pytest.raises(SharingUnavailable, match=REFUSALS[how]) as refusal:
        fixture.__enter__()
    assert "use `mps`" in refusal.value.hint
    assert pynvml.nvmlDeviceGetMigMode(nvml.handle(nvml.find(1))) == [0, 0], "nor is it pending for the next reset"
    assert list(leftovers.folder().glob("*.json")) == []


def test_an_instance_that_cannot_be_removed_stays_noted_for_the_doctor(gpus, tools, tenants, root):
    arrangement = find_device("cuda:1").arrange(mig("3g.20gb", "3g.20gb"), tenants("a", "b"))
    tools.setenv("FAKE_SMI", "stuck")
    with arrangement.fixture:
        pass
    [note] = leftovers.folder().glob("*.json")
    assert "mig" in note.name
    tools.setenv("FAKE_SMI", "")
    assert leftovers.read(note).undo() == (
        "removed MIG instance 1 of GPU 1; removed MIG instance 2 of GPU 1; turned MIG of GPU 1 off"
    )
    assert not nvml.find(1).mig_mode
