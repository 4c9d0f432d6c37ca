"""A table is exported as CSV, JSON or Parquet, completely or not at all."""

import csv
import io
import json

import duckdb
import pytest

import cotenant
from cotenant.errors import QueryError, RunFolderError
from cotenant.store.export import export
from cotenant.store.folder import RunFolder
from tests.store.synthetic import trial

NASTY = 'a,"b"\n=1+1 <b>'


@pytest.fixture
def run(tmp_path):
    run = RunFolder.create(tmp_path / "run", {"run": "r1"})
    run.commit(trial(0, mix=NASTY, failed_checks=["drift"]))
    run.commit(trial(1))
    return run.path


def test_csv(run, tmp_path):
    export([run], "trials", tmp_path / "out.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text(), newline="")))
    assert [row["mix"] for row in rows] == [NASTY, "bert-mini+gpt2-mini"]
    assert rows[0]["run"] == "r1"


def test_json(run, tmp_path):
    export([run], "trials", tmp_path / "out.JSON")
    rows = json.loads((tmp_path / "out.JSON").read_text())
    assert [(row["mix"], row["failed_checks"]) for row in rows] == [(NASTY, ["drift"]), ("bert-mini+gpt2-mini", [])]


def test_parquet(run, tmp_path):
    export([run], "requests", tmp_path / "it's.parquet")
    assert duckdb.read_parquet(str(tmp_path / "it's.parquet")).aggregate("count(*), min(run)").fetchall() == [
        (16, "r1")
    ]


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_results_have_a_row_for_each_tenant_of_each_mix(run, tmp_path, suffix):
    cotenant.export(run, "results", tmp_path / f"out.{suffix}")
    rows = duckdb.sql(f"select mix, tenant, requests, slowdown, decision from '{tmp_path}/out.{suffix}'").fetchall()
    mixes = [mix.removeprefix("'") for mix, *_ in rows]
    assert {(mix, tenant) for mix, (_, tenant, *_) in zip(mixes, rows, strict=True)} >= {
        ("bert-mini+gpt2-mini", "bert-mini"),
        ("bert-mini+gpt2-mini", "gpt2-mini"),
    }


def test_results_of_a_run_without_trials_are_refused(tmp_path):
    empty = RunFolder.create(tmp_path / "empty", {"run": "r0", "state": "running"})
    with pytest.raises(RunFolderError, match="no trial has ended"):
        cotenant.export(empty.path, "results", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("record", ["manifest.json", "trials/000001/requests.parquet", "trials/new.csv"])
def test_the_records_of_a_run_are_never_overwritten(run, record):
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    with pytest.raises(RunFolderError, match="is part of a run"):
        export([run], "trials", run / record)
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before
    export([run], "trials", run / "trials.csv")  # beside them is fine


def test_a_table_without_rows_has_its_header(run, tmp_path):
    RunFolder.open(run).export("kernels", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "run,trial,tenant,name,device,stream,start_ns,duration_ns\n"


@pytest.mark.parametrize("asked", [None, "csv", "json", "parquet"])
def test_standard_output(run, capfdbinary, asked):
    export([run], "trials", "-", asked)
    out = capfdbinary.readouterr().out
    match asked:
        case "json":
            assert len(json.loads(out)) == 2
        case "parquet":
            assert out[:4] == out[-4:] == b"PAR1"
        case _:
            assert len(list(csv.DictReader(io.StringIO(out.decode(), newline="")))) == 2


def test_an_export_replaces_the_file_of_the_last_one(run, tmp_path):
    (tmp_path / "out.csv").write_text("old")
    export([run], "trials", tmp_path / "out.csv")
    assert "old" not in (tmp_path / "out.csv").read_text()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out.csv", "run"]


@pytest.mark.parametrize(
    ("table", "name", "message", "hint"),
    [
        ("request", "a.csv", "There is no table 'request'.", "did you mean requests?"),
        ("trials; DROP", "a.csv", "There is no table 'trials; DROP'.", "did you mean trials?"),
        ("trials", "a.xlsx", "'xlsx' is not an export format.", "Use one of csv, json, parquet."),
        ("trials", "a", "'' is not an export format.", "Use one of csv, json, parquet."),
    ],
)
def test_a_mistake_is_one_sentence(run, table, name, message, hint):
    with pytest.raises(QueryError) as caught:
        export([run], table, run.parent / name)
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)


def test_a_missing_folder(run, tmp_path):
    with pytest.raises(RunFolderError) as caught:
        export([run], "trials", tmp_path / "gone" / "out.csv")
    assert caught.value.message == f"{tmp_path / 'gone' / 'out.csv'} can't be written: no such file or directory."


ESCAPE, FORMULA = "a\x1b[2J\x9b31m\u202eb", '=HYPERLINK("http://x")'


@pytest.fixture
def hostile(tmp_path):
    run = RunFolder.create(tmp_path / "hostile", {"run": "r2"})
    run.commit(trial(0, mix=ESCAPE))
    run.commit(trial(1, mix=FORMULA))
    return run.path


def test_csv_escapes_control_characters_and_formulas(hostile, tmp_path):
    export([hostile], "trials", tmp_path / "out.csv")
    text = (tmp_path / "out.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["mix"] for row in rows] == ["a\\x1b[2J\\x9b31m\\u202eb", f"'{FORMULA}"]
    assert "\x1b" not in text


def test_json_escapes_control_characters_losslessly(hostile, tmp_path):
    export([hostile], "trials", tmp_path / "out.json")
    text = (tmp_path / "out.json").read_text()
    assert not any(char in text for char in "\x1b\x9b\u202e")
    assert [row["mix"] for row in json.loads(text)] == [ESCAPE, FORMULA]


def test_parquet_keeps_every_value_unchanged(hostile, tmp_path):
    export([hostile], "trials", tmp_path / "out.parquet")
    kept = duckdb.read_parquet(str(tmp_path / "out.parquet")).project("mix").fetchall()
    assert sorted(kept) == [(FORMULA,), (ESCAPE,)]
