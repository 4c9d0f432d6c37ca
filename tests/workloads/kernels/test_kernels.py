"""Kernels: each runs, is described exactly, records its inputs, and refuses what it can't do."""

import subprocess
import sys

import psutil
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from cotenant.errors import DoesNotFit, WorkloadError
from cotenant.workloads.kernels import WORKLOADS, gemm
from cotenant.workloads.protocol import WorkloadSpec

BY_NAME = {workload.name: workload for workload in WORKLOADS}
SMALL = {
    "gemm": {"size": 24},
    "triad": {"size": "48KiB"},
    "cache": {"size": "4KiB", "sweeps": 5},
    "launch": {"kernels": 7},
}


class Here:
    torch_device = "cpu"
    default_dtype = "float32"


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small(name: str, **fields) -> WorkloadSpec:
    kind = next(kind for kind in SMALL if kind in name)
    return WorkloadSpec(name=name, params=SMALL[kind], **fields)


def run(spec: WorkloadSpec):
    built = BY_NAME[spec.name].build(spec, Here())
    (stage,) = built.stages
    return built, stage.run(None)


def test_every_kernel_has_a_mini_sibling():
    names = {"sgemm", "dgemm", "hgemm", "bgemm", "triad", "cache", "launch"}
    assert set(BY_NAME) == names | {f"{name}-mini" for name in names}
    assert {workload.family for workload in WORKLOADS} == {"kernel"}
    assert all(workload.about for workload in WORKLOADS)


def test_importing_them_does_not_import_torch():
    code = "import sys, cotenant.workloads.kernels; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_every_kernel_serves_a_request(name):
    built, result = run(small(name, batch=2))
    assert [stage.name for stage in built.stages] == ["compute"]
    assert torch.isfinite(result).all()
    assert built.dtype == str(result.dtype).removeprefix("torch.")


@pytest.mark.parametrize("name", sorted(name for name in BY_NAME if name.endswith("-mini")))
def test_every_mini_runs_as_it_is(name):
    _, result = run(WorkloadSpec(name=name))
    assert torch.isfinite(result).all()


@pytest.mark.parametrize("name", ["sgemm", "dgemm", "hgemm", "bgemm"])
def test_a_products_flops_are_those_that_torch_counts(name):
    spec = small(name, batch=3)
    (stage,) = BY_NAME[name].build(spec, Here()).stages
    with FlopCounterMode(display=False) as counter:
        stage.run(None)
    cost = BY_NAME[name].properties(spec)
    assert cost.flops == counter.get_total_flops() == 3 * 2 * 24**3
    assert cost.flops_by_dtype == {BY_NAME[name].dtype: cost.flops}
    assert len(cost.operators) == 3


def test_a_products_bytes_are_two_matrices_read_and_one_written():
    cost = BY_NAME["sgemm"].properties(WorkloadSpec(name="sgemm", params={"size": 1024}))
    assert cost.bytes_moved == 3 * 1024 * 1024 * 4
    assert cost.peak_memory_bytes == 3 * 1024 * 1024 * 4
    assert cost.intensity == pytest.approx(2 * 1024 / 12)


def test_triad_moves_three_arrays_a_pass_and_computes_what_it_says():
    spec = small("triad", batch=2)
    cost = BY_NAME["triad"].properties(spec)
    assert cost.bytes_moved == 2 * 3 * 48 * 1024
    assert cost.flops == 2 * 2 * 48 * 1024 / 4
    _, result = run(spec)
    assert (result == 1 + 3 * 1).all()


def test_the_cache_kernel_sweeps_the_same_working_set():
    cost = BY_NAME["cache"].properties(small("cache", batch=2))
    assert cost.peak_memory_bytes == 4096
    assert cost.bytes_moved == 10 * 2 * 4096
    built, result = run(small("cache", batch=2))
    assert built.facts == {"working_set_bytes": 4096, "sweeps": 10}
    assert (result == 1).all()  # ten sweeps, each times -1


def test_the_launch_kernel_starts_many_tiny_operators():
    spec = small("launch", batch=2)
    assert len(BY_NAME["launch"].properties(spec).operators) == 14
    (stage,) = BY_NAME["launch"].build(spec, Here()).stages
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        stage.run(None)
    assert sum(event.count for event in profile.key_averages() if event.key == "aten::mul_") == 14


def inputs_of(distribution: str, seed: int = 1, name: str = "sgemm"):
    """The first factor, read from the stage's closure."""
    seen = []
    original = torch.mm

    def spy(a, b, *, out):
        seen.extend((a.clone(), b.clone()))
        return original(a, b, out=out)

    spec = WorkloadSpec(name=name, params={"size": 200, "inputs": distribution}, seed=seed)
    built = BY_NAME[name].build(spec, Here())
    torch.mm = spy
    try:
        built.stages[0].run(None)
    finally:
        torch.mm = original
    return built, seen[0].double()


