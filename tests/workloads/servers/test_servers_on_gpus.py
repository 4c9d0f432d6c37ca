"""A server doesn't report where it runs: the driver's list of processes does."""

from types import SimpleNamespace

import pytest

from cotenant.devices.nvidia import cuda_device
from cotenant.devices.protocol import SeatReport


@pytest.fixture
def listed(monkeypatch):
    def these(*pids):
        monkeypatch.setattr(cuda_device, "processes", lambda _: [SimpleNamespace(pid=pid, name="x") for pid in pids])

    return these


def elsewhere():
    chat = SeatReport("chat", 10, {"server_pids": [11, 12]})
    infer = SeatReport("infer", 20, {"server_pids": [21]})
    return cuda_device.servers_elsewhere(None, "cuda:0", [chat, infer, SeatReport("bert", 30, {})])


def test_a_server_the_driver_does_not_list_is_elsewhere(listed):
    listed(12, 30)
    assert elsewhere() == ["the server of infer is not on cuda:0: the driver lists none of its processes there"]


def test_servers_on_their_gpu_are_not_reported(listed):
    listed(12, 21, 99)
    assert elsewhere() == []


def test_pids_of_another_namespace_prove_nothing(listed):
    listed(70001, 70002)
    assert elsewhere() == []
