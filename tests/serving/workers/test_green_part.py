"""Schedulers of one program divide a GPU's SMs: each launches in a green context and says what it was granted."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

import cotenant
from cotenant.devices.nvidia import green_contexts
from cotenant.devices.nvidia.green_contexts import SmPartition
from cotenant.errors import ServingError, SharingUnavailable
from cotenant.serving.workers.place import CudaPlace, GreenPart, find_place


@pytest.fixture
def hopper(monkeypatch):
    """An H100 whose driver grants what is asked for."""
    asked = []

    def parts(index, sms):
        asked.append((index, tuple(sms)))
        return tuple(SmPartition(0x1000 + number, count) for number, count in enumerate(sms))

    gpu = SimpleNamespace(name="NVIDIA H100", multi_processor_count=132, major=9)
    monkeypatch.setattr(green_contexts, "parts", parts)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)
    return asked


def test_parts_are_cut_from_one_split_and_each_place_knows_its_sms(hopper):
    places = [find_place("cuda:1", green=GreenPart((60, 40), part)) for part in (0, 1)]
    assert [place.sms for place in places] == [72, 48]  # in steps of 8
    assert hopper == [(1, (72, 48))] * 2


def test_chunks_are_launched_on_the_stream_of_the_green_context(monkeypatch):
    used = []
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda address, device: (address, device))
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: (used.append(stream), nullcontext())[1])
    with CudaPlace("cuda:0", part=SmPartition(0x1001, 48)).settled():
        pass
    assert used == [(0x1001, "cuda:0")]


def test_another_number_of_sms_than_planned_is_refused(hopper, monkeypatch):
    monkeypatch.setattr(green_contexts, "parts", lambda _, sms: [SmPartition(1, 132) for _ in sms])
    with pytest.raises(ServingError, match="granted 132 SMs of NVIDIA H100 instead of 64"):
        find_place("cuda:0", green=GreenPart((50, 50), 0))


def test_a_part_smaller_than_the_gpu_can_give_is_refused(hopper):
    with pytest.raises(SharingUnavailable, match="the smallest part `green` can give of NVIDIA H100 is 8 SMs"):
        find_place("cuda:0", green=GreenPart((97, 3), 1))


@pytest.mark.parametrize(("green", "part"), [((60, 50), 0), ((60, 40), 2), ((100, 0), 0)])
def test_shares_that_are_not_parts_of_a_gpu_are_refused(green, part):
    with pytest.raises(ServingError, match="isn't a part of a GPU"):
        cotenant.Scheduler("cuda:0", green=green, part=part)


def test_a_cpu_has_no_green_contexts():
    with pytest.raises(ServingError, match="cpu has no green contexts"):
        find_place("cpu", green=GreenPart((50, 50), 0))
