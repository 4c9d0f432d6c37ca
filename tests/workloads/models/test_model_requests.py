"""Every small sibling serves and trains on a CPU, in all modes, through its named stages."""

import pytest
import torch

from cotenant.errors import WorkloadError
from cotenant.workloads import find
from cotenant.workloads.catalogue import model_entries
from cotenant.workloads.protocol import WorkloadSpec

pytestmark = pytest.mark.slow

MINIS = [entry for entry in model_entries() if entry.mini_of is not None]


class Cpu:
    torch_device = "cpu"
    default_dtype = "float32"


def request(built):
    state = None
    for stage in built.stages:
        for _ in range(stage.repeat):
            state = stage.run(state)
    return state


def build(name, **options):
    return find(name).build(WorkloadSpec(name=name, **options), Cpu())


@pytest.mark.parametrize("entry", MINIS, ids=lambda entry: entry.name)
def test_every_mini_runs_in_every_mode(entry):
    for mode in entry.modes:
        built = build(entry.name, mode=mode, batch=2, **({"tokens": 4} if mode == "generate" else {}))
        first, second = request(built), request(built)
        assert torch.isfinite(first.float()).all(), mode
        assert first.shape[0] == 2
        if entry.family != "recommender":  # its requests cycle through different rows
            assert torch.equal(first, second), f"{mode}: the same input gave two answers"


@pytest.mark.parametrize("entry", [e for e in MINIS if e.architecture.trains], ids=lambda entry: entry.name)
def test_every_mini_trains(entry):
    built = build(entry.name, train=True, batch=2)
    assert [stage.name for stage in built.stages] == ["to_device", "forward", "backward", "optimiser"]
    losses = [request(built) for _ in range(2)]
    assert all(torch.isfinite(loss) for loss in losses)


def test_training_learns_its_batch():
    torch.manual_seed(0)
    built = build("distilgpt2-mini", train=True)
    losses = [request(built).item() for _ in range(60)]
    assert losses[-1] < losses[0]


def test_generation_names_its_first_output_and_repeats_decoding():
    built = build("gpt2-mini", mode="generate", tokens=5, batch=3)
    stages = {stage.name: stage for stage in built.stages}
    assert list(stages) == ["to_device", "prefill", "decode", "to_host"]
    assert stages["prefill"].first_output
    assert stages["decode"].repeat == 4
    assert request(built).shape == (3, 5)


def test_generation_makes_the_tokens_of_plain_forward_passes():
    from cotenant.workloads.models.building import inference_stages, stand

    spec = WorkloadSpec(name="llama-3.2-1b-mini", mode="generate", tokens=4, seq=12)
    entry = find(spec.name).entry
    model, inputs = stand(entry, spec, device="cpu", dtype=torch.float32)
    state = None
    for stage in inference_stages(model, entry, "generate", inputs, device="cpu", tokens=4):
        for _ in range(stage.repeat):
            state = stage.run(state)
    tokens = inputs.ring[0]["input_ids"]
    with torch.inference_mode():
        for _ in range(4):
            tokens = torch.cat([tokens, model(input_ids=tokens).logits[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(state, tokens[:, 12:])


def test_decoding_keeps_its_context_length():
    built = build("gpt2-mini", mode="decode", seq=16)
    assert len({request(built).item() for _ in range(5)}) == 1  # a growing context would change the answer


def test_sampled_lengths_cycle_and_are_recorded():
    built = build("bert-base-mini", params={"lengths": "sampled"}, seq=64)
    lengths = built.facts["lengths"]
    seen = [built.stages[0].run(None)["input_ids"].shape[1] for _ in range(len(lengths) + 1)]
    assert seen == [*lengths, lengths[0]]
    assert len(set(lengths)) > 1
    assert max(lengths) <= 64


def test_the_same_seed_gives_the_same_answer_and_another_seed_another():
    answers = [request(build("vit-b-16-mini", seed=seed)) for seed in (1, 1, 2)]
    assert torch.equal(answers[0], answers[1])
    assert not torch.equal(answers[0], answers[2])


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_a_dtype_applies_to_weights_and_inputs(dtype):
    for name in ("llama-3.2-1b-mini", "resnet18-mini"):
        built = build(name, dtype=dtype)
        assert built.dtype == dtype
        assert str(request(built).dtype) == f"torch.{dtype}"


def test_a_recommender_accesses_popular_rows_more_often():
    from cotenant.workloads.models.inputs import make_inputs

    entry = find("dlrm-mini").entry

    def share_of_top_row(skew):
        spec = WorkloadSpec(name="dlrm-mini", batch=512, params={"skew": skew})
        rows = make_inputs(entry, spec, dtype=torch.float32).ring[0]["categories"][2]  # a table of 65536 rows
        return rows.flatten().bincount().max().item() / rows.numel()

    assert share_of_top_row(0.0) < 0.02
    assert share_of_top_row(1.05) > 0.05


def test_a_recommender_accepts_table_sizes():
    properties = find("dlrm").properties(WorkloadSpec(name="dlrm", params={"rows": 1000}))
    assert properties.params == 26 * 1000 * 16 + 155_984 + 320_001


def test_facts_record_how_attention_is_computed():
    assert build("bert-base-mini").facts["attention"] == "sdpa"
    assert build("deberta-v3-base-mini").facts["attention"] == "eager"


def test_images_lie_pixel_by_pixel_where_the_tenant_says_so():
    plain, ordered = (build("resnet18-mini", batch=2, channels_last=last) for last in (False, True))
    images = next(tensor for tensor in ordered.stages[0].run(None).values() if tensor.dim() == 4)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(request(plain), request(ordered), rtol=1e-3, atol=1e-3)


def test_loading_is_refused_where_a_model_really_runs():
    with pytest.raises(WorkloadError, match="`loading` is simulated only"):
        build("resnet18-mini", loading_s=0.04)
