"""`cotenant plan`: a file of jobs in, a table out, and one sentence per error."""

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import cotenant
from benchmarks import job_policies
from cotenant.cli.main import main
from cotenant.errors import StudyError
from cotenant.planning.assignment import plan
from cotenant.planning.gpu_fleet import GpuFleet
from cotenant.planning.jobs import CLASSES, WaitingJob, read_jobs
from cotenant.reporting.elements.terminal import to_terminal
from cotenant.reporting.results.placed_jobs import job_elements

HEADER = "exp,input_size,reps,uuid,cabinet,node,ts,perf,freq,memfreq,temp,pwr,dev_id"


@pytest.fixture
def database(tmp_path, monkeypatch, capsys):
    lines = [HEADER]
    for gpu in range(8):
        for run in range(3):
            time_ms = 2400 * (1 + 0.01 * gpu) + run
            place, at = f"GPU-{gpu:04d},c1,{gpu // 4}", 1600000000 + run
            lines.append(f"sgemm,25536,100,{place},{at},{time_ms},{1400 - 14 * gpu},877,60,297,0")
    table = tmp_path / "fleet.csv"
    table.write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("COTENANT_DB", str(tmp_path / "db"))
    assert main(["db", "add", str(table)]) == 0
    capsys.readouterr()
    return tmp_path


def jobs(folder, text):
    path = folder / "jobs.yaml"
    path.write_text(text)
    return str(path)


def test_a_plan_names_gpus_clocks_and_predictions(database, capsys):
    file = jobs(database, "- {name: train, class: bert, gpus: 2, time: 2h}\n- {name: copy, class: pagerank, time: 60s}")
    assert main(["plan", file, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    by_name = {row["job"]["name"]: row for row in answer["placed"]}
    assert by_name["train"]["gpus"] == ["GPU-0000", "GPU-0001"]
    assert by_name["copy"]["gpus"] == ["GPU-0007"]
    assert main(["plan", file]) == 0
    text = capsys.readouterr().out
    assert "predicted from measured profiles" in text
    assert "train: GPU-0000, GPU-0001" in text


def test_a_plan_from_simulated_profiles_says_so_everywhere():
    fleet = GpuFleet(
        ("sim:v100-sxm2-16gb#0",), np.ones(1), np.array([1380.0]), np.array([297.0]), np.array([0]), simulated=True
    )
    found = plan(fleet, [WaitingJob("train", CLASSES[0], 1, 3600.0)])
    text = shown(to_terminal(job_elements(found)))
    assert found.simulated
    assert "SIMULATED" in text
    assert "measured" not in text


def shown(parts):
    console = Console(width=80, record=True, file=StringIO())
    console.print(*parts)
    return console.export_text()


def test_the_function_places_jobs_as_the_command_does(database, capsys):
    file = jobs(database, "- {name: train, class: bert, gpus: 2, time: 2h}")
    assert main(["plan", file, "--objective", "energy", "--json"]) == 0
    placed = cotenant.plan(file, objective="energy")
    assert [list(row.gpus) for row in placed.placed] == [
        row["gpus"] for row in json.loads(capsys.readouterr().out)["placed"]
    ]


def test_baselines_are_compared_on_the_gpus_of_the_database(database, capsys):
    job_policies.main(draws=2, jobs=30)
    policies = json.loads(capsys.readouterr().out)["policies"]
    assert {row["policy"] for row in policies} == set(job_policies.POLICIES)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not a list of jobs"),
        ("- {name: a, time: 1h}", "either `class` or `core_share`"),
        ("- {name: a, class: bret, time: 1h}", "unknown class 'bret'"),
        ("- {name: a, class: bert, time: soon}", "time"),
        ("- {name: a, class: bert, time: 1h}\n- {name: a, class: bert, time: 1h}", "duplicate job name 'a'"),
        ("- [", "jobs.yaml:1: "),
    ],
)
def test_an_invalid_file_is_explained_in_one_sentence(tmp_path, text, sentence):
    with pytest.raises(StudyError) as caught:
        read_jobs(Path(jobs(tmp_path, text)))
    assert sentence in " ".join([caught.value.message, *caught.value.problems])


def test_every_problem_is_reported_with_its_line(tmp_path):
    one = "- {name: a, class: bert, time: 1h}\n"
    text = f"jobs:\n{one}- name: b\n  class: bret\n  time: soon\n{one}"
    with pytest.raises(StudyError) as caught:
        read_jobs(Path(jobs(tmp_path, text)))
    places = [problem.removeprefix(f"{tmp_path}/").partition(" ")[0] for problem in caught.value.problems]
    assert places == ["jobs.yaml:5:", "jobs.yaml:6:"]
    assert "jobs.1.time" in caught.value.problems[0]


@pytest.mark.parametrize(
    "arguments", [[], ["jobs.yaml", "--check", "plan.yaml"], ["jobs.yaml", "--power-budget", "much"]]
)
def test_invalid_arguments_are_explained_in_one_sentence(arguments, capsys):
    assert main(["plan", *arguments]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err
