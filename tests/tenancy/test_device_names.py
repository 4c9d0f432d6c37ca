"""What a device's name says."""

import pytest

from cotenant.tenancy.device_names import DeviceName, counted


@pytest.mark.parametrize(
    ("name", "family", "model", "simulated", "on_cpu"),
    [
        ("cpu", "cpu", "cpu", False, True),
        ("cpu:1-3", "cpu", "cpu:1-3", False, True),
        ("cuda:0", "cuda", "cuda:0", False, False),
        ("sim:a100-sxm4-40gb", "sim", "a100-sxm4-40gb", True, False),
        ("simple", "simple", "simple", False, False),
        ("sim", "sim", "sim", False, False),
        ("cpux:0", "cpux", "cpux:0", False, False),
    ],
)
def test_a_name_says_what_kind_of_device_it_is(name, family, model, simulated, on_cpu):
    device = DeviceName(name)
    assert (device.family, device.model, device.simulated, device.on_cpu) == (family, model, simulated, on_cpu)
    assert device == name


@pytest.mark.parametrize(
    ("devices", "listed"),
    [
        ("sim:t4,sim:t4, sim:t4", "sim:t4*3"),
        ("sim:t4*2,sim:l4,sim:t4", "sim:t4*3,sim:l4"),
        ("sim:t4#1,sim:t4#1,sim:t4#2", "sim:t4#1,sim:t4#2"),
        ("sim:t4*x,cuda:0,cuda:0", "sim:t4*x,cuda:0"),
        ("cuda:0,1", "cuda:0,1"),
        ("", ""),
    ],
)
def test_a_simulated_gpu_that_is_named_again_is_one_more(devices, listed):
    assert counted(devices) == listed