def test_inputs_follow_their_distribution_and_record_it():
    expected = {
        "zeros": lambda x: bool((x == 0).all()),
        "constant": lambda x: bool((x == 1).all()),
        "uniform": lambda x: -1 <= x.min() < -0.99 and 0.99 < x.max() < 1 and abs(x.mean()) < 0.02,
        "normal": lambda x: abs(x.mean()) < 0.03 and abs(x.std() - 1) < 0.03,
        "sorted": lambda x: bool((x.flatten().diff() >= 0).all()) and abs(x.std() - 1) < 0.03,
        "sparse(90%)": lambda x: abs((x == 0).double().mean() - 0.9) < 0.01 and abs(x[x != 0].std() - 1) < 0.05,
    }
    for distribution, holds in expected.items():
        built, entries = inputs_of(distribution)
        assert holds(entries), distribution
        assert built.facts == {"size": 200, "inputs": distribution}


@pytest.mark.parametrize("name", ["hgemm", "bgemm", "dgemm"])
@pytest.mark.parametrize("distribution", ["uniform", "normal", "sorted", "sparse(0.5)"])
def test_inputs_can_be_made_in_every_number_format(name, distribution):
    built, entries = inputs_of(distribution, name=name)
    assert torch.isfinite(entries).all()
    assert built.facts["inputs"] == ("sparse(50%)" if distribution == "sparse(0.5)" else distribution)


def test_the_seed_decides_the_inputs():
    assert torch.equal(inputs_of("normal", seed=3)[1], inputs_of("normal", seed=3)[1])
    assert not torch.equal(inputs_of("normal", seed=3)[1], inputs_of("normal", seed=4)[1])


@pytest.mark.parametrize(
    ("name", "fields", "message", "hint"),
    [
        (
            "sgemm",
            {"dtype": "float64"},
            "`sgemm` multiplies float32 matrices, but the tenant sets `dtype: float64`",
            "use `dgemm`",
        ),
        (
            "bgemm-mini",
            {"dtype": "float16"},
            "`bgemm-mini` multiplies bfloat16 matrices, but the tenant sets `dtype: float16`",
            "use `hgemm-mini`",
        ),
        (
            "sgemm",
            {"dtype": "int8"},
            "`sgemm` multiplies float32 matrices, but the tenant sets `dtype: int8`",
            "the products are sgemm, dgemm, hgemm, bgemm",
        ),
        ("sgemm", {"params": {"sise": 8}}, "`sgemm` has no param `sise`", "did you mean size?"),
        (
            "sgemm",
            {"params": {"inputs": "sparse"}},
            "`sgemm`: param `inputs` is 'sparse': sparse needs the share",
            None,
        ),
        ("sgemm", {"params": {"inputs": "sparse(200%)"}}, "`sgemm`: param `inputs` is 'sparse(200%)': the share", None),
        ("sgemm", {"params": {"inputs": "gauss"}}, "`sgemm`: param `inputs` is 'gauss': expected one of zeros,", None),
        ("sgemm", {"params": {"inputs": "normal(3)"}}, "`sgemm`: param `inputs` is 'normal(3)': expected one", None),
        ("sgemm", {"params": {"size": 0}}, "`sgemm`: param `size` is 0: input should be greater", None),
        ("triad", {"params": {"size": "large"}}, "`triad`: param `size` is 'large': could not parse", None),
        ("triad", {"dtype": "int8"}, "`triad` computes with floating point numbers, not int8", "use one of"),
        ("cache", {"params": {"sweeps": 0}}, "`cache`: param `sweeps` is 0: input should be greater", None),
        ("launch", {"seq": 128}, "`launch` has no seq, but the tenant sets `seq: 128`", "remove `seq`"),
        ("launch", {"weights": "./dir"}, "`launch` has no weights, but the tenant", "remove `weights`"),
    ],
)
def test_unsupported_options_are_refused_in_one_sentence(name, fields, message, hint):
    with pytest.raises(WorkloadError) as refused:
        BY_NAME[name].check(WorkloadSpec(name=name, **fields))
    assert refused.value.message.startswith(message)
    assert hint is None or (refused.value.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("name", "params"), [("sgemm", {"size": 512}), ("triad", {"size": "1MiB"}), ("cache", {"size": "3MiB"})]
)
def test_sizes_beyond_memory_are_refused_before_allocation(name, params, monkeypatch):
    monkeypatch.setattr(gemm, "_free_bytes", lambda device: 2 * 2**20)
    with pytest.raises(DoesNotFit, match=rf"`{name}` needs 0.00 GiB, but cpu has 0.00 GiB free"):
        BY_NAME[name].build(WorkloadSpec(name=name, params=params), Here())


def test_free_memory_is_the_systems_figure():
    assert 0 < gemm._free_bytes("cpu") <= psutil.virtual_memory().total
