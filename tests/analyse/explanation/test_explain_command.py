"""`cotenant explain` as a user calls it: a run folder, a saved name, or a metric."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest

from cotenant.analyse.sharing.metrics import METRICS, find_metric
from cotenant.analyse.sharing.summarise import METRICS as OF_MIXES
from cotenant.analyse.sharing.summary import QUANTILES
from cotenant.cli.main import main
from cotenant.store.folder import RunFolder
from cotenant.tenancy.records import TrialRecords
from tests.analyse.explanation.scenes_of_tenants import COMPUTE, MEMORY, Beside, Scene, Tenant

HERE = {"model": "X", "cores": [0, 1], "memory_bytes": 8 << 30, "caches_bytes": {"L3": 32 << 20}}


PEAKS = {"flops_per_s": {"float32": 100e9}, "bytes_per_s": 20e9, "cores": 2, "measured_utc": "2026-01-01"}


@pytest.fixture(autouse=True)
def no_device(monkeypatch):
    """An explanation depends only on records: using a device fails."""

    def asked(name):
        raise AssertionError(f"{name} was asked for")

    monkeypatch.setattr("cotenant.devices.find_device", asked)
    monkeypatch.setattr("cotenant.devices.catalogue.find_device", asked)


def records(items, requests=4):
    seen = items[0].seen
    begin = 10**9 + np.tile(np.arange(requests), len(items)) * 10**8
    service = np.repeat([round(item.service_ns) for item in items], requests)
    counters = {"cpu_busy_s": 2.0, "own_cpu_s": 2.0 - 2 * items[0].foreign_share, "cpu_steal_s": 0.0}
    return TrialRecords(
        trial={"trial": seen.trial, "block": seen.block, "order": 0, "mix": seen.mix, "solo": seen.solo,
               "device": "cpu", "simulated": False, "sharing": seen.sharing, "settings": "{}", "load": seen.load,
               "window_start_ns": 10**9, "window_s": 1.0, "verdict": "valid", "failed_checks": [], "reasons": []},
        tenants=tuple({"tenant": item.seen.tenant, "of": item.seen.of, "load": item.load, "workload": "w", "batch": 1,
                       "dtype": "float32", "threads": 1, "flops_per_request": item.work.flops_per_request,
                       "bytes_per_request": item.work.bytes_per_request,
                       "observed": json.dumps({"device_clock": "process CPU time"}), "facts": "not JSON"}
                      for item in items),
        requests={"tenant": np.repeat(np.arange(len(items)), requests),
                  "seq": np.tile(np.arange(requests), len(items)), "intended_ns": begin, "started_ns": begin,
                  "done_ns": begin + service, "device_ns": service,
                  "in_window": np.ones(begin.size, bool), "ok": np.ones(begin.size, bool)},
        samples={"device": np.array(["cpu"] * 6), "t_ns": np.array([10**9, 2 * 10**9] * 3),
                 "sensor": np.repeat(list(counters), 2), "unit": np.array(["s"] * 6), "source": np.array(["x"] * 6),
                 "value": np.array([value for growth in counters.values() for value in (5.0, 5.0 + growth)])},
    )  # fmt: skip


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def write(scene, path="run", **manifest):
        folder = RunFolder.create(
            tmp_path / path, {"device": "cpu", "device_description": HERE, "roofline": PEAKS} | manifest
        )
        for _, group in itertools.groupby(scene.evidence, key=lambda item: item.seen.trial):
            folder.commit(records(list(group)))
        return path

    return write


def two_triads(first="a", **options):
    scene = Scene(Tenant(first, **MEMORY), Tenant("b", **COMPUTE), blocks=3).alone()
    return scene.mix({first: Beside(cpu=1.5), "b": Beside()}, **options)


def test_a_run_is_explained_from_its_records(run, capsys):
    assert main(["explain", run(two_triads(foreign=0.3)), "--all"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "a alone is bound by memory bandwidth" in output
    assert "it reaches 2 % of the compute peak and 75 % of the memory bandwidth" in output
    assert "b is the aggressor and a the victim" in output
    assert "Processes outside the study took 30 % of the device in 3 of 9 trials" in output


def test_neither_the_study_nor_the_catalogue_is_read_for_a_few_mixes(run):
    code = (
        "import sys; from cotenant.cli.main import main; assert main(['explain', sys.argv[1]]) == 0; "
        "print([name for name in ('pydantic', 'cotenant.study', 'cotenant.workloads') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, run(two_triads())], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def many_mixes():
    names = [f"tenant-{number}" for number in range(7)]
    scene = Scene(*(Tenant(name, **MEMORY) for name in names), blocks=3).alone()
    for first, second in itertools.combinations(names, 2):
        scene.mix({first: Beside(cpu=1.5), second: Beside(cpu=1.3)}, foreign=0.3)
    return scene


def test_the_answer_comes_first_and_the_rest_fits_forty_lines(run, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    folder = run(many_mixes())
    assert main(["explain", folder]) == 0
    short = capsys.readouterr().out.splitlines()
    assert len(short) <= 40
    assert short[0].startswith(("Of ", "Share tenant-", "Can't tell", "Don't share", "Sharing"))
    assert "--all" in short[-1]
    assert main(["explain", folder, "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 100


def test_json_and_markdown(run, capsys):
    folder = run(two_triads("<b>|x"))
    assert main(["explain", folder, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["tenant"]: one["bound"] for one in found["tenants"]} == {"<b>|x": "memory bandwidth", "b": "compute"}
    assert main(["explain", folder, "--markdown"]) == 0
    assert "\\<b\\>\\|x" in capsys.readouterr().out


def test_hostile_names_are_printed_literally(run, capsys):
    assert main(["explain", run(two_triads("[red]\x1b[2J"))]) == 0
    output = capsys.readouterr().out
    assert "[red]\\x1b[2J" in output
    assert "\x1b[2J" not in output


def test_a_run_without_a_roofline_is_reported(run, capsys):
    assert main(["explain", run(two_triads(), roofline=None)]) == 0
    assert "This run has no roofline" in " ".join(capsys.readouterr().out.split())


def test_a_saved_name_can_be_explained(run, capsys):
    assert main(["compare", run(two_triads()), "--save", "main"]) == 0
    assert main(["explain", "main", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mixes"]


def test_a_run_without_trials_is_refused(run, capsys):
    assert main(["explain", run(Scene())]) == 1
    assert "contains no trial to explain" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["stp", "STP", "p99", "weighted speedup", "harmonic-speedup", "mean_latency", "ttft", "TPOT", "goodput"]
)
def test_metrics_are_found_by_the_names_people_use(name, capsys):
    assert main(["explain", name]) == 0
    assert "formula" in capsys.readouterr().out


def test_a_mistyped_metric_gets_a_suggestion(capsys):
    assert main(["explain", "slowdwon"]) == 1
    output = capsys.readouterr().err
    assert "There is no metric 'slowdwon'." in output
    assert "Did you mean slowdown" in output


def test_a_missing_path_is_treated_as_a_run_and_not_as_a_metric(capsys):
    assert main(["explain", "runs/nowhere"]) == 1
    assert "There is no run folder" in capsys.readouterr().err


def test_every_number_of_a_summary_is_defined():
    assert {*OF_MIXES, *QUANTILES, "slowdown", "throughput", "goodput"} <= set(METRICS)


def test_metric_names_are_unique():
    for metric in METRICS.values():
        assert all(find_metric(name) is metric for name in (metric.name, metric.title, *metric.also))
