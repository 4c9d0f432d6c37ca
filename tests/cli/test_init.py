"""`init`: a few words become a file that every verb reads; nothing is overwritten, nothing is guessed in silence."""

import re

import pytest
import yaml

from cotenant.api.init import init
from cotenant.cli.main import main
from cotenant.errors import BadInput, CotenantError, WorkloadError
from cotenant.study.first_file import ModelWords, read_words


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("bert-base", ModelWords("bert-base")),
        ("bert-base, 100/s, p99 30ms", ModelWords("bert-base", "100/s", (("p99", "30ms"),))),
        ("bert-base, 30 ms", ModelWords("bert-base", objectives=(("p99", "30ms"),))),
        (
            "gpt2, ttft p95 500ms, tpot 60ms, 512 to 128 tokens",
            ModelWords("gpt2", objectives=(("ttft p95", "500ms"), ("tpot p99", "60ms")), seq=512, tokens=128),
        ),
        ("resnet50, batch 4, 2.5/s", ModelWords("resnet50", "2.5/s", batch=4)),
    ],
)
def test_words_may_come_in_any_order(words, meant):
    assert read_words(words) == meant


def test_the_file_has_what_was_said_and_the_software_people_use(tmp_path):
    models = ["bert-base, 100/s, p99 30ms", "llama-3.2-1b, 1/s, 256 to 64 tokens", "bert-base, batch 8"]
    file, commands = init(models, path=tmp_path / "my file.yaml")
    written = yaml.safe_load(file.read_text())
    assert (written["device"], written["sharing"], written["budget"]) == (
        "sim:a100-sxm4-40gb",
        ["processes", "mps"],
        "10min",
    )
    tenants = written["tenants"]
    assert list(tenants) == ["bert-base", "llama-3.2-1b", "bert-base-2"]
    assert tenants["bert-base"] == {
        "workload": "bert-base",
        "software": "onnxruntime",
        "rate": "100/s",
        "slo": {"p99": "30ms"},
    }
    llama = tenants["llama-3.2-1b"]
    assert (llama["software"], llama["mode"], llama["seq"], llama["tokens"]) == ("vllm", "generate", 256, 64)
    assert set(llama["slo"]) == {"ttft p95", "tpot p95"}
    assert len(re.findall(r"\} +# a guess", file.read_text())) == 2, "objectives that were not given are marked"
    assert all("'" in command for command in commands), "a path with a space is quoted"


@pytest.mark.parametrize(
    ("models", "sentence"),
    [
        ([], "No model"),
        (["bert-base, soon"], "'soon' of bert-base"),
        ([", 3/s"], "names no model"),
        (["bert-base, 0/s"], "tenants.bert-base.rate"),
    ],
)
def test_words_that_say_nothing_write_nothing(tmp_path, models, sentence):
    with pytest.raises(CotenantError, match=sentence):
        init(models, path=tmp_path / "a.yaml")
    assert not list(tmp_path.iterdir())


def test_a_single_model_is_measured_alone(tmp_path, capsys):
    file, (run, *_) = init(["yolos-small, 10/s, p99 100ms"], path=tmp_path / "detector.yaml")
    assert yaml.safe_load(file.read_text())["mixes"] == ["solo"]
    assert main([*run.split()[1:], "--dry-run"]) == 0
    assert "yolos-small" in capsys.readouterr().out


def test_servers_that_run_are_measured_where_they_are_under_a_load(tmp_path, capsys):
    models = ["openai:http://127.0.0.1:1234, 5/s, 64 to 8 tokens", "http://127.0.0.1:1235/predict, p99 20ms"]
    file, commands = init(models, path=tmp_path / "servers.yaml")
    written = yaml.safe_load(file.read_text())
    assert written["device"] == "cpu"
    chat, other = written["tenants"].values()
    assert list(written["tenants"]) == ["server-1234", "server-1235"]
    assert (chat["seq"], chat["tokens"], set(chat["slo"])) == (64, 8, {"ttft p95", "tpot p95"})
    assert other["slo"] == {"p99": "20ms"}
    assert {command.split()[1] for command in commands} == {"run"}, "servers are neither planned for nor served"
    assert main(commands[0].split()[1:]) == 0
    assert "server-1234" in capsys.readouterr().out
    elsewhere, _ = init(models, device="cpu:1", path=tmp_path / "elsewhere.yaml")
    assert yaml.safe_load(elsewhere.read_text())["device"] == "cpu:1"


def test_an_unknown_model_gets_a_suggestion(tmp_path):
    with pytest.raises(WorkloadError) as refused:
        init(["bert-bse"], path=tmp_path / "a.yaml")
    assert "bert-base" in refused.value.hint


def test_a_file_is_never_overwritten(tmp_path):
    (tmp_path / "a.yaml").write_text("mine")
    with pytest.raises(BadInput, match="exists"):
        init(["bert-base"], path=tmp_path / "a.yaml")
    assert (tmp_path / "a.yaml").read_text() == "mine"


def test_the_commands_it_prints_work(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--model", "bert-base, 20/s, p99 100ms", "--model", "resnet50, 5/s, p99 100ms"]) == 0
    commands = capsys.readouterr().out.splitlines()
    assert [command.split()[1] for command in commands] == ["run", "plan", "serve"]
    assert main([*commands[0].split()[1:], "--dry-run"]) == 0
    assert main(commands[1].split()[1:]) == 0
    assert main(commands[2].split()[1:]) == 0


def test_without_words_the_program_says_where_to_begin(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    assert [line[:15].strip() for line in text.splitlines() if line.startswith("I ")] == [
        "I have models",
        "I have servers",
        "I have a fleet",
        "I write a paper",
    ]
    assert max(map(len, text.splitlines())) <= 80
