"""`cotenant compare` as a user calls it: folders or saved names; text, Markdown or JSON; exit code 3 if slower."""

import json
import shutil

import pytest

from cotenant.api.compare import compare
from cotenant.cli.main import main
from cotenant.errors import RunFolderError
from cotenant.reporting.results import compared
from cotenant.store import baselines

SMALL = {"tenants": 3, "sharings": 1, "blocks": 4, "noise": 0.003}
TINY = SMALL | {"sharings": 0, "blocks": 3}
"""Tenants alone: nine trials."""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, synthetic):
    """Written once: every trial waits for the disk."""
    place = tmp_path_factory.mktemp("prepared")
    synthetic(run="before", **SMALL).write(place / "a")
    synthetic(run="now", slow={"t1": 1.2}, **SMALL).write(place / "b")
    return place


@pytest.fixture
def two(home, prepared):
    shutil.copytree(prepared, home / "runs")
    return home


def test_a_regression_is_named_and_gives_exit_code_3(two, capsys):
    assert main(["compare", "runs/a", "runs/b"]) == 3
    output = capsys.readouterr().out
    assert "Slower: t1." in output
    assert "shown to be the same within 3 %" in output
    assert main(["compare", "runs/b", "runs/a"]) == 0


@pytest.mark.usefixtures("two")
def test_the_answer_comes_first_and_rows_that_changed_before_others(capsys, monkeypatch):
    monkeypatch.setattr(compared, "MOST_ROWS", 1)
    main(["compare", "runs/a", "runs/b"])
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("Slower: t1.")
    assert [line.split()[-1] for line in others if line.startswith("  t")] == ["verdict", "slower"]
    assert any("--all shows them" in line for line in others)
    main(["compare", "runs/a", "runs/b", "--all"])
    assert "--all shows them" not in capsys.readouterr().out


def test_a_baseline_is_a_name_and_not_a_copy(two, capsys):
    assert main(["compare", "runs/a", "--save", "main"]) == 0
    assert [file.name for file in (two / "runs/.baselines").iterdir()] == ["main.json"]
    assert capsys.readouterr().out == ""
    assert main(["compare", "main", "runs/b"]) == 3
    shutil.move(two / "runs", two / "elsewhere")
    with pytest.raises(RunFolderError, match="no run folder and no baseline 'main'"):
        baselines.resolve("main")
    assert baselines.resolve("main", two / "elsewhere/.baselines") == two / "elsewhere/a"


def test_a_baseline_whose_run_is_gone_or_replaced_is_refused(two, synthetic):
    baselines.save(two / "runs/a", "main")
    shutil.rmtree(two / "runs/a")
    with pytest.raises(RunFolderError, match="refers to run before, which is no longer at"):
        baselines.resolve("main")
    synthetic(run="third", **SMALL).write(two / "runs/a")
    with pytest.raises(RunFolderError, match="refers to run before"):
        baselines.resolve("main")


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a b", "x" * 65, "-x\n"])
def test_names_that_could_be_paths_are_refused(two, name):
    with pytest.raises(RunFolderError, match="is not a valid baseline name"):
        baselines.save(two / "runs/a", name)


def test_a_mistyped_baseline_gets_a_suggestion(two, capsys):
    baselines.save(two / "runs/a", "main")
    assert main(["compare", "mian", "runs/b"]) == 1
    assert "did you mean main?" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"run": 1}', "null"])
def test_a_damaged_baseline_is_named(two, damage):
    baselines.save(two / "runs/a", "main").write_text(damage)
    with pytest.raises(RunFolderError, match="The baseline main can't be read"):
        baselines.resolve("main")


