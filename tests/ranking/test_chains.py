"""A chain's output is bit for bit the full model's, piece by piece."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from cotenant.ranking.candidates import Candidate, resolve
from cotenant.ranking.chain import Chain, pooled
from cotenant.ranking.reading import read
from cotenant.workloads import find
from cotenant.workloads.models.building import stand
from cotenant.workloads.models.entry import block_count
from cotenant.workloads.models.weights import load
from cotenant.workloads.protocol import WorkloadSpec

MODELS = [
    "bert-base-mini",
    "roberta-base-mini",
    "distilbert-mini",
    "deberta-v3-base-mini",
    "gpt2-mini",
    "llama-3.2-1b-mini",
    "resnet18-mini",
    "resnet50-mini",
    "mobilenet-v2-mini",
    "efficientnet-b0-mini",
    "efficientnet-v2-s-mini",
    "vit-b-16-mini",
]


def inputs_of(entry, inputs):
    batch = dict(inputs.ring[0])
    if entry.family != "vision":
        batch["attention_mask"] = torch.ones_like(batch["input_ids"])
        batch["attention_mask"][1, 20:] = 0
    return batch


def whole_model(model, entry, batch):
    """Inputs of the blocks, and the features, from an ordinary forward call with hooks."""
    seen, heads = {}, []
    options = {"use_cache": False} if entry.family == "decoder" else {}
    handles = [
        module.register_forward_hook(
            lambda _, args, out, name=name: seen.__setitem__(name, out[0] if isinstance(out, tuple) else out)
        )
        for name, module in model.named_modules()
    ]
    linear = [module for module in model.modules() if isinstance(module, torch.nn.Linear)][-1]
    handles.append(linear.register_forward_pre_hook(lambda _, args: heads.append(args[0])))
    with torch.inference_mode():
        out = model(**batch, **options)
    for handle in handles:
        handle.remove()
    features = heads[-1] if "logits" in dir(out) else out.last_hidden_state
    return seen, pooled(features, batch.get("attention_mask"))


@pytest.mark.parametrize("name", MODELS)
def test_every_block_and_the_features_match_the_full_model(name):
    entry = find(name).entry
    model, inputs = stand(entry, WorkloadSpec(name=name, batch=3, seed=5), device="cpu", dtype=torch.float32)
    batch = inputs_of(entry, inputs)
    seen, expected = whole_model(model, entry, batch)

    chain = Chain(entry)
    assert chain.blocks == block_count(entry)
    found = read(Candidate(name, entry, None, seed=5), chain)
    weights = [found.pieces[digest] for digest in found.digests]
    with torch.inference_mode():
        state = chain.front(weights[0], batch)
        for number in range(chain.blocks):
            state = chain.block(number, weights[number + 1], state)
            assert torch.equal(state.hidden, seen[chain.survey.blocks[number]])
        features = chain.tail({**weights[0], **weights[-1]}, state)
    assert torch.equal(features, expected)
    assert features.shape[0] == 3


def test_weights_from_a_directory_match_the_library(siblings):
    folder = siblings("resnet18-mini", 2, changed=1)[1]
    (candidate,) = resolve([str(folder)])
    chain = Chain(candidate.entry)
    found = read(candidate, chain)
    weights = [found.pieces[digest] for digest in found.digests]
    batch = {"pixel_values": torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(1))}
    model = load(candidate.entry, chain.mode, str(folder), dtype=torch.float32, seed=0)
    _, expected = whole_model(model, candidate.entry, batch)
    with torch.inference_mode():
        state = chain.front(weights[0], batch)
        for number in range(chain.blocks):
            state = chain.block(number, weights[number + 1], state)
        assert torch.equal(chain.tail({**weights[0], **weights[-1]}, state), expected)


def test_siblings_share_the_digests_of_their_trunk_and_nothing_else(siblings):
    candidates = resolve([str(siblings("bert-base-mini", 3, changed=1)[0].parent)])
    chain = Chain(candidates[0].entry)
    digests = [read(candidate, chain).digests for candidate in candidates]
    front_and_trunk = 1 + chain.blocks - 1
    for position in range(front_and_trunk):
        assert len({one[position] for one in digests}) == 1
    assert len({one[front_and_trunk] for one in digests}) == 3


def test_a_single_changed_number_changes_only_the_digest_of_its_piece(siblings):
    one, other = siblings("vit-b-16-mini", 2, changed=1)
    weights = load_file(one / "model.safetensors")
    name = next(name for name in weights if ".1." in name and name.endswith("weight"))
    weights[name].view(-1)[7] += 1e-6
    save_file(weights, other / "model.safetensors")
    first, second = resolve([str(one), str(other)])
    chain = Chain(first.entry)
    pairs = zip(read(first, chain).digests, read(second, chain).digests, strict=True)
    assert [mine == theirs for mine, theirs in pairs] == [True, True, False, True, True, True]


def test_the_logits_of_the_head_can_replace_features():
    entry = find("vit-b-16-mini").entry
    chain = Chain(entry, logits=True)
    model, inputs = stand(entry, WorkloadSpec(name=entry.name, batch=2), device="cpu", dtype=torch.float32)
    found = read(Candidate("vit", entry, None), chain)
    weights = [found.pieces[digest] for digest in found.digests]
    with torch.inference_mode():
        state = chain.front(weights[0], inputs.ring[0])
        for number in range(chain.blocks):
            state = chain.block(number, weights[number + 1], state)
        logits = chain.tail({**weights[0], **weights[-1]}, state)
        assert torch.equal(logits, model(**inputs.ring[0]).logits)
