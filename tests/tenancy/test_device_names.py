"""What a device's name says."""

import pytest

from cotenant.tenancy.device_names import DeviceName


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
