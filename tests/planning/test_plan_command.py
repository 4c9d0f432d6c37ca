"""`cotenant plan`: a file of jobs in, a table out, and one sentence per error."""

import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import cotenant
from benchmarks import job_policies
from cotenant.cli.main import main
from cotenant.errors import StudyError
from cotenant.planning.assignment import WaitingJob, plan
from cotenant.planning.gpu_fleet import GpuFleet
from cotenant.reporting.elements.terminal import to_terminal
from cotenant.reporting.results.planned import job_elements
from cotenant.tenancy.jobs import CLASSES

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
    file = jobs(
        database, "tenants: {train: {job: {like: bert, gpus: 2, time: 2h}}, copy: {job: {like: pagerank, time: 60s}}}"
    )
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
    file = jobs(database, "tenants: {train: {job: {like: bert, gpus: 2, time: 2h}}}")
    assert main(["plan", file, "--objective", "energy", "--json"]) == 0
    placed = cotenant.plan(file, objective="energy")
    assert [list(row.gpus) for row in placed.placed] == [
        row["gpus"] for row in json.loads(capsys.readouterr().out)["placed"]
    ]


def test_baselines_are_compared_on_the_gpus_of_the_database(database, capsys):
    job_policies.main(draws=2, jobs=30)
    policies = json.loads(capsys.readouterr().out)["policies"]
    assert {row["policy"] for row in policies} == set(job_policies.POLICIES)


JOB = "{like: bert, time: 1h}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected a mapping with the key tenants"),
        ("- {name: a, class: bert, time: 1h}", "jobs of a list become tenants: {NAME: {job: {like: bert,"),
        (f"tenants: {{a: {{job: {JOB}}}, b: {{job: {{time: 1h}}, workload: sgemm}}}}", "needs like (gemm,"),
        ("tenants: {a: {job: {like: bret, time: 1h}}}", "did you mean"),
        ("tenants: {a: {job: {like: bert, time: soon}}}", "expected a time"),
        ("tenants: {a: {job: {like: bert, core_share: 0.2, time: 1h}}}", "one of like and core_share, not both"),
        ("tenants: {a: {job: {like: bert, activity: 0.2, time: 1h}}}", "activity go with core_share"),
        ("tenants: {a: {job: {core_share: 2, time: 1h}}}", "a number from 0 to 1"),
        ("tenants: {a: {job: {like: bert, time: 1h, within: 2h}}}", "a deadline needs --devices"),
        (f"tenants: {{a: {{job: {JOB}, apart: a}}}}", "apart needs --devices"),
        (f"tenants: {{a: {{job: {JOB}}}, b: {{workload: sgemm, rate: 2/s}}}}", "b: isn't a job"),
        ("tenants: [", "jobs.yaml:1: "),
    ],
)
def test_an_invalid_file_is_explained_in_one_sentence(tmp_path, text, sentence):
    with pytest.raises(StudyError) as caught:
        cotenant.plan(jobs(tmp_path, text))
    assert sentence in " ".join([caught.value.message, *caught.value.problems])


def test_every_problem_is_reported_with_its_line(tmp_path):
    text = (
        f"tenants:\n  a: {{job: {JOB}}}\n  b:\n    job:\n      like: bret\n      time: soon\n  c: {{workload: sgemm}}\n"
    )
    with pytest.raises(StudyError) as caught:
        cotenant.plan(jobs(tmp_path, text))
    places = [problem.removeprefix(f"{tmp_path}/").partition(" ")[0] for problem in caught.value.problems]
    assert places == ["jobs.yaml:5:", "jobs.yaml:6:", "jobs.yaml:7:"]
    assert "tenants.b.job.time" in caught.value.problems[1]


def test_a_job_by_what_it_is_like_needs_the_database(tmp_path):
    file = jobs(tmp_path, f"tenants: {{a: {{job: {JOB}}}}}")
    with pytest.raises(StudyError) as caught:
        cotenant.plan(file, "sim:t4")
    assert "needs a workload" in caught.value.problems[0]
    with pytest.raises(StudyError) as caught:
        cotenant.run(file, device="sim:t4", out=tmp_path)
    assert "needs a workload" in caught.value.problems[0]


@pytest.mark.parametrize(
    "arguments", [[], ["jobs.yaml", "--check", "plan.yaml"], ["jobs.yaml", "--power-budget", "much"]]
)
def test_invalid_arguments_are_explained_in_one_sentence(arguments, capsys):
    assert main(["plan", *arguments]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err
