"""Each verb as a user calls it: data on stdout, messages on stderr, JSON on demand, meaningful exit codes."""

import json
from pathlib import Path

import pytest

from cotenant.analyse.result import Result
from cotenant.analyse.sharing.closing import closing_sentences
from cotenant.analyse.sharing.summarise import summarise
from cotenant.analyse.sharing.summary import Summary
from cotenant.api import doctor, records, run, show
from cotenant.cli.main import main
from cotenant.devices.protocol import Finding
from cotenant.errors import QueryError
from cotenant.measure.events import RunEnded, RunStarted
from cotenant.store.folder import RunFolder
from cotenant.tenancy.records import TenantObservation

STUDY = "tenants: {a: {workload: spin}, b: {workload: spin}}\nuntil: {interval: 3%}\n"


def observed(trial: int, block: int, mix: str, tenant: str, verdict: str = "valid") -> TenantObservation:
    solo = mix == tenant
    return TenantObservation(
        run="r1", trial=trial, block=block, mix=mix, sharing="alone" if solo else "pinned", settings="{}",
        load="closed(1)", device="cpu", simulated=False, solo=solo, tenant=tenant, of=tenant, verdict=verdict,
        failed_checks=() if verdict == "valid" else ("steady",), n=20, unfinished=0, throughput_rps=10.0,
        mean_latency_ns=(1.0 if solo else 1.6) * 1e6 * (1 + block / 100), window_s=2.0,
    )  # fmt: skip


def summary(verdict: str = "valid") -> Summary:
    cells = [("a", "a"), ("b", "b"), ("a+b", "a"), ("a+b", "b")]
    return summarise(
        observed(4 * block + min(index, 2), block, mix, tenant, verdict)
        for index, (mix, tenant) in enumerate(cells)
        for block in range(3)
    )


def result(folder: Path, verdict: str = "valid") -> Result:
    found = summary(verdict)
    sentences = tuple(closing_sentences(found, 0.03))
    manifest = RunFolder.open(folder).manifest
    return Result((folder,), (manifest,), found, {}, (), (), (), sentences)


@pytest.fixture
def folder(tmp_path) -> Path:
    facts = {"run": "r1", "study": STUDY, "study_name": "mine", "seed": 7, "device": "cpu", "why": "all blocks done"}
    return RunFolder.create(tmp_path / "runs" / "mine", facts).path


@pytest.fixture
def carried_out(monkeypatch, folder):
    """A run that takes no time; records its arguments and returns a fixed result."""
    asked = {}

    def fake(study, **options):
        asked.update(study=study, **options)
        listener = options["listener"]
        listener(RunStarted(folder, "mine", "cpu", False, 4, 1, 3, None, None, False, 0))
        if isinstance(asked.get("end"), BaseException):
            raise asked["end"]
        listener(RunEnded(folder, "all blocks done"))
        return result(folder, asked.get("verdict", "valid"))

    monkeypatch.setattr(run, "run", fake)
    return asked


def test_run_passes_its_options_on_and_prints_the_result_on_stdout(carried_out, capsys, folder):
    code = main(
        ["run", "mine.yaml", "--device", "cpu:0", "--set", "seed=3", "--set", "budget=1min", "--out", "elsewhere"]
    )
    seen = capsys.readouterr()
    assert code == 0
    assert carried_out["study"] == "mine.yaml"
    assert carried_out["device"] == "cpu:0"
    assert carried_out["overrides"] == ("seed=3", "budget=1min")
    assert carried_out["out"] == Path("elsewhere")
    assert seen.out.startswith("Share a + b by pinned: 1.25x [1.25, 1.25] the work of taking turns")
    assert len(seen.out.splitlines()) <= 25
    assert "all blocks done" in seen.err
    assert f"cotenant show {folder}" in seen.err


