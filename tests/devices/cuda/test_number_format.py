"""A request's costs are counted in the number format the model has on its device, however that is named."""

import pytest

from cotenant import workloads
from cotenant.api.run import dry_run
from cotenant.devices import find_device
from cotenant.measure.bench import PropertyCache, bench_for
from cotenant.study.files import study_from
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.workloads.protocol import WorkloadSpec

MODEL = "bert-base-mini"


@pytest.fixture
def two_a100s(gpus, monkeypatch):
    """GPUs whose tenants would compute on them if they existed."""
    gpus.install("a100", "a100")
    monkeypatch.delenv("COTENANT_TORCH_DEVICE")
    return gpus


def tenant(name=MODEL, dtype=None):
    return Tenant(name="a", of="a", workload=WorkloadSpec(name=name, dtype=dtype), load=Load(kind="closed"))


def costs(dtype):
    return workloads.find(MODEL).properties(WorkloadSpec(name=MODEL, dtype=dtype))


@pytest.mark.parametrize("name", ["cuda:0", "cuda:0,1", "cuda:all"])
def test_a_gpu_alone_and_in_a_group_counts_in_its_own_format(two_a100s, name):
    device = find_device(name)
    cache = PropertyCache(device)
    assert cache.properties(tenant()) == costs("bfloat16") != costs("float32")
    assert cache.properties(tenant(dtype="float32")) == costs("float32")
    assert cache.memory_bytes(tenant()) == costs("bfloat16").peak_memory_bytes


def test_every_bench_counts_the_same_way(two_a100s):
    """Runs, profile passes and self-tests use the same function."""
    bench = bench_for(find_device("cuda:0,1"), run="test")
    try:
        assert bench._properties(tenant()) == costs("bfloat16")
    finally:
        bench.kill()


def test_the_forecast_of_a_group_is_that_of_one_of_its_gpus(two_a100s):
    study = study_from({"name": "s", "tenants": {"a": {"workload": MODEL}}, "mixes": ["solo"], "device": "cuda:0"})
    [alone], [grouped] = (dry_run(study, device=name).memory for name in ("cuda:0", "cuda:0,1"))
    assert alone.needed_bytes == grouped.needed_bytes


@pytest.mark.parametrize("name", ["null", "spin", "sleep", "triad", "launch", "sgemm"])
def test_a_workload_with_its_own_format_or_none_keeps_it(two_a100s, name):
    spec = find_device("cuda:0").spec(WorkloadSpec(name=name))
    assert spec.dtype == (None if name in {"null", "spin", "sleep"} else "float32")
    workloads.find(name).properties(spec)  # not refused


def test_an_accelerator_known_only_to_torch_counts_in_its_own_format():
    from cotenant.devices.nvidia.accelerator import TorchAccelerator

    device = TorchAccelerator("rocm", 0, {"name": "X", "memory_bytes": 1 << 34, "free_memory_bytes": 1 << 34})
    assert device.spec(WorkloadSpec(name=MODEL)).dtype == device.default_dtype == "bfloat16"
