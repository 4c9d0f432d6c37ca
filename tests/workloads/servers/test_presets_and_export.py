"""Servers by name, and models exported for them."""

import json
import sys
from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant.errors import StudyError, WorkloadError
from cotenant.study.files import study_from
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.servers.spec import PRESETS, ServerSpec, can_import, find_program
from cotenant.workloads.yours import recognise


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_is_a_start_line_with_a_port(name):
    spec = ServerSpec.model_validate({"preset": name, "model": "a model", "args": "--flag 1", "warm": "20 requests"})
    arguments = spec.arguments(8123)
    assert any("8123" in word for word in arguments)
    assert "a model" in arguments or "{model}" not in PRESETS[name].start
    assert arguments[-2:] == ["--flag", "1"]
    assert (spec.ready, spec.warm) == (PRESETS[name].ready, 20)


def test_a_study_that_names_a_preset_is_recorded_with_its_start_line():
    study = study_from({"tenants": {"a": {"workload": "openai:", "server": {"preset": "vllm", "model": "m"}}}})
    assert study.tenants["a"].server.start == "vllm serve m --host 127.0.0.1 --port {port}"
    assert "vllm serve m" in study.to_yaml()


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ({"preset": "vlm", "model": "m"}, "there is no preset 'vlm'; expected one of vllm, sglang"),
        ({"preset": "vllm"}, "the preset vllm needs a model"),
        ({"preset": "vllm", "model": "m", "start": "x {port}"}, "give preset or start, not both"),
    ],
)
def test_a_wrong_preset_is_refused_in_one_sentence(server, sentence):
    with pytest.raises(StudyError) as refused:
        study_from({"tenants": {"a": {"workload": "openai:", "server": server}}})
    assert sentence in refused.value.problems[0]


def test_a_preset_is_looked_for_in_the_environment_of_its_own_program(tmp_path, monkeypatch):
    environment = tmp_path / "env"
    (environment / "bin").mkdir(parents=True)
    program = environment / "bin" / "transformers"
    program.write_text(f"#!{environment}/bin/python3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(environment / "bin"))
    assert not PRESETS["transformers"].installed  # it can't import fastapi
    (environment / "lib" / "python3.12" / "site-packages" / "fastapi").mkdir(parents=True)
    assert PRESETS["transformers"].installed


def test_programs_beside_the_interpreter_are_found_without_activating_its_environment(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_program(Path(sys.executable).name) == sys.executable
    assert can_import(sys.executable, "pytest")
    assert not can_import(sys.executable, "no_such_module")


@pytest.mark.parametrize(
    "tenant",
    [
        {"workload": "openai:"},
        {"workload": "v2:", "params": {"model": "m"}},
        {"workload": "http:/predict"},
    ],
)
def test_a_server_whose_program_is_missing_is_refused_before_anything_is_measured(tenant):
    spec = WorkloadSpec.model_validate(
        {
            "name": tenant["workload"],
            "params": tenant.get("params", {}),
            "server": {"start": "no-such-server {port}", "env": {"PATH": "/nowhere"}},
        }
    )
    workload = recognise(spec.name)
    workload.check_unexecuted(spec)  # it may be there where the study will run
    with pytest.raises(WorkloadError, match="there is no program `no-such-server` to start the server with"):
        workload.check(spec)


def test_the_list_of_servers_marks_those_never_run(capsys):
    assert main(["workloads", "servers", "--json"]) == 0
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert list(listed) == ["vllm", "sglang", "tei", "llama.cpp", "ollama", "triton", "transformers", "cotenant"]
    assert listed["sglang"]["tried"] is None
    assert main(["workloads", "servers"]) == 0
    assert "never run" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["gpt2-mini", "llama-3.2-1b-mini"])
def test_an_exported_model_is_loaded_and_every_token_it_makes_has_a_text(tmp_path, capsys, name):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path / "model"
    assert main(["workloads", "export", name, str(folder), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= set(written["files"])
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": "time year people"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    assert asked["input_ids"].shape == (1, 5)  # a word is a token
    made = model.generate(**asked, max_new_tokens=4, min_new_tokens=4, do_sample=False)[0, 5:]
    assert all(tokenizer.decode([token]).strip() for token in made.tolist())


def test_models_that_servers_cannot_load_are_not_exported(tmp_path, capsys):
    assert main(["workloads", "export", "resnet50", str(tmp_path / "x")]) == 1
    assert "resnet50 is not a language model" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert main(["workloads", "export", "gpt2-mini", str(tmp_path / "full")]) == 1
    assert "is not an empty folder" in capsys.readouterr().err


def test_a_model_is_exported_for_llama_cpp_too(tmp_path, capsys):
    from gguf import GGUFReader

    folder = tmp_path / "model"
    assert main(["workloads", "export", "llama-3.2-1b-mini", str(folder), "--gguf"]) == 0
    found = GGUFReader(folder / "model.gguf")
    shapes = {one.name: tuple(int(size) for size in one.shape) for one in found.tensors}
    config = json.loads((folder / "config.json").read_text())
    assert shapes["token_embd.weight"] == (config["hidden_size"], config["vocab_size"])
    assert len(shapes) == 2 + 9 * config["num_hidden_layers"]  # the output is tied to the embedding
    assert bytes(found.fields["tokenizer.ggml.tokens"].parts[-1]).decode() == f"\u2581w{config['vocab_size'] - 1}"
    capsys.readouterr()
    assert main(["workloads", "export", "gpt2-mini", str(tmp_path / "other"), "--gguf"]) == 1
    assert "only models of the Llama family are written as GGUF, not gpt2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ("2GB", "--kv-cache-memory-bytes 2000000000"),
        ("40%", "--gpu-memory-utilization 0.4"),
        ("--block-size 16", "--block-size 16"),
    ],
)
def test_a_share_of_memory_becomes_the_servers_arguments(given, arguments):
    spec = ServerSpec.model_validate({"preset": "vllm", "model": "m", "memory": given, "whole_memory": "90%"})
    assert spec.arguments(1)[-2:] == arguments.split()
    assert spec.with_whole_memory().arguments(1)[-2:] == ["--gpu-memory-utilization", "0.9"]
    with pytest.raises(ValueError, match="the memory of preset sglang can't be set to 2GB"):
        ServerSpec.model_validate({"preset": "sglang", "model": "m", "memory": "2GB"})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"memory": "lots"}, "memory is 'lots'; expected a size such as 2GB, a share such as 40%, or arguments"),
        ({"warm": "a few"}, "expected a number of requests such as 20 or `20 requests`, not 'a few'"),
    ],
)
def test_a_server_described_wrongly_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        ServerSpec.model_validate({"preset": "vllm", "model": "m", **wrong})
