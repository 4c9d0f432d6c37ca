"""The cost of a request is known before it runs, and agrees with torch's counter and with the literature."""

import json
import subprocess
import sys
from functools import cache

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from cotenant.workloads import find
from cotenant.workloads.catalogue import model_entries
from cotenant.workloads.descriptions import from_json, to_json
from cotenant.workloads.models.building import stages_of, stand
from cotenant.workloads.models.describing import describe
from cotenant.workloads.protocol import WorkloadSpec
from tests.support.architectures import one_of_each

pytestmark = pytest.mark.slow

MINIS = one_of_each(entry for entry in model_entries() if entry.mini_of is not None)


@cache
def described(name):
    """The default description of a model, shared by several tests."""
    return describe(find(name).entry, WorkloadSpec(name=name))


def counted_flops(entry, spec):
    """Torch's own count for a real request; attention unfused, since it has no formula for the fused one."""
    model, inputs = stand(entry, spec, device="cpu", dtype=torch.float32)
    if entry.name.startswith(("deepseek-v", "gpt-oss")):
        model.set_experts_implementation("eager")  # nor for grouped products
    stages = stages_of(model, entry, spec, inputs, "cpu")
    model.requires_grad_(spec.train)  # the counter follows gradients, which inference lacks
    state = None
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        for stage in stages:
            for _ in range(stage.repeat):
                state = stage.run(state)
    return counter.get_total_flops()


@pytest.mark.parametrize("entry", MINIS, ids=lambda entry: entry.name)
def test_flops_agree_with_torchs_counter(entry):
    spec = WorkloadSpec(name=entry.name)
    assert described(entry.name).flops == pytest.approx(counted_flops(entry, spec), rel=0.02)


@pytest.mark.parametrize("name", ["gpt2-mini", "llama-3.2-1b-mini", "deepseek-v2-lite-mini"])
@pytest.mark.parametrize("mode", ["prefill", "decode", "generate"])
def test_flops_of_generation_agree_with_torchs_counter(name, mode):
    entry = find(name).entry
    spec = WorkloadSpec(name=name, mode=mode, tokens=9 if mode == "generate" else None, batch=2)
    assert describe(entry, spec).flops == pytest.approx(counted_flops(entry, spec), rel=0.02)


@pytest.mark.parametrize("name", ["bert-base-mini", "gpt2-mini", "resnet18-mini", "vit-b-16-mini"])
def test_flops_of_a_training_step_agree_with_torchs_counter(name):
    entry = find(name).entry
    spec = WorkloadSpec(name=name, train=True, batch=2)
    assert describe(entry, spec).flops == pytest.approx(counted_flops(entry, spec), rel=0.02)


@pytest.mark.parametrize(
    ("name", "giga_macs"),
    [
        ("resnet18", 1.81),
        ("resnet50", 4.09),
        ("mobilenet-v2", 0.30),
        ("efficientnet-b0", 0.39),
        ("efficientnet-v2-s", 8.37),
        ("efficientnet-v2-l", 56.08),
        ("vit-b-16", 17.56),
        ("bert-base", 11.17),
    ],
)
def test_flops_agree_with_the_literature(name, giga_macs):
    """torchvision's model pages; BERT base at 128 tokens: 12 layers of 12 h² per token, and attention."""
    assert described(name).flops / 2e9 == pytest.approx(giga_macs, rel=0.02)


def test_depthwise_training_costs_three_forward_passes():
    """Torch's counter ignores groups in the backward pass; the arithmetic does not."""
    entry = find("mobilenet-v2").entry
    forward = describe(entry, WorkloadSpec(name="mobilenet-v2")).flops
    step = describe(entry, WorkloadSpec(name="mobilenet-v2", train=True)).flops
    assert step == pytest.approx(3 * forward, rel=0.02)


def test_decoding_reads_all_weights_for_each_token():
    properties = describe(find("gpt2").entry, WorkloadSpec(name="gpt2", mode="decode", dtype="float16"))
    assert properties.weight_bytes == pytest.approx(2 * 124_439_808, rel=0.001)
    assert properties.bytes_moved > properties.weight_bytes
    assert properties.intensity < 1.1
    assert set(properties.flops_by_dtype) == {"float16"}


def test_sums_are_those_of_the_operators():
    properties = describe(find("bert-base-mini").entry, WorkloadSpec(name="bert-base-mini"))
    assert sum(one.flops for one in properties.operators) == properties.flops
    assert sum(one.bytes_read + one.bytes_written for one in properties.operators) == properties.bytes_moved
    assert any(one.shapes and one.out_shapes for one in properties.operators)


def test_sampled_lengths_cost_their_mean():
    entry = find("bert-base-mini").entry
    spec = WorkloadSpec(name="bert-base-mini", params={"lengths": "sampled"})
    sampled, longest = describe(entry, spec), describe(entry, WorkloadSpec(name="bert-base-mini"))
    assert 0.1 * longest.flops < sampled.flops < longest.flops


@pytest.mark.parametrize("entry", MINIS, ids=lambda entry: entry.name)
def test_a_mini_is_bound_like_its_big_sibling(entry):
    """The mini has many operations per byte where the full model does, and few where it has few.

    Small matrices do fewer operations per byte at the same shape of model, hence two thresholds.
    """
    full, mini = described(entry.mini_of).intensity, described(entry.name).intensity
    bound = {True: "compute", False: "memory"}
    assert bound[mini > 2.5] == bound[full > 9], f"{mini:.1f} beside {full:.1f} FLOPs per byte"


def test_a_description_survives_json():
    properties = describe(find("gpt2-mini").entry, WorkloadSpec(name="gpt2-mini", mode="generate"))
    assert from_json(json.loads(json.dumps(to_json(properties)))) == properties


def test_a_description_is_computed_once(monkeypatch):
    from cotenant.workloads.models import workload

    spec = WorkloadSpec(name="bert-base-mini")
    first = find(spec.name).properties(spec)
    monkeypatch.setattr(workload, "describe", lambda *_: pytest.fail("computed twice"))
    assert find(spec.name).properties(spec) == first
    with pytest.raises(pytest.fail.Exception):
        find(spec.name).properties(spec.model_copy(update={"batch": 3}))


def test_a_broken_cache_file_is_computed_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spec = WorkloadSpec(name="bert-base-mini")
    first = find(spec.name).properties(spec)
    (file,) = (tmp_path / "cotenant" / "properties").iterdir()
    file.write_text(file.read_text()[:100])
    assert find(spec.name).properties(spec) == first


def test_seven_billion_parameters_are_described_without_their_memory():
    """In a new process, imports and all, in the mode that takes longest."""
    code = (
        "from cotenant.workloads import find; from cotenant.workloads.protocol import WorkloadSpec\n"
        "p = find('mistral-7b').properties(WorkloadSpec(name='mistral-7b', mode='generate'))\n"
        "assert p.params == 7_248_023_552 and p.peak_memory_bytes > 28e9 and p.operators\n"
        "print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')])"
    )  # ru_maxrss would be at least that of the process that started it
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 2**30
