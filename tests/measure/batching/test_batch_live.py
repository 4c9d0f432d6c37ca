"""On this machine: prediction and verified maximum agree, and the command line shows both."""

import json

import pytest

from cotenant.api.batch import batch
from cotenant.cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_under_a_memory_limit_prediction_and_verified_maximum_agree_within_5_percent():
    [answer] = batch(["vit-b-16-mini"], device="cpu:0", memory_bytes=64 << 20, dtype="float32")
    assert answer.verified is not None
    assert answer.verified.largest == pytest.approx(answer.predicted.batch, rel=0.05)
    assert answer.verified.reason.startswith("out of memory")
    assert answer.safe < answer.largest


def test_a_simulated_card_only_predicts():
    [answer] = batch(["resnet50"], device="sim:rtx-a5000", dtype="float32")
    assert answer.verified is None
    assert answer.to_json()["estimated"] is True
    assert answer.to_json()["power_of_two"] == 1024


def test_the_size_of_a_batch_is_measured_like_any_study_and_leads_to_advice(tmp_path):
    [answer] = batch(
        ["resnet18"], device="sim:t4", impact=True, window_s=0.5, out=tmp_path, memory_bytes=2 * 10**9, dtype="float32"
    )
    sizes = [one.batch for one in answer.impacts]
    assert sizes == sorted(sizes)
    assert len(sizes) > 3
    items = answer.impacts[0].items_per_s
    assert items.lo < 0.95 * items.est < 1.05 * items.est < items.hi, "a simulated interval contains the model's error"
    assert answer.impacts[-1].items_per_s.est > answer.impacts[0].items_per_s.est
    assert answer.impacts[-1].latency_ms > answer.impacts[0].latency_ms
    assert sum(answer.impacts[0].stages_ms.values()) == pytest.approx(answer.impacts[0].latency_ms, rel=0.05)
    assert answer.advice.batch in sizes
    assert answer.run.is_dir()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["resnet5O"], "resnet5O"),
        (["resnet50", "--memory", "lots"], "is not a size of memory"),
        (["resnet50", "--latency", "50"], "add --impact"),
        (["resnet50", "--device", "sim:a5oo0"], "a5oo0"),
        (["bert-base-mini", "--image", "224"], "image"),
        (["resnet50", "--dtype", "float7"], "dtype can't be 'float7'"),
        ([""], "name can't be ''"),
    ],
)
def test_bad_input_gets_an_error_message(arguments, sentence, capsys):
    assert main(["batch", *arguments]) in (1, 2)
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said


def test_json_has_what_the_table_has(capsys):
    assert main(["batch", "resnet50", "--device", "sim:rtx-a5000", "--dtype", "float32", "--json"]) == 0
    [answer] = json.loads(capsys.readouterr().out)
    assert answer["power_of_two"] == 1024
    assert answer["predicted"]["limit"] == "memory"
