"""A run's manifest describes its device, so that the records can be explained on any machine."""

import pytest

from cotenant.api.run import run
from cotenant.api.show import show
from cotenant.devices import find_device
from cotenant.devices.cpu.cpu_device import CpuDevice
from cotenant.devices.protocol import Roofline
from cotenant.errors import DeviceError
from cotenant.measure.runner import Runner
from cotenant.store.folder import RunFolder
from cotenant.study.files import study_from
from cotenant.tenancy.records import MANIFEST

PEAKS = Roofline({"float32": 2e9}, 1e9, 1, "2026-01-01T00:00:00+00:00", undisturbed=False)


def manifest_of(device, tmp_path, workload="null"):
    study = study_from(
        {
            "name": "s",
            "tenants": {"a": {"workload": workload}},
            "mixes": ["solo"],
            "device": device,
            "window": "50ms",
            "lead": "10ms",
            "blocks": 1,
        }
    )
    return dict(RunFolder.open(run(study, out=tmp_path).folder).manifest)


def test_a_simulated_device_states_the_rates_of_its_data_sheet(tmp_path):
    found = manifest_of("sim:t4", tmp_path, "sgemm-mini")
    stated = find_device("sim:t4").roofline()
    assert found["roofline"]["bytes_per_s"] == stated.bytes_per_s
    assert found["roofline"]["flops_per_s"] == dict(stated.flops_per_s)
    assert found["roofline"]["measured_utc"] == "data sheet"


def test_a_real_device_is_measured_during_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(CpuDevice, "remembered_roofline", lambda _: None)
    monkeypatch.setattr(CpuDevice, "roofline", lambda _: PEAKS)
    found = manifest_of("cpu:0", tmp_path)
    assert found["roofline"] == {
        "flops_per_s": {"float32": 2e9},
        "bytes_per_s": 1e9,
        "cores": 1,
        "measured_utc": "2026-01-01T00:00:00+00:00",
        "undisturbed": False,
    }
    assert set(found) <= set(MANIFEST), "every entry is documented"


def test_unmeasurable_rates_are_recorded_as_unknown(tmp_path, monkeypatch, caplog):
    def fail(_):
        raise DeviceError("torch is missing")

    monkeypatch.setattr(CpuDevice, "remembered_roofline", lambda _: None)
    monkeypatch.setattr(CpuDevice, "roofline", fail)
    assert manifest_of("cpu:0", tmp_path)["roofline"] is None
    assert "torch is missing" in caplog.text


@pytest.mark.parametrize("device", ["cpu", "sim:t4", "sim:t4*2", "cpu:each"])
def test_every_device_implements_the_entire_protocol(device):
    found = find_device(device)
    assert [one.name for one in found.members] == list(found.names or (found.name,))
    assert found.only([None]).name == found.name
    assert found.spec(tenantless := _spec()).dtype == found.default_dtype != tenantless.dtype
    assert found.absolute({}) == {}
    assert found.least_free_bytes() <= found.free_memory_bytes()
    assert found.room(1 << 30).available_bytes == 1 << 30
    assert found.foreign_processes(set()) == () == found.lost()
    assert set(found.identities()) == set(found.names)


def _spec():
    from cotenant.workloads.protocol import WorkloadSpec

    return WorkloadSpec(name="bert-base-mini")


def test_the_manifest_of_a_failed_run_says_why_until_it_is_resumed(tmp_path, monkeypatch):
    def lost(_):
        raise DeviceError("the GPU fell off the bus")

    with monkeypatch.context() as patched:
        patched.setattr(Runner, "run", lost)
        with pytest.raises(DeviceError):
            manifest_of("sim:t4", tmp_path, "sgemm-mini")
    [folder] = tmp_path.glob("*/*")
    assert RunFolder.open(folder).manifest["why"] == "the GPU fell off the bus"
    [said] = show(folder).opening
    assert said == "This run failed before its first trial was complete: the GPU fell off the bus."
    run(resume=folder)
    assert RunFolder.open(folder).manifest["why"] == "all blocks done"
