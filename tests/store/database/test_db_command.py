"""`cotenant db` as a user calls it, and the pages it writes."""

import json

import pytest

import cotenant
from cotenant.cli.main import main
from cotenant.store.folder import RunFolder
from tests.store.database.database_material import longhorn, run, stuck, trial


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COTENANT_DB", str(tmp_path / "db"))
    longhorn(tmp_path / "fleet.csv")
    stuck(tmp_path / "smi.csv")
    assert main(["db", "add", "fleet.csv", "smi.csv"]) == 0
    return tmp_path / "db"


def asked(capsys, *words):
    capsys.readouterr()
    assert main(["db", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_contents_are_listed(home, capsys):
    found = asked(capsys)
    assert [source["name"] for source in found["sources"]] == ["fleet.csv", "smi.csv"]
    assert [work["name"] for work in found["works"]] == ["sgemm"]
    assert main(["db"]) == 0
    assert "sgemm" in capsys.readouterr().out


def test_which_gpu_is_slow_and_why(home, capsys):
    found = asked(capsys, "anomalies")
    assert [(one["gpu"], one["cause"]) for one in found["slow"]] == [("GPU-00000003-x", "heat or power brake")]
    assert [one["gpu"] for one in found["stuck_sensors"]] == ["GPU-stuck-1"]
    assert main(["db", "anomalies"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "GPU-00000003-x (cabinet c0, node 3) is 15 % slower" in text
    assert "power_w of GPU-stuck-1 stood still: 46.19" in text


def test_how_gpus_differ(home, capsys):
    [found] = asked(capsys, "gpus")
    assert len(found["gpus"]) == 12
    assert found["variation"]["whisker_range"]["est"] < 0.1
    assert main(["db", "gpus", "--all"]) == 0
    assert capsys.readouterr().out.count("GPU-0000") == 12


def test_one_gpu_by_a_part_of_its_name(home, capsys):
    found = asked(capsys, "gpu", "00000003")
    assert (found["gpu"], found["works"][0]["place"], found["works"][0]["of"]) == ("GPU-00000003-x", 12, 12)
    assert main(["db", "gpu", "stuck"]) == 0
    assert "stood still" in " ".join(capsys.readouterr().out.split())
    assert main(["db", "gpu", "00000003"]) == 0
    assert "heat or power brake" in " ".join(capsys.readouterr().out.split())


def test_the_trend(home, capsys):
    found = asked(capsys, "trend")
    assert len(found["sgemm"]["daily"]) == 10
    assert main(["db", "trend"]) == 0
    assert "per 30 days" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gpu", "nobody"), "No GPU in the database is called 'nobody'"),
        (("gpu", "GPU-0000"), "matches 12 GPUs"),
        (("gpus", "--work", "bert"), "No work in the database is called 'bert'"),
        (("add", "absent.csv"), "can't be read"),
        (("gpus", "--db", "elsewhere"), "is empty"),
    ],
)
def test_mistakes_are_one_sentence_and_a_hint(home, capsys, words, said):
    capsys.readouterr()
    assert main(["db", *words]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert "hint:" in error


def test_the_report_has_figures_and_sentences_and_loads_nothing(home, tmp_path, capsys):
    assert main(["db", "report", "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for part in ("boxes", "scatter", "places", "straggler", "trend", "timeline-1"):
        assert f'data-figure="{part}"' in page
    assert "heat or power brake" in page
    assert "stood still" in page
    assert 'src="http' not in page


def test_a_report_of_a_run_with_several_members_says_how_they_differ(tmp_path):
    folder = run(tmp_path / "run")
    written = cotenant.report([folder])
    page = written.html.read_text(encoding="utf-8")
    assert "Variability between devices" in page
    assert 'data-figure="boxes"' in page
    assert "Simulated: sgemm, batch 1, float32" in page


def test_a_sweep_of_clocks_gives_curves(tmp_path):
    folder = run(tmp_path / "run", trials=1)
    for number, clock in enumerate((800, 1000, 1200), 3):
        RunFolder.open(folder).commit(trial(number, settings=json.dumps({"clock_mhz": clock})))
    cotenant.db.add([folder], db=tmp_path / "db")
    page = cotenant.db.report(tmp_path / "page.html", db=tmp_path / "db").read_text(encoding="utf-8")
    assert 'data-figure="clock-1"' in page


@pytest.mark.parametrize("arguments", [["db"], ["db", "gpus"], ["db", "add", "x.csv"]])
def test_a_file_for_a_database_gets_a_sentence(arguments, tmp_path, capsys, monkeypatch):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    monkeypatch.setenv("COTENANT_DB", str(taken))
    assert main(arguments) == 1
    assert "is a file; a database is a folder" in capsys.readouterr().err
    assert taken.read_text() == "mine"