def test_run_with_json_prints_nothing_else_on_stdout(carried_out, capsys, folder):
    assert main(["run", "quick", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["schema_version"] == 1
    assert result["folder"] == str(folder)
    assert result["why"] == "all blocks done"
    assert {row["mix"] for row in result["mixes"]} == {"a", "b", "a+b"}


def test_a_quiet_run_prints_no_progress(carried_out, capsys):
    assert main(["run", "quick", "--quiet", "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_a_run_without_valid_trials_is_not_a_success(carried_out, capsys):
    carried_out["verdict"] = "unstable"
    assert main(["run", "quick"]) == 2
    assert "Times were not steady in 9 trials" in " ".join(capsys.readouterr().out.split())


def test_ctrl_c_names_the_resume_command(carried_out, capsys, folder):
    carried_out["end"] = KeyboardInterrupt()
    assert main(["run", "quick"]) == 130
    seen = capsys.readouterr()
    assert seen.out == ""
    assert f"continue with `cotenant run --resume {folder}`" in seen.err


def test_resume_needs_no_study(carried_out):
    assert main(["run", "--resume", "runs/mine", "-q"]) == 0
    assert carried_out["study"] is None
    assert carried_out["resume"] == Path("runs/mine")


def test_run_without_a_study_suggests_one(capsys):
    assert main(["run"]) == 1
    assert "cotenant run quick" in capsys.readouterr().err


def test_dry_run_starts_nothing_and_prints_the_forecast(capsys):
    assert main(["run", "quick", "--dry-run"]) == 0
    assert "trials" in capsys.readouterr().out
    assert main(["run", "quick", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trials_per_block"] > 0


def test_show_gives_the_answer_all_tables_or_json(monkeypatch, capsys, folder):
    monkeypatch.setattr(show, "show", lambda runs: result(folder))
    assert main(["show", str(folder)]) == 0
    assert capsys.readouterr().out.startswith("Share a + b by pinned")
    assert main(["show", str(folder), "--all"]) == 0
    assert "a+b, pinned" in capsys.readouterr().out
    assert main(["show", str(folder), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) >= {"schema_version", "tenants", "mixes"}


def test_show_of_a_folder_that_is_not_a_run_is_an_error_without_output(tmp_path, capsys):
    assert main(["show", str(tmp_path / "nothing")]) == 1
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.startswith("error: ")


@pytest.mark.parametrize(("state", "code", "word"), [("warning", 0, "ready"), ("problem", 2, "not ready: 1 problem")])
def test_doctor_ends_in_ready_or_not(monkeypatch, capsys, state, code, word):
    monkeypatch.setattr(doctor, "doctor", lambda _, **_options: (Finding("memory", state, "0 B free", fix="buy some"),))
    assert main(["doctor"]) == code
    text = capsys.readouterr().out
    assert text.splitlines()[-1].startswith(word)
    assert "fix: buy some" in text
    assert main(["doctor", "--json"]) == code
    assert json.loads(capsys.readouterr().out)["ready"] is (code == 0)


def test_sql_prints_rows_literally(monkeypatch, capsys, folder):
    from cotenant.store.query import Table

    monkeypatch.setattr(
        records, "sql", lambda query, runs, limit_s: Table(("mix", "n"), (("[red]\x1b[31m", 3), (None, 1.5)))
    )
    assert main(["sql", "select 1", str(folder)]) == 0
    assert "[red]\\x1b[31m" in capsys.readouterr().out
    assert main(["sql", "select 1", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"mix": "[red]\x1b[31m", "n": 3}, {"mix": None, "n": 1.5}]


def test_a_wrong_query_is_a_sentence(monkeypatch, capsys, folder):
    def refuse(query, runs, limit_s):
        raise QueryError("There is no table x.", hint="Tables: trials")

    monkeypatch.setattr(records, "sql", refuse)
    assert main(["sql", "select", str(folder)]) == 1
    assert capsys.readouterr().err == "error: There is no table x.\n\nhint: Tables: trials\n"


def test_export_passes_its_options_on(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(records, "export", lambda *arguments: asked.append(arguments))
    assert main(["export", "trials", "r1", "r2", "--to", "x.csv"]) == 0
    assert main(["export", "trials", "r1", "--json"]) == 0
    assert main(["export", "trials", "r1", "--json", "--format", "csv"]) == 1
    assert asked == [((Path("r1"), Path("r2")), "trials", Path("x.csv"), None), ((Path("r1"),), "trials", "-", "json")]


@pytest.mark.parametrize("verb", ["studies", "devices", "workloads"])
def test_lists_as_text_and_json(verb, capsys):
    assert main([verb]) == 0
    assert capsys.readouterr().out.strip()
    assert main([verb, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(row["name"] for row in rows)


def test_workloads_can_be_filtered(capsys):
    assert main(["workloads", "bert-large", "--json"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert names
    assert all("bert" in name for name in names)


def test_schema_is_json_schema(capsys):
    assert main(["schema"]) == 0
    assert "tenants" in json.loads(capsys.readouterr().out)["properties"]


def test_a_terminal_of_no_width_gets_the_usual_one(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "0")
    assert main(["studies"]) == 0
    assert "quick" in capsys.readouterr().out
