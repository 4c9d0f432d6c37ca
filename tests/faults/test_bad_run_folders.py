"""A folder that isn't a run, a broken one, or one from the future: each verb reports it in one sentence."""

import json

import numpy as np
import pytest

from cotenant.cli.main import main
from cotenant.store.folder import RunFolder
from cotenant.tenancy.records import TrialRecords

VERBS = {
    "show": ["show"],
    "show --json": ["show", "--json"],
    "sql": ["sql", "select 1"],
    "export": ["export", "trials"],
    "run --resume": ["run", "-q", "--resume"],
}
STUDY = "name: s\ntenants: {a: {workload: sleep}}\nmixes: [solo]\n"


def missing(path):
    pass


def foreign(path):
    path.mkdir()
    (path / "holiday.jpg").write_bytes(b"\xff\xd8")


def a_file(path):
    path.write_text("a run?")


def someone_elses_manifest(path):
    path.mkdir()
    (path / "manifest.json").write_text('{"name": "a web app", "icons": []}')


def cut_off(path):
    manifest = RunFolder.create(path, {"study": STUDY}).path / "manifest.json"
    manifest.write_text(manifest.read_text()[:40])


def binary(path):
    path.mkdir()
    (path / "manifest.json").write_bytes(b"\xff\xfe\x00PAR1")


def newer(path):
    manifest = RunFolder.create(path, {"study": STUDY}).path / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"schema_version": 99}))


def without_identity(path):
    path.mkdir()
    (path / "manifest.json").write_text('{"schema_version": 1}')


FOLDERS = {
    missing: "There is no run folder at",
    foreign: "is not a run folder: it has no manifest.json",
    a_file: "is a file, not a run folder",
    someone_elses_manifest: "was not written by cotenant",
    cut_off: "manifest.json is corrupt",
    binary: "manifest.json is corrupt: it is not text",
    newer: "was written by a newer cotenant (schema 99, this one reads up to 1)",
    without_identity: "is corrupt: the run's identity is missing",
}


def told(capsys, *arguments):
    """What the user sees: exit code 1, nothing on stdout, one sentence and perhaps a hint."""
    assert main([str(argument) for argument in arguments]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    assert "should not have happened" not in said.err
    sentence, _, rest = said.err.partition("\n")
    assert sentence.startswith("error: ")
    assert rest.strip() == "" or rest.strip().startswith("hint: "), rest
    return sentence


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("make", FOLDERS, ids=lambda make: make.__name__.replace("_", " "))
def test_every_verb_reports_the_problem_with_the_folder(tmp_path, capsys, make, verb):
    make(tmp_path / "run")
    assert FOLDERS[make] in told(capsys, *VERBS[verb], tmp_path / "run")


@pytest.mark.parametrize(
    "study",
    [
        None,
        3,
        "",
        "{]",
        "tenants: 3",
        "tenants: {a: {workload: no-such-thing}}",
        "tenants: {a: {workload: sleep}}\nx: 1",
    ],
)
def test_a_run_whose_study_cannot_be_read_cannot_be_resumed(tmp_path, capsys, study):
    RunFolder.create(tmp_path / "run", {"study": study})
    assert main(["run", "--resume", str(tmp_path / "run"), "-q"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert "Traceback" not in said.err
    assert "should not have happened" not in said.err


@pytest.mark.parametrize("entry", [{"sessions": 5}, {"modes": "all"}, {"capacity_rps": [1]}])
def test_a_manifest_with_entries_of_the_wrong_kind_cannot_be_resumed(tmp_path, capsys, entry):
    (tmp_path / "run").mkdir()
    manifest = {"schema_version": 1, "run": "a", "study": STUDY, **entry}
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    assert f"is corrupt: {next(iter(entry))!r} is not a " in told(capsys, "run", "--resume", tmp_path / "run")


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "run --resume"])  # which measures it again
@pytest.mark.parametrize("table", ["trials", "requests"])
def test_every_verb_names_the_damaged_file(tmp_path, capsys, table, verb):
    run = RunFolder.create(tmp_path / "run", {"study": STUDY})
    run.commit(trial())
    file = run.trial_path(0) / f"{table}.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    arguments = ["sql", f"select * from {table}"] if verb == "sql" else VERBS[verb]
    arguments = ["export", table] if verb == "export" else arguments
    assert f"{file} is damaged: " in told(capsys, *arguments, tmp_path / "run")


def trial():
    now = np.arange(20, dtype=np.int64) * 1_000_000
    name = {"trial": 0, "tenant": "a", "of": "a", "workload": "sleep", "batch": 1, "load": "closed(1)"}
    return TrialRecords(
        trial={
            "trial": 0,
            "block": 0,
            "order": 0,
            "session": 0,
            "mix": "a",
            "solo": True,
            "device": "cpu",
            "simulated": False,
            "sharing": "alone",
            "settings": "{}",
            "load": "closed(1)",
            "window_s": 0.02,
            "verdict": "valid",
            "failed_checks": [],
            "reasons": [],
        },
        tenants=(name,),
        requests={
            "tenant": np.full(20, "a"),
            "seq": np.arange(20, dtype=np.int64),
            "intended_ns": now,
            "started_ns": now,
            "done_ns": now + 900_000,
            "in_window": np.ones(20, bool),
            "ok": np.ones(20, bool),
        },
    )


def test_a_run_without_a_trial_is_shown_as_such(tmp_path, capsys):
    RunFolder.create(tmp_path / "run", {"study": STUDY})
    code = main(["show", str(tmp_path / "run")])
    said = capsys.readouterr()
    assert code in {0, 1}
    assert "Traceback" not in said.err
    assert "should not have happened" not in said.err