def test_json_contains_every_row(two, capsys):
    assert main(["compare", "runs/a", "runs/b", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["regression"] is True
    assert {row["verdict"] for row in found["rows"] if row["of"] == "t1"} == {"slower"}


def test_explain_gives_a_reason_for_every_row(two, capsys):
    main(["compare", "runs/a", "runs/b", "--explain"])
    output = " ".join(capsys.readouterr().out.split())
    assert output.count("shown to be within 3 %") + output.count("shown to be more than 3 %") == 9


def test_markdown_for_a_pull_request(two, capsys):
    assert main(["compare", "runs/a", "runs/b", "--markdown"]) == 3
    output = capsys.readouterr().out
    assert output.startswith("### Slower: t1.\n")
    assert "<details><summary>6 cells without a shown change</summary>" in output


def test_hostile_names_are_printed_literally(home, synthetic, monkeypatch, capsys):
    hostile = ["t0", "<img src=x onerror=y>|`a`", "[bold]\x1b[2J\u202e"]
    monkeypatch.setattr(synthetic, "names", property(lambda self: hostile))
    synthetic(run="before", **TINY).write(home / "runs/a")
    synthetic(run="now", slow={hostile[1]: 2, hostile[2]: 2}, **TINY).write(home / "runs/b")
    assert main(["compare", "runs/a", "runs/b"]) == 3
    output = capsys.readouterr().out
    assert "<img src=x onerror=y>|`a`" in output
    assert "[bold]\\x1b[2J\\u202e" in output
    assert "\x1b[2J" not in output
    main(["compare", "runs/a", "runs/b", "--markdown"])
    output = capsys.readouterr().out
    assert "<img" not in output.replace("\\<img", "")
    assert "\x1b" not in output


def test_the_clock_comes_from_the_sensors_on_disk(home, synthetic):
    synthetic(run="before", clock=3000, **TINY).write(home / "runs/a")
    synthetic(run="now", clock=2700, **TINY).write(home / "runs/b")
    found = compare(["runs/a", "runs/b"])
    assert {row.outcome.because for row in found.details.rows} == {"the clock"}
    assert not found.regression


def test_other_changes_are_reported(home, synthetic, capsys):
    versions = [{"sessions": [{"packages": {"torch": version}}]} for version in ("2.12", "2.13")]
    synthetic(run="before", **TINY).write(home / "runs/a", **versions[0])
    synthetic(run="now", **TINY).write(home / "runs/b", **versions[1], device_description={"model": "Y"})
    assert main(["compare", "runs/a", "runs/b"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "Packages changed: torch 2.12 -> 2.13." in output
    assert "Different machines: model X -> Y" in output


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ({"device": "cuda:0"}, "one ran on cpu and the other on cuda:0"),
        ({"simulated": True}, "one was measured and the other simulated"),
    ],
)
def test_runs_that_can_t_be_compared_are_refused(home, synthetic, capsys, manifest, sentence):
    synthetic(run="before", **TINY).write(home / "runs/a")
    synthetic(run="now", **TINY).write(home / "runs/b", **manifest)
    assert main(["compare", "runs/a", "runs/b"]) == 1
    assert sentence in capsys.readouterr().err


def test_a_run_is_not_compared_with_itself(two, capsys):
    assert main(["compare", "runs/a", "runs/a"]) == 1
    assert "both are the same run" in capsys.readouterr().err


def test_runs_without_a_cell_in_common_are_refused(home, synthetic, capsys):
    synthetic(run="before", **TINY).write(home / "runs/a")
    synthetic(run="now", rate_rps=5.0, **TINY).write(home / "runs/b")
    assert main(["compare", "runs/a", "runs/b"]) == 1
    assert "have no cell in common" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["runs/a"], ["runs/a", "runs/b", "--margin", "x"], ["runs/a", "runs/b", "--margin", "0"]]
)
def test_wrong_usage_is_one_sentence(two, capsys, arguments):
    assert main(["compare", *arguments]) == 1
    output = capsys.readouterr().err
    assert output.startswith("error:")
    assert "Traceback" not in output


def test_a_history_is_ordered_and_its_step_named(home, synthetic, capsys):
    names = []
    for number in range(5):
        run = synthetic(
            run=f"r{number}", started=f"2026-02-0{number + 1}T00:00", slow={"t1": 1.2} if number > 2 else {}, **TINY
        )
        names.append(str(run.write(home / f"runs/{number}")))
    assert main(["compare", *reversed(names)]) == 3
    output = " ".join(capsys.readouterr().out.split())
    assert "Slower than before, and still so: t1" in output
    assert "From run r3 (2026-02-04T00:00) on, t1" in output
    assert main(["compare", *names[:3], "--markdown"]) == 0
    assert main(["compare", *names, "--json"]) == 3
