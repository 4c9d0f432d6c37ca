"""A Jetson's GPU: found where the driver's library lists none, with the board's own sensors."""

import pytest
from mock_nvml import NOT_SUPPORTED

from cotenant.api.doctor import doctor
from cotenant.devices import find_device, jetson
from cotenant.devices.nvidia import jetson_device
from cotenant.errors import DeviceError, SharingUnavailable
from cotenant.tenancy.sharing import Sharing

FILES = {
    "/proc/device-tree/model": "NVIDIA Jetson Orin Nano Developer Kit\0",
    "/etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic\n",
    "/proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 6000000 kB\n",
    "/sys/devices/virtual/thermal/thermal_zone1/type": "gpu-thermal",
    "/sys/devices/virtual/thermal/thermal_zone1/temp": "46500",
}


@pytest.fixture
def board(machine, gpus, monkeypatch):
    root = machine.write(FILES).root
    gpus.set_system(init_error=9)
    open_jetson, find = jetson_device.open_jetson, jetson.find
    monkeypatch.setattr(jetson_device, "open_jetson", lambda: open_jetson(root))
    monkeypatch.setattr(jetson, "find", lambda at=root: find(at))
    return find_device("cuda:0")


@pytest.mark.parametrize("name", ["Orin (nvgpu)", "NVIDIA Thor"])
def test_a_library_that_lists_the_boards_gpu_does_not_hide_the_board(board, gpus, name):
    gpus.set_system(init_error=0)
    gpus.install("v100")
    gpus.change(0, name=name)
    gpus.fail("nvmlDeviceGetMemoryInfo", NOT_SUPPORTED)
    assert find_device("cuda:0").meaning == board.meaning
    assert "power rails" in {one.subject for one in doctor("cuda:0")}


def test_a_card_in_a_jetson_is_a_card(board, gpus):
    gpus.set_system(init_error=0)
    gpus.install("rtx4090")
    assert find_device("cuda:0").meaning.startswith("NVIDIA GeForce RTX 4090")


def test_it_is_found_and_described(board):
    assert board.name == "cuda:0[torch on cpu]"
    assert board.meaning == "the GPU of NVIDIA Jetson Orin Nano Developer Kit, JetPack 6"
    assert board.describe()["jetson_linux"] == "36.4.3"
    assert board.free_memory_bytes() == 6_000_000 * 1024
    assert find_device("cuda").name == board.name
    with pytest.raises(DeviceError, match="there is no device 'cuda:1'"):
        find_device("cuda:1")


def test_the_boards_sensors_are_the_devices_sensors(board):
    sensors = {info.name for probe in board.probes() for info in probe.sensors}
    assert any("temperature" in name for name in sensors)
    assert any(one.startswith(tuple(sensors)) for one in board.describe()["sources"])


def test_modes_that_need_a_card_are_refused_and_so_are_settings(board, tenants):
    assert len(board.arrange(Sharing(mode="processes"), tenants("a", "b")).hosts) == 2
    with pytest.raises(SharingUnavailable, match="needs an NVIDIA card"):
        board.arrange(Sharing(mode="mps"), tenants("a", "b"))
    with pytest.raises(DeviceError, match="can't set 'sm_clock_mhz' on a Jetson") as error:
        board.apply({"sm_clock_mhz": 600})
    assert "nvpmodel" in error.value.hint


def test_the_doctor_reports_on_the_board(board):
    subjects = [one.subject for one in board.checkup()]
    assert {"torch", "sharing: processes"} <= set(subjects)
