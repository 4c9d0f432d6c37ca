"""Software determines a model's kernels and the host time per launch."""

import pytest

from cotenant.devices.simulated.simulated_gpu import request_of
from cotenant.errors import WorkloadError
from cotenant.prediction.kernels.software import EXECUTIONS
from cotenant.workloads import find
from cotenant.workloads.protocol import SOFTWARE, WorkloadSpec


def request(name="llama-3.2-1b-mini", **options):
    return request_of(WorkloadSpec(name=name, dtype="float16", **options))


def host_ns(one, architecture="ampere"):
    return one.launch_ns(architecture).sum()


def test_every_software_name_of_a_study_has_an_execution():
    assert set(EXECUTIONS) == set(SOFTWARE)


def test_a_server_of_language_models_launches_less_and_copies_no_cache():
    eager, served = request(mode="decode"), request(mode="decode", software="vllm")
    assert len(served.kernels) < len(eager.kernels) / 2
    assert "cat" in eager.kernels.names
    assert "cat" not in served.kernels.names


def test_a_server_of_language_models_launches_prompts_and_replays_the_steps_after_them():
    served = request(mode="generate", seq=16, tokens=4, software="vllm")
    launches = served.launch_ns("ampere") / served.kernels.launches
    prompt, steps = launches[: served.first_output + 1], launches[served.first_output + 1 :]
    assert prompt.min() > 10 * steps.max()
    assert host_ns(request(mode="prefill", software="vllm")) > 10 * host_ns(request(mode="decode", software="vllm"))


def test_graphs_run_the_same_kernels_with_less_host_time():
    eager, graphs = request(), request(software="graphs")
    assert len(eager.kernels) == len(graphs.kernels)
    assert host_ns(graphs) < host_ns(eager) / 10


def test_old_hosts_take_longer_and_backward_launches_less():
    step = request("resnet18-mini", batch=2, train=True)
    assert host_ns(step, "volta") > 2 * host_ns(step, "ampere")
    forward = step.launch_ns("ampere")[step.slot == 1].mean()
    assert step.launch_ns("ampere")[step.slot == 2].mean() < forward


def test_new_hosts_take_less():
    assert host_ns(request(), "hopper") < host_ns(request(), "ampere")


def test_tf32_brings_products_of_float32_to_tensor_cores():
    plain, rounded = (request_of(WorkloadSpec(name="bert-base-mini", dtype="float32", tf32=tf32)) for tf32 in (0, 1))
    products = plain.kernels.m > 0
    assert not plain.kernels.tensor[products].any()
    assert rounded.kernels.tensor[rounded.kernels.m > 0].all()


@pytest.mark.parametrize("train", [False, True])
def test_unfused_attention_writes_its_scores_to_memory(train):
    fused, unfused = (request(attention=how, train=train) for how in ("fused", "unfused"))
    assert "attention" in fused.kernels.names
    assert "attention" not in unfused.kernels.names
    assert ("softmax_backward" in unfused.kernels.names) == train
    assert (unfused.kernels.read + unfused.kernels.written).sum() > (fused.kernels.read + fused.kernels.written).sum()


def test_looped_attention_costs_the_host_a_launch_and_the_device_a_small_kernel_by_head_and_item():
    from cotenant.devices.simulated.catalogue import find_gpu
    from cotenant.prediction.kernels.cost import solo_costs

    loops = [request("bert-base-mini", batch=batch, seq=16, attention="looped") for batch in (2, 3)]
    heads = sum(one.kernels.launches[one.kernels.launches > 1].sum() for one in loops[:1]) / 2
    assert host_ns(loops[1]) - host_ns(loops[0]) == pytest.approx(heads * 4e3)
    gpu = find_gpu("a100-sxm4-80gb")
    kernels = loops[0].kernels
    costs = solo_costs(kernels, gpu)
    looped = kernels.launches > 1
    assert (costs.duration_ns[looped] >= kernels.launches[looped] * gpu.launch_us * 1e3).all()
    assert (costs.filled[looped] < gpu.sms / 2).all()
    assert (costs.waves[looped] >= kernels.launches[looped]).all(), "its SMs are free again after each"


def test_weight_gradients_of_convolutions_are_split_over_the_device():
    from cotenant.devices.simulated.catalogue import find_gpu
    from cotenant.prediction.kernels.columns import KINDS
    from cotenant.prediction.kernels.cost import solo_costs

    step = request("resnet18-mini", batch=256, train=True)
    costs = solo_costs(step.kernels, find_gpu("rtx-3090"))
    gradients = step.kernels.kind == KINDS.index("weight_gradient")
    assert gradients.any()
    assert costs.sms[gradients].mean() > 0.5 * find_gpu("rtx-3090").sms


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("resnet50", {"software": "vllm"}, "vLLM serves models of text"),
        ("bert-base-mini", {"software": "tensorrt", "train": True}, "runs inference, not training"),
        ("gpt2-mini", {"software": "onnxruntime", "mode": "decode"}, "no KV cache"),
        ("bert-base-mini", {"tf32": True, "dtype": "float16"}, "rounds products of float32"),
        ("bert-base-mini", {"channels_last": True}, "is for images"),
    ],
)
def test_unsupported_software_is_refused_in_one_sentence(name, options, words):
    with pytest.raises(WorkloadError, match=words):
        find(name).check(WorkloadSpec(name=name, **options))
