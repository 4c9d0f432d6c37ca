"""`verify` and the warnings of every other verb: damage is reported, and the exit code shows it."""

import json
import sys
from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant.store.folder import RunFolder

sys.path.insert(0, str(Path(__file__).parents[1] / "store"))

from synthetic import trial, unsealed


@pytest.fixture
def run(tmp_path):
    folder = RunFolder.create(tmp_path / "run", {})
    for number in range(3):
        folder.commit(trial(number))
    return folder


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_an_intact_run(run, capsys):
    assert main(["verify", str(run.path)]) == 0
    assert capsys.readouterr().out == f"{run.path}: whole, 3 trials\n"


def test_a_flipped_bit_is_named_and_the_exit_code_is_1(run, capsys):
    flip(run.trial_path(1) / "requests.parquet")
    assert main(["verify", str(run.path)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        f"{run.path}: damaged, 3 trials",
        "  trial 1: requests.parquet: its content has changed since it was written",
    ]


def test_rows_of_another_trial_under_a_valid_seal_are_found(run, capsys):
    """A swapped table with a new seal: the rows still name their trial."""
    from cotenant.store import seals

    (run.trial_path(1) / "requests.parquet").write_bytes((run.trial_path(2) / "requests.parquet").read_bytes())
    seals.write(run.trial_path(1), run=run.run, name="000001", rows={1: {"trials": 1, "tenants": 2, "requests": 8}})
    assert main(["verify", str(run.path)]) == 1
    assert "trial 1: requests.parquet: its rows are not those of the trial" in capsys.readouterr().out


def test_an_unsealed_run_is_undecided(run, capsys):
    assert main(["verify", "--json", str(unsealed(run).path)]) == 2
    [found] = json.loads(capsys.readouterr().out)
    assert (found["state"], found["unsealed"], found["damaged"]) == ("unsealed", 3, [])


def test_one_damaged_run_does_not_hide_the_others(run, tmp_path, capsys):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{")
    assert main(["verify", "--json", str(tmp_path / "broken"), str(run.path)]) == 1
    assert [one["state"] for one in json.loads(capsys.readouterr().out)] == ["damaged", "whole"]


@pytest.mark.parametrize("verb", [["show"], ["sql", "select count(*) from trials"], ["export", "trials"]])
def test_an_answer_without_the_damaged_trials_warns_and_exits_with_2(run, capsys, verb):
    flip(run.trial_path(1) / "requests.parquet")
    assert main([*verb, str(run.path)]) == 2
    assert capsys.readouterr().err == (
        f"warning: 1 of 3 trials of {run.path} are damaged and left out: "
        "000001 (requests.parquet: its content has changed since it was written).\n"
    )


def test_the_answer_of_an_unsealed_run_stands(run, capsys):
    assert main(["sql", "select count(*) from trials", str(unsealed(run).path)]) == 0
    assert capsys.readouterr().err.startswith("warning: ")


def test_a_digest_to_keep_elsewhere_notices_what_a_new_seal_hides(run, capsys):
    from cotenant.store import seals

    def digest():
        assert main(["verify", "--digest", str(run.path)]) == 0
        value, _, path = capsys.readouterr().out.strip().partition("  ")
        assert (len(value), path) == (64, str(run.path))
        return value

    before = digest()
    assert digest() == before
    stolen = run.trial_path(1)
    (stolen / "requests.parquet").write_bytes((run.trial_path(1) / "requests.parquet").read_bytes() + b"")
    assert digest() == before, "the same bytes again are the same run"
    seals.write(stolen, run=run.run, name="000001", rows={1: {"trials": 1, "tenants": 2, "requests": 9}})
    assert digest() != before


def test_the_help_says_what_a_seal_is_not(capsys):
    assert main(["verify", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "it is not a signature" in said
    assert "--digest" in said


def test_a_digest_of_what_is_not_a_run_is_refused(tmp_path, capsys):
    assert main(["verify", "--digest", str(tmp_path)]) == 1
    assert "is not a run folder" in capsys.readouterr().err
