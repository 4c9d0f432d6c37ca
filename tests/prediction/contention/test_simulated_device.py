"""A simulated GPU as a device: names, sharing, parts, controls, and one-sentence refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest

from cotenant.devices import find_device
from cotenant.devices.simulated.simulated_gpu import SimulatedGpuDevice, open_simulated, sharing_modes
from cotenant.errors import DeviceError, SharingUnavailable, WorkloadError
from cotenant.prediction.contention.layout import TURNS, lay_out, whole_of
from cotenant.prediction.contention.mix import MixTenant, mean_slowdowns, stretches
from cotenant.prediction.contention.trace import plain_trace
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing
from cotenant.workloads.protocol import WorkloadSpec

GIB = 2**30


def gpu(name: str = "a100-sxm4-40gb") -> SimulatedGpuDevice:
    device = find_device(f"sim:{name}")
    assert isinstance(device, SimulatedGpuDevice)
    return device


def tenants(count: int, **options: object) -> tuple[Tenant, ...]:
    spec = WorkloadSpec(name="distilbert")
    return tuple(
        Tenant(name=f"t{number}", of="t", workload=spec, load=Load(kind="closed"), **options) for number in range(count)
    )


def laid_out(mode: str, count: int, *shares: float | str, on: str = "a100-sxm4-40gb", needs: dict | None = None):
    return lay_out(gpu(on).gpu, Sharing(mode=mode, shares=shares), tenants(count), needs or {})


def refusal(*args: object, **options: object) -> SharingUnavailable:
    with pytest.raises(SharingUnavailable) as error:
        laid_out(*args, **options)
    assert "\n" not in error.value.message
    assert error.value.hint
    return error.value


def test_an_unknown_gpu_gets_the_nearest_names():
    with pytest.raises(DeviceError, match="no simulated GPU") as error:
        find_device("sim:a100-sxm4-40")
    assert "a100-sxm4-40gb" in error.value.hint


def test_a_fleet_is_a_group_of_its_members():
    assert find_device("sim:v100-sxm2-16gb*8").names[7] == "sim:v100-sxm2-16gb#7"
    with pytest.raises(DeviceError, match="fleet of 8"):
        open_simulated("v100-sxm2-16gb*8")
    assert gpu("v100-sxm2-16gb#3").die != gpu("v100-sxm2-16gb#4").die
    assert gpu("v100-sxm2-16gb#3").name == "sim:v100-sxm2-16gb#3"


def test_your_own_gpu_keeps_its_path_as_its_name(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("like: a100-sxm4-40gb\ntitle: Mine\nsms: 60\n")
    device = find_device(f"sim:{file}")
    assert device.name == f"sim:{file}"
    assert find_device(device.name).gpu.sms == 60


def test_its_description_is_json_marked_as_simulated():
    device = gpu()
    assert device.simulated
    assert json.loads(json.dumps(device.describe()))["simulated"] is True
    assert all(info.source.startswith("simulated") for probe in device.probes() for info in probe.sensors)
    assert device.lock_keys() == ()


def test_it_accepts_no_process():
    with pytest.raises(DeviceError, match="no process can run on it"):
        gpu().seat({})


def test_half_precision_where_there_are_tensor_cores_for_it():
    assert gpu().default_dtype == "float16"
    assert gpu("k80").default_dtype == "float32"


def test_turns_and_mps_give_every_tenant_the_entire_device():
    for mode in ("processes", "mps", "streams"):
        assert {part.sms for part in laid_out(mode, 3).parts} == {108}
    assert laid_out("processes", 2).slicing is not None
    assert laid_out("mps", 2).slicing is None
    assert laid_out("streams", 2).shared_host
    assert laid_out("exclusive", 2).shared_host
    assert "exclusive" not in {mode.mode for mode in sharing_modes(gpu().gpu)}


def test_mps_shares_cap_the_sms_but_keep_them_shared():
    parts = laid_out("mps", 2, 60.0, 40.0).parts
    assert [part.sms for part in parts] == [64, 43]
    assert {(part.sm_domain, part.domain_sms) for part in parts} == {(0, 108)}


def test_green_splits_sms_in_groups_and_shares_dram():
    parts = laid_out("green", 3).parts
    assert [part.sms for part in parts] == [36, 36, 36]
    assert len({part.sm_domain for part in parts}) == 3
    assert {(part.dram_domain, part.dram_share) for part in parts} == {(0, 1.0)}


def test_mig_gives_even_instances_and_large_ones_for_large_memory():
    assert [part.label for part in laid_out("mig", 2).parts] == ["3g.20gb", "3g.20gb"]
    assert [part.label for part in laid_out("mig", 7).parts] == ["1g.5gb"] * 7
    needy = laid_out("mig", 3, needs={"t0": GIB, "t1": GIB, "t2": 15 * GIB}).parts
    assert needy[2].memory_bytes >= 15 * GIB
    assert len({part.dram_domain for part in needy}) == 3


def test_mig_instances_can_be_requested():
    parts = laid_out("mig", 2, "4g.20gb", "3g.20gb").parts
    assert [part.sms for part in parts] == [56, 42]
    assert [part.dram_share for part in parts] == [0.5, 0.5]


def test_every_impossible_sharing_is_refused_in_one_sentence():
    assert "v100-sxm2-16gb lacks MIG" in refusal("mig", 2, on="v100-sxm2-16gb").message
    assert "pinned" in refusal("pinned", 2).message
    assert "3g.21gb" in refusal("mig", 2, "3g.21gb", "3g.20gb").message
    assert "at once" in refusal("mig", 2, "7g.40gb", "1g.5gb").message
    assert "8 MIG instances" in refusal("mig", 8).message
    message = refusal("mig", 2, "1g.5gb", "3g.20gb", needs={"t0": 9 * GIB}).message
    assert "t0 needs 9.0 GiB" in message
    assert "4.75 GiB" in message
    assert "t1 needs 30.0 GiB" in refusal("mig", 2, needs={"t1": 30 * GIB}).message
    assert "groups of 4" in refusal("green", 40).message
    assert "add up to 110 %" in refusal("green", 2, 60.0, 50.0).message
    assert "2 shares for 3 tenants" in refusal("mps", 3, 50.0, 50.0).message
    assert "'half'" in refusal("mps", 2, "half", 50.0).message


def test_a_measured_time_calibrates_a_workload_on_the_whole_gpu_and_on_parts_alike():
    device = gpu()
    request = device.request(WorkloadSpec(name="distilbert", batch=8, seq=64))
    whole, half = laid_out("streams", 1).parts[0], laid_out("green", 2).parts[0]
    plain, mine = device.controls({}), device.controls({"device_ms": {"distilbert": 5.0}})
    assert device.trace(request, whole, mine).device_ns == pytest.approx(5e6)
    factor = 5e6 / device.trace(request, whole, plain).device_ns
    assert device.trace(request, half, mine).device_ns == pytest.approx(
        factor * device.trace(request, half, plain).device_ns
    )
    other = device.controls({"device_ms": {"bert-base": 5.0}})
    assert device.trace(request, whole, other).device_ns == device.trace(request, whole, plain).device_ns


def test_loading_data_overlaps_with_the_device_until_it_takes_longer():
    device = gpu()

    def trace(loading_s):
        spec = WorkloadSpec(name="resnet18-mini", batch=4, dtype="float16", loading_s=loading_s)
        return device.trace(device.request(spec), whole_of(device.gpu), device.controls({}))

    plain, loading = trace(0.0), trace(0.05)
    assert loading.device_ns == plain.device_ns
    assert loading.host_ns == pytest.approx(plain.host_ns + 50e6)
    assert loading.alone_ns() == pytest.approx(loading.host_ns, rel=0.02)
    with pytest.raises(DeviceError, match="no control 'host_ms'") as refused:
        device.controls({"host_ms": {"resnet18-mini": 50.0}})
    assert "loading: 40ms" in refused.value.hint


def test_channels_last_spares_what_brings_float32_into_the_order_of_tensor_cores():
    device = gpu()

    def device_ns(dtype, *, last):
        spec = WorkloadSpec(name="resnet18-mini", batch=64, dtype=dtype, channels_last=last)
        return device.trace(device.request(spec), whole_of(device.gpu), device.controls({})).device_ns

    assert device_ns("float32", last=True) < device_ns("float32", last=False)
    assert device_ns("float16", last=True) == device_ns("float16", last=False)


def test_whoever_reads_each_token_waits_for_the_neighbours_turn_each_time():
    device = gpu()
    whole = whole_of(device.gpu)
    spec = WorkloadSpec(name="gpt2-mini", mode="generate", tokens=16, seq=16, dtype="float16")
    answers = device.trace(device.request(spec), whole, device.controls({}))
    assert answers.waited.sum() >= 16
    busy = plain_trace(kernels=100, device_ns=50e6, host_ns=1e6)
    shared = stretches([MixTenant(answers, whole), MixTenant(busy, whole)], slicing=TURNS)
    waits_ns = (mean_slowdowns(shared)[0] - 1) * answers.alone_ns()
    assert waits_ns > 3 * TURNS.slice_ns
    read_at_the_end = replace(answers, waited=np.zeros(answers.waited.size))
    ahead = stretches([MixTenant(read_at_the_end, whole), MixTenant(busy, whole)], slicing=TURNS)
    assert (mean_slowdowns(ahead)[0] - 1) * read_at_the_end.alone_ns() < waits_ns / 2


def test_a_time_of_an_unknown_workload_gets_the_nearest_name():
    with pytest.raises(WorkloadError) as refused:
        gpu().controls({"device_ms": {"distilbart": 5.0}})
    assert "distilbert" in (refused.value.hint or "")


def test_old_gpus_lack_newer_features():
    modes = {mode.mode: mode for mode in gpu("k80").sharings()}
    assert modes["processes"].available
    assert not modes["mps"].available
    assert not modes["mig"].available
    assert modes["mps"].instead == "processes"


@pytest.mark.parametrize(
    "settings",
    [
        {"governor": "performance"},
        {"fusion": "magic"},
        {"solo_ms": 3},
        {"solo_ms": {"no-such-model": 3.0}},
        {"clock_mhz": 9000},
        {"power_w": "a lot"},
        {"host_us": True},
        {"device_ms": 3},
        {"device_ms": {"resnet50": 0}},
        {"device_ms": {"resnet50": "x"}},
    ],
)
def test_invalid_settings_are_refused(settings):
    with pytest.raises(DeviceError):
        gpu().controls(settings)
