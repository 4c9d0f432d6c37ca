"""Results of the original study are read as written: per batch, per stage."""

import json

import pytest

from cotenant.cli.main import main
from cotenant.errors import DataError
from cotenant.store.imports import search_json

GOOD = {
    "git-hash": "",
    "args": "Namespace(model_name='resnet18', num_items=10240)",
    "measurements": {
        "resnet18": {
            "32": {"load_data": [0.4, 0.01], "data_to_device": [0.1, 0.1], "inference": [0.2, 0.1], "end_to_end": 0.85},
            "128": {"load_data": [0.8], "inference": [0.3], "calc_proxy_score": [0.1], "end_to_end": 1.2},
        },
        "vit_b_16": {"32": {"load_data": [0.4], "inference": [2.0]}},
    },
}


@pytest.fixture
def written(tmp_path):
    def write(document):
        file = tmp_path / "result.json"
        file.write_text(document if isinstance(document, str) else json.dumps(document))
        return file

    return write


def test_every_model_and_batch_size_has_its_stages(written):
    found = search_json.read(written(GOOD))
    assert [(cell.model, cell.batch, cell.batches) for cell in found.cells] == [
        ("resnet18", 32, 2),
        ("resnet18", 128, 1),
        ("vit_b_16", 32, 1),
    ]
    first = found.cells[0]
    assert first.stage_s == pytest.approx({"load_data": 0.41, "data_to_device": 0.2, "inference": 0.3})
    assert first.first_s["load_data"] == 0.4
    assert first.overlap_s == pytest.approx(0.06)
    assert (first.bottleneck, found.cells[2].overlap_s) == ("load_data", None)
    assert found.facts["args"].startswith("Namespace(")


def test_times_become_rows_of_the_table_of_stages(written):
    stages = search_json.read(written(GOOD)).stages
    assert len(stages["seq"]) == 11
    assert (stages["tenant"][1], stages["seq"][1], stages["stage"][1], stages["duration_ns"][1]) == (
        "resnet18 batch 32",
        1,
        "load_data",
        10_000_000,
    )
    assert "score" in set(stages["stage"])


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ("{half", "can't be read as JSON"),
        ("[]", "not a JSON object"),
        ({"rows": []}, "no key 'measurements'"),
        ({"measurements": {}}, "has no measurements"),
        ({"measurements": {"m": {"big": {"inference": [1]}}}}, "is not a batch size"),
        ({"measurements": {"m": {"32": {"inference": []}}}}, "a stage has no times"),
        ({"measurements": {"m": {"32": {"inference": [-1]}}}}, "not a number of seconds"),
        ('{"measurements": {"m": {"32": {"inference": [NaN]}}}}', "not a number of seconds"),
        ({"measurements": {"m": 3}}, "is not a batch size"),
    ],
)
def test_unusable_entries_are_reported(written, document, sentence):
    with pytest.raises(DataError, match=sentence):
        search_json.read(written(document))


def test_a_bad_cell_is_skipped_only_on_request(written):
    damaged = json.loads(json.dumps(GOOD))
    damaged["measurements"]["resnet18"]["32"]["inference"][0] = "fast"
    with pytest.raises(DataError, match="resnet18, batch 32"):
        search_json.read(written(damaged))
    found = search_json.read(written(damaged), skip_bad=True)
    assert (len(found.cells), found.skipped[0].count) == (2, 1)


def test_other_files_are_not_recognised(written):
    assert search_json.recognise(written(GOOD))
    assert not search_json.recognise(written({"runs": []}))
    assert not search_json.recognise(written("time,power\n1,2"))


def test_a_user_sees_where_the_time_went(written, capsys):
    file = written(GOOD)
    assert main(["show", str(file), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(cell["model"], cell["batch"], cell["bottleneck"]) for cell in shown["cells"]] == [
        ("resnet18", 32, "load_data"),
        ("resnet18", 128, "load_data"),
        ("vit_b_16", 32, "inference"),
    ]
    assert main(["show", str(file)]) == 0
    told = capsys.readouterr().out
    assert "result of the original model-search study" in " ".join(told.split())
    assert "vit_b_16" in told
    assert "which has no trials, intervals or verdicts" in " ".join(told.split())


def test_bad_entries_are_skipped_only_on_request(written, capsys):
    damaged = json.loads(json.dumps(GOOD))
    damaged["measurements"]["resnet18"]["32"]["inference"][0] = "fast"
    file = written(damaged)
    assert main(["show", str(file)]) == 1
    assert "--skip-bad" in capsys.readouterr().err
    assert main(["show", str(file), "--skip-bad"]) == 0
    assert "left out: " in capsys.readouterr().out


def test_the_database_states_the_limits_of_the_file(written, tmp_path, capsys):
    file = written(GOOD)
    assert main(["db", "add", str(file), "--db", str(tmp_path / "db")]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "is a result of the original model-search study" in told
    assert f"cotenant show {file}" in told
