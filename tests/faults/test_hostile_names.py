"""Names in a study are text: they come out as they went in, and have no side effects."""

import csv
import io
import json
import re

import pytest
import yaml

from cotenant.cli.main import main
from cotenant.store.folder import RunFolder

NAMES = (
    "<img src=x onerror=alert(1)>",
    "x'; DROP TABLE trials; --",
    '"quoted", {0} %s $HOME `id`',
    "[bold red]loud[blink]",
    "наём 名前 é ㎏ :smile:",
)
GROUP = "'<b>&amp;"


@pytest.fixture
def hostile_run(tmp_path, capsys):
    study = {
        "name": "hostile",
        "about": "</title><script>alert(1)</script> [red]' OR 1=1 --",
        "tenants": {name: {"workload": "sleep", "params": {"ms": 2}, "threads": 1} for name in NAMES},
        "mixes": ["solo", {"groups": {GROUP: list(NAMES[:2])}}],
        "window": "100ms",
        "lead": "20ms",
        "blocks": 1,
    }
    path = tmp_path / "hostile.yaml"
    path.write_text(yaml.safe_dump(study, allow_unicode=True), "utf-8")
    assert main(["run", str(path), "--out", str(tmp_path / "runs"), "-q"]) in {0, 2}
    capsys.readouterr()
    [run] = (tmp_path / "runs" / "hostile").iterdir()
    return run


def test_hostile_names_come_out_as_they_went_in(hostile_run, tmp_path, capsys, monkeypatch):
    def said(*arguments):
        code = main([*arguments, str(hostile_run)])
        out = capsys.readouterr().out
        assert code == 0
        assert "\x1b" not in out
        return out

    # A wide terminal shows them in full.
    monkeypatch.setenv("COLUMNS", "400")
    shown = said("show", "--all")
    assert all(name in shown for name in (*NAMES, GROUP))
    tenants = json.loads(said("show", "--json"))["tenants"]
    assert {tenant["tenant"] for tenant in tenants} == set(NAMES)
    assert {tenant["mix"] for tenant in tenants} == {*NAMES, GROUP}
    question = "select distinct tenant from requests where trial < 1000000"
    assert {row["tenant"] for row in json.loads(said("sql", "--json", question))} == set(NAMES)
    assert all(name in said("sql", question) for name in NAMES)
    assert json.loads(said("sql", "--json", "select count(*) as n from trials")) == [{"n": 2 + len(NAMES) + 1}]
    exported = list(csv.DictReader(io.StringIO(said("export", "tenants"))))
    assert {row["tenant"] for row in exported} == {*NAMES, "null"}
    assert {row["tenant"] for row in json.loads(said("export", "tenants", "--json"))} == {*NAMES, "null"}

    assert RunFolder.open(hostile_run).manifest["study_name"] == "hostile"
    inside = {path.name for path in hostile_run.rglob("*")}
    assert all(name.isascii() and re.sub(r"[-+.]", "", name).isalnum() for name in inside), (
        "no file is named after a tenant"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"hostile.yaml", "misbehaviour.py", "runs", "tmp"}


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "a/b",
        "..",
        "\x1b[31mred",
        "a\x00b",
        "a\u202eb",
        "line\nbreak",
        " ",
        "a#2",
        "a+b",
        "x" * 5000,
    ],
)
def test_dangerous_names_are_refused_in_one_sentence(tmp_path, capsys, name):
    study = {"tenants": {name: {"workload": "sleep"}}, "mixes": ["solo"]}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(study))
    code = main(["run", "s.yaml", "--out", "runs"])
    said = capsys.readouterr()
    assert code == 1
    assert said.out == ""
    assert "Traceback" not in said.err
    assert "should not have happened" not in said.err
    assert "s.yaml" in said.err
    assert said.err.replace("\n", "").isprintable(), "it is not repeated raw"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["../up", "/etc", "..", "a\x1b[2Jb"])
def test_a_study_cannot_choose_where_its_run_goes(tmp_path, capsys, name):
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"name": name, "tenants": {"a": {"workload": "sleep"}}}))
    assert main(["run", "s.yaml", "--out", "runs"]) == 1
    assert "\x1b" not in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
