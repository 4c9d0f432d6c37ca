"""Refusals by the system, damaged and foreign files: one sentence and exit code 1, whatever the verb."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant.store.folder import RunFolder

sys.path.insert(0, str(Path(__file__).parents[1] / "store"))

from synthetic import trial, unsealed

SMI = """timestamp, name, uuid, temperature.gpu, power.draw [W], clocks.current.sm [MHz]
2024/01/01 10:00:00.000, NVIDIA A100, GPU-1, 40, 100.0 W, 1410 MHz
2024/01/01 10:00:01.000, NVIDIA A100, GPU-1, 41, 120.0 W, 1410 MHz
"""


@pytest.fixture
def run(tmp_path):
    folder = RunFolder.create(tmp_path / "run", {"study": "name: s\ntenants: {a: {workload: sleep}}\n"})
    for number in range(3):
        folder.commit(trial(number))
    return folder


@pytest.fixture
def database(tmp_path, run, capsys):
    (tmp_path / "smi.csv").write_text(SMI)
    assert main(["db", "add", str(tmp_path / "smi.csv"), str(run.path), "--db", str(tmp_path / "db")]) == 0
    capsys.readouterr()
    return tmp_path / "db"


def one_sentence(code, out, err):
    assert code == 1, err
    assert out == ""
    assert "should not have happened" not in err
    lines = [line for line in err.splitlines() if line and not line.startswith("warning: ")]
    assert lines[0].startswith("error: "), err
    assert all(line.startswith("hint: ") for line in lines[1:]), err
    return lines[0]


def told(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return one_sentence(code, said.out, said.err)


def in_a_shell(line):
    """A command line under limits a test can't set for itself."""
    command = f"exec {sys.executable} -m cotenant.cli.main"
    done = subprocess.run(
        ["bash", "-c", line.replace("cotenant", command, 1)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_a_plan_on_readings_alone(tmp_path, capsys):
    (tmp_path / "smi.csv").write_text(SMI)
    (tmp_path / "jobs.yaml").write_text("tenants: {t: {job: {like: bert, gpus: 1, time: 2h}}}")
    assert main(["db", "add", str(tmp_path / "smi.csv"), "--db", str(tmp_path / "db")]) == 0
    capsys.readouterr()
    assert "no measured work" in told(capsys, "plan", tmp_path / "jobs.yaml", "--db", tmp_path / "db")


@pytest.mark.parametrize("study", ["[[[: {", "- 1\n- 2\n", 7, "\x00", "[" * 5000])
def test_a_run_whose_study_is_not_yaml_can_still_be_shown(tmp_path, capsys, study):
    run = RunFolder.create(tmp_path / "run", {"study": study})
    run.commit(trial(0))
    assert main(["show", str(run.path)]) == 0
    assert "should not have happened" not in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["show"], ["export", "tenants"], ["explain"]])
def test_a_parquet_file_of_another_table(run, capsys, verb):
    older = unsealed(run)
    tables = older.trial_path(0), older.trial_path(1)
    (tables[1] / "tenants.parquet").write_bytes((tables[0] / "requests.parquet").read_bytes())
    assert "000001/tenants.parquet is damaged: its columns are not those of tenants" in told(capsys, *verb, run.path)


@pytest.mark.parametrize("verb", ["gpus", "anomalies", "sensors", "contents"])
def test_a_damaged_file_of_the_database(database, capsys, verb):
    [file] = (database / "measurements").iterdir()
    content = bytearray(file.read_bytes())
    content[30:38] = b"garbage!"
    file.write_bytes(content)
    arguments = ["db", verb, "--db", database] if verb != "contents" else ["db", "--db", database]
    assert "is damaged: its content has changed" in told(capsys, *arguments)


def test_a_damaged_index_of_the_database(database, capsys):
    file = database / "index.json"
    file.write_text(file.read_text().replace('"readings": 6', '"readings": 7'))
    assert "index.json is damaged: its content has changed" in told(capsys, "db", "gpus", "--db", database)


@pytest.mark.parametrize("content", ["[]", "{", '{"version": 1, "sources": [3]}', "[" * 100_000])
def test_an_index_that_is_something_else(database, capsys, content):
    (database / "index.json").write_text(content)
    assert "is damaged" in told(capsys, "db", "gpus", "--db", database)


@pytest.mark.parametrize("entry", [{"sensors": "many"}, {"sessions": 5}, {"device_description": []}, {"trials": "all"}])
@pytest.mark.parametrize("verb", [["show"], ["report"], ["db", "add"]])
def test_manifest_entries_of_the_wrong_kind(tmp_path, capsys, monkeypatch, entry, verb):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text(json.dumps({"schema_version": 1, "run": "a", **entry}))
    assert f"is corrupt: {next(iter(entry))!r} is not a" in told(capsys, *verb, tmp_path / "run")


@pytest.mark.parametrize("kilobytes", [100_000, 300_000, 800_000])
def test_too_little_address_space(run, kilobytes):
    sentence = one_sentence(*in_a_shell(f"ulimit -v {kilobytes}; cotenant show {run.path}"))
    assert "the limit of virtual memory (ulimit -v)" in sentence


def test_files_that_may_not_grow(run, tmp_path):
    sentence = one_sentence(*in_a_shell(f"ulimit -f 1; cotenant db add {run.path} --db {tmp_path / 'db2'}"))
    assert "can't be written: file too large; it is unchanged" in sentence
    assert not any(file.suffix == ".parquet" for file in (tmp_path / "db2").rglob("*"))


def test_a_closed_standard_output(run):
    assert one_sentence(*in_a_shell(f"cotenant show {run.path} >&-")) == "error: the standard output is closed."


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output(run, unbuffered, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    assert "the disk is full" in one_sentence(*in_a_shell(f"cotenant show {run.path} >/dev/full"))


def test_a_closed_standard_error_is_not_a_failure(run):
    code, out, _ = in_a_shell(f"cotenant show {run.path} 2>&-")
    assert code == 0
    assert "bert-mini" in out


@pytest.mark.parametrize(
    "line",
    [
        "show /dev/null/x", "verify /dev/null/x --json", "run quick --out /dev/null/x", "report RUN --out /dev/null/x",
        "db add RUN --db /dev/null/x", "db gpus --db /dev/null/x", "export trials RUN --to /dev/null/x.csv",
        "view /dev/null/x", "run /dev/null/x", "compare RUN /dev/null/x", "plan /dev/null/x", "explain /dev/null/x",
    ],
)  # fmt: skip
def test_a_path_below_a_file(run, capsys, line):
    code = main([word.replace("RUN", str(run.path)) for word in line.split()])
    said = capsys.readouterr()
    assert code == 1
    assert "should not have happened" not in said.out + said.err


def test_no_further_file_can_be_opened(run, tmp_path):
    code, _, err = in_a_shell(f"ulimit -n 12; cotenant show {run.path}")
    assert code in {0, 1}
    assert "Traceback" not in err
