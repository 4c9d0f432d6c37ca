"""A pipe, a device, an endless or a linked file in place of each input file: one sentence, and no hanging."""

import os
import sys
from pathlib import Path

import pytest

from cotenant import opening, plain_yaml
from cotenant.cli.main import main
from cotenant.store.folder import RunFolder

sys.path.insert(0, str(Path(__file__).parents[1] / "store"))

from synthetic import trial


@pytest.fixture
def run(tmp_path):
    folder = RunFolder.create(tmp_path / "run", {})
    for number in range(2):
        folder.commit(trial(number))
    return folder


def a_pipe(path):
    os.mkfifo(path)


def a_device(path):
    path.symlink_to("/dev/zero")


def an_endless_file(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)


def a_folder(path):
    path.mkdir()


ODD = (a_pipe, a_device, an_endless_file, a_folder)


def one_sentence(capsys):
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    assert "should not have happened" not in said.err
    sentence, _, rest = said.err.partition("\n")
    assert sentence.startswith("error: ")
    assert not rest.strip() or rest.strip().startswith("hint: "), rest
    return sentence


@pytest.mark.timeout(30)
@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "words",
    [
        ("serve", "odd.yaml", "--dry-run"),
        ("plan", "odd.yaml"),
        ("plan", "good.yaml", "--devices", "odd.yaml"),
        ("compare", "odd.yaml", "run"),
        ("run", "odd.yaml", "--dry-run"),
        ("calibrate", "odd.yaml", "--device", "sim:t4"),
    ],
    ids=" ".join,
)
def test_a_users_file_that_is_something_else(tmp_path, monkeypatch, capsys, words, make):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text("tenants: {chat: {workload: gpt2, rate: 5/s, slo: {p99: 300ms}}}")
    make(tmp_path / "odd.yaml")
    assert main([*words]) == 1
    assert "odd.yaml" in one_sentence(capsys)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_a_manifest_that_is_something_else(run, capsys, make):
    (run.path / "manifest.json").unlink()
    make(run.path / "manifest.json")
    assert main(["show", str(run.path)]) == 1
    assert "manifest.json can't be read: it is " in one_sentence(capsys)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_a_table_that_is_something_else(run, capsys, make):
    file = run.trial_path(1) / "requests.parquet"
    file.unlink()
    make(file)
    assert main(["sql", "select count(*) from trials", str(run.path)]) == 2
    assert "left out: 000001 (requests.parquet: it " in capsys.readouterr().err


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "verb", [["run", "--dry-run", "FILE.yaml"], ["run", "quick", "--dry-run", "--device", "sim:FILE.yaml"]]
)
def test_a_file_of_the_user_that_is_something_else(tmp_path, capsys, monkeypatch, make, verb):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "FILE.yaml")
    assert main(verb) == 1
    one_sentence(capsys)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_a_file_to_add_to_a_database_that_is_something_else(tmp_path, capsys, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "smi.csv")
    assert main(["db", "add", "smi.csv", "--db", "db"]) == 1
    one_sentence(capsys)


def test_the_run_folder_itself_may_be_a_link(run, tmp_path, capsys):
    (tmp_path / "link").symlink_to(run.path)
    assert main(["sql", "select count(*) from trials", str(tmp_path / "link")]) == 0
    assert "2" in capsys.readouterr().out


def test_a_file_that_grows_while_it_is_read_is_bounded(tmp_path):
    file = tmp_path / "log"
    file.write_bytes(b"x" * 100)
    with pytest.raises(OSError, match="larger than 99 bytes"):
        opening.read_bytes(file, most=99)


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("[" * 10_000, "nested more than 20 levels deep"),
        ("a: &x [1]\nb: *x", "anchors"),
        ("a: !!python/object/apply:os.system [id]", "tags such as"),
        ("a: 1\na: 2", "'a' occurs twice"),
        ("? [1]\n: 2", "keys are text"),
        ("x: " + "9" * 30, "too long for a number"),
        ("a" * (plain_yaml.LARGEST + 1), "larger than"),
        ("a\x00b", "control character"),
        ("a: [1", "not valid YAML"),
    ],
)
def test_plain_yaml_refuses(text, how):
    with pytest.raises(plain_yaml.NotYaml, match=how):
        plain_yaml.load(text)


def test_plain_yaml_reads():
    assert plain_yaml.load("a: [1, 2.5, no, '3', ~, true]\nb: {c: 1:30}") == {
        "a": [1, 2.5, "no", "3", None, True],
        "b": {"c": "1:30"},
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 10_000, "nested more than 20 levels deep"),
        ("&a [*a]", "anchors (&) and aliases (*) are not used here"),
        ("jobs: !!python/name:os.system", 'jobs: tags such as "!!python/name:os.system" are not used here'),
    ],
)
def test_hostile_jobs_are_refused_with_their_lines(tmp_path, capsys, text, problem):
    (tmp_path / "jobs.yaml").write_text(text)
    (tmp_path / "db").mkdir()
    assert main(["plan", str(tmp_path / "jobs.yaml"), "--db", str(tmp_path / "db")]) == 1
    refused = capsys.readouterr()
    assert refused.out == ""
    assert refused.err.startswith("error: ")
    assert f"jobs.yaml:1: {problem}" in refused.err
    assert "Traceback" not in refused.err
