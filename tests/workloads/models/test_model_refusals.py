"""What can't run is refused in one sentence, before anything is built."""

import json
import time

import pytest
import torch

from cotenant.errors import WorkloadError
from cotenant.workloads import find
from cotenant.workloads.protocol import WorkloadSpec
from tests.support import pace


class Cpu:
    torch_device = "cpu"
    default_dtype = "float32"


def refusal(name, **options):
    with pytest.raises(WorkloadError) as caught:
        find(name).check(WorkloadSpec(name=name, **options))
    assert "\n" not in caught.value.message
    return caught.value


@pytest.mark.parametrize(
    ("name", "options", "sentence", "hint"),
    [
        ("gpt2", {"seq": 1025}, "at most 1024 tokens", "1024 or less"),
        ("bert-base", {"seq": 513}, "at most 512 tokens", "512 or less"),
        ("gpt2", {"mode": "generate", "seq": 1000, "tokens": 100}, "1000 of context plus 100 new", "924"),
        ("gpt2", {"mode": "generat"}, "no mode 'generat'", "did you mean generate"),
        ("bert-base", {"mode": "decode"}, "no mode 'decode'", None),
        ("gpt2", {"tokens": 4}, "`tokens` is for mode generate", "mode: generate"),
        ("resnet50", {"seq": 8}, "takes no sequence", "leave `seq` out"),
        ("dlrm", {"train": True}, "no training step", "have one"),
        ("gpt2", {"train": True, "mode": "decode"}, "can't train in mode", "leave out"),
        ("gpt2", {"dtype": "int8"}, "int8", "bfloat16"),
        ("gpt2", {"params": {"lenghts": "sampled"}}, "no option 'lenghts'", "did you mean lengths"),
        ("gpt2", {"params": {"lengths": "random"}}, "fixed or sampled", None),
        ("gpt2", {"mode": "decode", "params": {"lengths": "sampled"}}, "one context length", "seq"),
        ("dlrm", {"params": {"rows": 0}}, "whole number from 1", "rows: 4"),
        ("dlrm", {"params": {"skew": "much"}}, "exponent of a Zipf law", "1.05"),
        ("gpt2", {"layers": "last 13"}, "12 blocks", "1 to 12"),
        ("gpt2", {"layers": "the best"}, "is invalid", "last 50%"),
        ("dlrm", {"layers": "last 2"}, "can't be sliced", "leave `layers` out"),
        ("gpt2", {"layers": "last 2", "mode": "decode"}, "a slice can't decode", "forward"),
        ("efficientnet-v2-s", {"weights": "/tmp"}, "takes no weights", "leave `weights` out"),
        ("gpt2", {"weights": "/no/such/folder"}, "no directory", "config.json"),
        ("gpt2", {"weights": "not a hub id!"}, "neither a directory nor a hub id", "owner/name"),
    ],
)
def test_refusals(name, options, sentence, hint):
    error = refusal(name, **options)
    assert sentence in error.message
    assert hint is None or hint in error.hint


def test_a_hub_id_without_a_network_is_refused_within_seconds(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    start = time.monotonic()
    error = refusal("gpt2", weights="somebody/not-cached-here")
    assert "hub.invalid can't be reached" in error.message
    assert time.monotonic() - start < pace.seconds(10)


@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_a_model_of_a_missing_library_names_the_install_command(library, monkeypatch):
    import builtins

    real = builtins.__import__
    monkeypatch.setitem(__import__("sys").modules, library, None)
    monkeypatch.setattr(builtins, "__import__", real)
    error = refusal(f"{library}:regnet_y_400mf")
    assert f"{library} can't be imported" in error.message
    assert "cotenant[vision]" in error.hint


@pytest.fixture
def folder(tmp_path):
    """A Hugging Face directory with the small BERT in it."""
    from transformers import BertConfig, BertModel, logging

    logging.disable_progress_bar()
    torch.manual_seed(0)
    BertModel(BertConfig(**find("bert-base-mini").entry.config)).save_pretrained(tmp_path)
    return tmp_path


def answer(name, **options):
    state = None
    for stage in find(name).build(WorkloadSpec(name=name, **options), Cpu()).stages:
        state = stage.run(state)
    return state


def test_weights_of_a_directory_are_used_and_recorded(folder):
    from transformers import BertModel

    from cotenant.workloads.models.inputs import make_inputs

    entry = find("bert-base-mini").entry
    batch = make_inputs(entry, WorkloadSpec(name=entry.name), dtype=torch.float32).ring[0]
    with torch.inference_mode():
        expected = BertModel.from_pretrained(folder).eval()(**batch).last_hidden_state.mean(1)
    assert torch.equal(answer("bert-base-mini", weights=str(folder)), expected)
    built = find("bert-base-mini").build(WorkloadSpec(name="bert-base-mini", weights=str(folder)), Cpu())
    assert built.weights == str(folder)


def test_a_directory_is_a_workload(folder):
    workload = find(str(folder))
    assert workload.family == "encoder"
    assert answer(str(folder), batch=2).shape == (2, 128)
    assert workload.properties(WorkloadSpec(name=str(folder))).params == 1_399_936
    assert answer(str(folder), layers="last 2").shape == (1, 128)


def test_a_configuration_alone_is_enough_for_random_weights_and_for_a_simulated_gpu(folder):
    (folder / "model.safetensors").unlink()
    built = find(str(folder)).build(WorkloadSpec(name=str(folder), seed=3), Cpu())
    assert built.weights == "random(3)"
    assert find(str(folder)).properties(WorkloadSpec(name=str(folder))).params == 1_399_936


def test_a_directory_with_pickled_weights_is_refused_as_a_workload_too(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"would run code")
    with pytest.raises(WorkloadError, match="can run code"):
        find(str(folder))


def test_weights_of_another_model_or_size_are_refused(folder):
    assert "hidden_size 128, but bert-large-mini has 160" in refusal("bert-large-mini", weights=str(folder)).message
    assert "of type 'bert'" in refusal("gpt2-mini", weights=str(folder)).message


def test_pickled_weights_are_never_read(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"would run code")
    error = refusal("bert-base-mini", weights=str(folder))
    assert "can run code" in error.message
    assert "safetensors" in error.hint


def test_an_incomplete_directory_names_the_missing_part(folder):
    (folder / "model.safetensors").unlink()
    assert "no safetensors" in refusal("bert-base-mini", weights=str(folder)).message
    (folder / "config.json").write_text("{")
    assert "can't be read" in refusal("bert-base-mini", weights=str(folder)).message
    (folder / "config.json").unlink()
    assert "no config.json" in refusal("bert-base-mini", weights=str(folder)).message


def test_broken_weights_are_one_sentence_at_build_time(folder):
    (folder / "model.safetensors").write_bytes(b"not safetensors at all")
    with pytest.raises(WorkloadError, match="can't use the weights"):
        answer("bert-base-mini", weights=str(folder))


def test_a_directory_whose_model_brings_its_own_code_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "my-own", "auto_map": {"AutoConfig": "config.MyConfig", "AutoModel": "model.MyModel"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(WorkloadError, match="does not know"):
        find(str(folder)).properties(WorkloadSpec(name=str(folder)))
