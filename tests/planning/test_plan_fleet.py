"""A fleet.yaml instead of a list of devices."""

import pytest

from cotenant.errors import DeviceError, StudyError
from cotenant.planning.inputs.devices import devices_of


def written(folder, text):
    path = folder / "fleet.yaml"
    path.write_text(text)
    return str(path)


def test_a_fleet_file_lists_devices_and_prices(tmp_path):
    text = "devices:\n  - {device: sim:a100-sxm4-80gb, count: 3, price: 0.9}\n  - sim:t4\n"
    found = devices_of(written(tmp_path, text), {}, priced=True)
    first, second = found.kinds
    assert (first.name, first.available, first.price_per_h) == ("sim:a100-sxm4-80gb", 3, 0.9)
    assert (second.name, second.available) == ("sim:t4", 1)


def test_all_problems_of_a_fleet_file_are_reported_at_once(tmp_path):
    text = "devices:\n  - {device: sim:t4, count: 0}\n  - {device: sim:t4, cost: 1}\n  - 7\n"
    with pytest.raises(StudyError) as refused:
        devices_of(written(tmp_path, text), {}, priced=True)
    said = "\n".join(refused.value.problems)
    assert ": count: expected a number of devices from 1, not 0" in said
    assert "unknown key cost" in said
    assert "expected a device such as sim:t4" in said


def test_a_cpu_is_a_device_without_a_price_and_clocks_are_those_of_gpus(tmp_path):
    found = devices_of("cpu, sim:a100-sxm4-80gb", {}, priced=True, clocked=True)
    cpu, gpu = found.kinds
    assert cpu.price_per_h == 0
    assert "no price given" in cpu.price_basis
    assert not cpu.clocks
    assert [clock.mhz for clock in gpu.clocks] == sorted((clock.mhz for clock in gpu.clocks), reverse=True)
    assert gpu.clocks[0].full_w > gpu.clocks[-1].full_w > 0


def test_a_real_device_exists_only_once():
    with pytest.raises(DeviceError, match="there is no device 'nosuch'"):
        devices_of("nosuch*2", {}, priced=True)
    with pytest.raises(DeviceError, match="cpu is there once, not 2 times"):
        devices_of("cpu*2", {}, priced=True)
