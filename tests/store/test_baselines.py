"""Names of baselines: saved, found again, and refused in a sentence."""

import json
import re

import pytest

from cotenant.errors import RunFolderError
from cotenant.store import baselines
from cotenant.store.folder import RunFolder


@pytest.fixture
def run(tmp_path):
    return RunFolder.create(tmp_path / "runs" / "first", {"run": "r1"}).path


@pytest.fixture
def home(tmp_path):
    return tmp_path / "runs" / ".baselines"


def refused(named, home, words):
    with pytest.raises(RunFolderError, match=re.escape(words)) as caught:
        baselines.resolve(named, home)
    return caught.value.hint


def test_a_saved_run_is_found_by_its_name_and_by_its_folder(run, home):
    file = baselines.save(run, "main", home)
    assert json.loads(file.read_text()) == {"run": "r1", "folder": "../first"}
    assert baselines.resolve("main", home) == run
    assert baselines.resolve(str(run), home) == run
    assert baselines.names(home) == ["main"]
    assert [each.name for each in home.iterdir()] == ["main.json"], "no draft is left"


def test_a_later_save_replaces_and_the_names_are_sorted(tmp_path, run, home):
    other = RunFolder.create(tmp_path / "runs" / "second", {"run": "r2"}).path
    for path, name in ((run, "b"), (run, "a"), (other, "b")):
        baselines.save(path, name, home)
    (home / ".draft.json").touch()
    assert baselines.names(home) == ["a", "b"]
    assert baselines.resolve("b", home) == other


@pytest.mark.parametrize("name", ["a", "A.b_c-d", "0", "x" * 64])
def test_a_good_name(run, home, name):
    assert baselines.save(run, name, home).name == f"{name}.json"


@pytest.mark.parametrize("name", ["", ".a", "-a", "_a", "a/b", "../a", "a b", "é", "x" * 65, "a\n", "a\0"])
def test_a_bad_name_is_neither_saved_nor_looked_up(run, home, name):
    with pytest.raises(RunFolderError, match="not a valid baseline name"):
        baselines.save(run, name, home)
    assert not home.exists()
    if "\0" not in name and name:
        refused(name, home, "no run folder and no baseline")


def test_a_name_outside_the_home_is_not_a_baseline(tmp_path, run, home):
    baselines.save(run, "main", home)
    (tmp_path / "runs" / "outside.json").write_text((home / "main.json").read_text())
    refused("../outside", home, "no run folder and no baseline '../outside'")


def test_an_unknown_name_is_told_what_there_is(run, home):
    assert "cotenant compare RUN --save NAME" in refused("x", home, "no run folder and no baseline 'x'")
    baselines.save(run, "main", home)
    assert refused("zzzzzz", home, "no baseline 'zzzzzz'") == "Baselines here: main."
    assert "main" in refused("mian", home, "no baseline 'mian'")
    assert "Baselines here" not in refused("mian", home, "no baseline 'mian'")


def test_a_folder_that_is_no_run_says_why(tmp_path, home):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFolderError) as caught:
        baselines.resolve(str(tmp_path / "empty"), home)
    assert "no baseline" not in caught.value.message


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"run": "r1"}', "5"])
def test_a_damaged_baseline_is_told(run, home, text):
    baselines.save(run, "main", home).write_text(text)
    assert "--save main" in refused("main", home, "main.json is damaged")


def test_a_baseline_whose_run_is_gone_or_another_is_refused(run, home):
    baselines.save(run, "main", home)
    run.rename(run.with_name("moved"))
    refused("main", home, "refers to run r1, which is no longer at")
    RunFolder.create(run, {"run": "r2"})
    refused("main", home, "refers to run r1, which is no longer at")


def test_a_home_that_can_not_be_written(run, home):
    home.write_text("a file")
    with pytest.raises(RunFolderError, match="The baseline main can't be written to"):
        baselines.save(run, "main", home)
