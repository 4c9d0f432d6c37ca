"""`cotenant plan tenants.yaml`: the answer first, all problems of a file at once, and a check of the plan."""

import contextlib
import io
import json
import re
import signal
import subprocess
import sys

import pytest
import yaml

from cotenant import Plan
from cotenant.cli.main import main
from cotenant.errors import StudyError
from cotenant.planning.inputs.tenants import tenants_to_plan
from cotenant.planning.mixes.serving_plan import KeptObjective, PlannedDevice, SeatedTenant
from cotenant.planning.mixes.tenants import planned
from cotenant.reporting.results.planned import run_by, seat_table
from cotenant.reporting.terminal.grouped import COLUMN_GAP
from cotenant.serving.deployment import orders
from cotenant.serving.tenants_file import read_tenants
from cotenant.tenancy.interval import Interval
from tests.support import pace

DEVICES = "sim:a100-sxm4-80gb*2"
SMALL = """
tenants:
  embed: {workload: bert-base-mini, rate: 200/s, at_once: 1..4, slo: {p99: 50ms}}
  detect: {workload: resnet18-mini, load: "gamma(60, 2)", slo: {p99: 60ms}, priority: 1}
"""


def written(folder, text, name="tenants.yaml"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_plan_is_on_disk_before_it_is_printed(tmp_path, monkeypatch):
    """`cotenant plan ... --out FILE | head` ends at the first line that nobody reads."""

    def unread(_):
        raise BrokenPipeError

    monkeypatch.setattr("cotenant.cli.plan.show_elements", unread)
    file = written(tmp_path, "tenants: {a: {workload: bert-base-mini, rate: 2/s, slo: {p99: 1s}}}\n")
    main(["plan", str(file), "--devices", "sim:t4", "--time", "2s", "--out", str(tmp_path / "plan.yaml")])
    assert Plan.read(tmp_path / "plan.yaml").keeps_all


def test_every_problem_of_a_file_is_named_with_its_line(tmp_path):
    path = written(
        tmp_path,
        """tenants:
  a: {workload: bert-bse, rate: 20, slo: {p99: 30}}
  b: {workload: bert-base, rate: 5/s, near: [nobody], slo: {q99: 3ms}}
  c: {workload: bert-base}
  d: {workload: bert-base, rate: 5/s, isolaton: mig}
  e: {workload: gpt2, rate: 5/s, slo: {ttft p95: 1s}}
""",
    )
    with pytest.raises(StudyError) as refused:
        tenants_to_plan(path)
    text = "\n".join(refused.value.problems)
    assert "tenants.yaml:2: tenants.a.rate: expected a rate with its unit such as 20/s or 300/min, not 20" in text
    assert "did you mean 20/s?" in text
    assert "there is no workload 'bert-bse'" in text
    assert "expected a time with its unit such as 50ms, not 30" in text
    assert "q99 is not an objective" in text
    assert 'there is no tenant "nobody"' in text
    assert "tenants.c: a plan needs a rate such as rate: 20/s, a load with a rate, or a job" in text
    assert 'tenants.d.isolaton: unknown key; did you mean "isolation"?' in text
    assert "tenants.e: ttft and tpot are times of generated tokens: add mode: generate" in text


def test_numbers_and_prices_are_named_with_the_other_problems(tmp_path):
    path = written(
        tmp_path,
        """tenants:
  a: {workload: bert-base, rate: 20, near: [b]}
  b: {workload: bert-base, rate: 5/s, at_once: 0..16, apart: [a]}
prices: {t4: -1, l4: free}
""",
    )
    with pytest.raises(StudyError) as refused:
        tenants_to_plan(path)
    text = "\n".join(refused.value.problems)
    assert "tenants.a.rate: expected a rate with its unit" in text
    assert "tenants.b.at_once: expected a number of requests such as 8, a range such as 1..16, or auto" in text
    assert 'not "0..16"' in text
    assert "prices.t4: expected dollars per hour such as 1.80, not -1" in text
    assert 'prices.l4: expected dollars per hour such as 1.80, not "free"' in text


@pytest.mark.parametrize("devices", [[], ["--devices", "sim:t4"]])
def test_a_plan_in_the_place_of_tenants_is_recognised(tmp_path, capsys, devices):
    path = written(tmp_path, "plan: 1\ndevices: []\n", "plan.yaml")
    assert main(["plan", str(path), *devices]) == 1
    said = capsys.readouterr().err
    assert "is a plan, not a file of tenants" in said
    assert f"cotenant plan --check {path}" in said


def test_what_is_not_a_plan_is_refused_before_planning(tmp_path, capsys):
    path = written(tmp_path, "tenants:\n  a: {workload: bert-base, rate: 5/s}\n")
    assert main(["plan", str(path), "--devices", "sim:t4", "--was", str(path)]) == 1
    said = capsys.readouterr().err
    assert "is not a plan" in said
    assert "describing" not in said


def test_contradictory_constraints_are_named_before_planning(tmp_path):
    path = written(
        tmp_path,
        "tenants:\n"
        "  a: {workload: bert-base, rate: 5/s, near: [b]}\n"
        "  b: {workload: bert-base, rate: 5/s, apart: [a]}\n",
    )
    with pytest.raises(StudyError) as refused:
        tenants_to_plan(path)
    assert refused.value.problems == (f"{path}:3: tenants.b: must be near a and apart from a",)


@pytest.mark.parametrize(
    ("text", "batches"), [("4", (4,)), ("[1, 3]", (1, 3)), ("1..8", (1, 2, 4, 8)), ("3..10", (3, 6, 10))]
)
def test_requests_at_once_are_a_number_a_list_or_a_range(tmp_path, text, batches):
    path = written(tmp_path, f"tenants: {{a: {{workload: bert-base, rate: 60/min, at_once: {text}}}}}")
    (tenant,) = planned(tenants_to_plan(path).tenants)
    assert tenant.batches == batches
    assert tenant.rate_rps == 1.0


@pytest.fixture(scope="module")
def small_plan(tmp_path_factory):
    """The plan of `SMALL` in a file, and what was printed of it."""
    folder = tmp_path_factory.mktemp("small")
    path, out = written(folder, SMALL), folder / "plan.yaml"
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        assert main(["plan", str(path), "--devices", DEVICES, "--out", str(out), "--time", "5s"]) == 0
    return out, shown.getvalue()


def test_a_plan_is_made_written_and_checked(small_plan, capsys):
    out, shown = small_plan
    assert shown.startswith("1 x sim:a100-sxm4-80gb, $1.79/h")
    assert "SIMULATED" in shown
    assert "no plan is better" in shown
    document = yaml.safe_load(out.read_text())
    (device,) = document["devices"]
    assert set(device["tenants"]) == {"embed", "detect"}
    assert device["tenants"]["detect"]["cv"] == 2.0
    assert main(["plan", "--check", str(out), "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert {one["tenant"] for one in checked["tenants"]} == {"embed", "detect"}
    assert all(one["lo"] <= one["attained"] <= one["hi"] for one in checked["tenants"])


def test_a_served_plan_keeps_the_keys_classes_and_groups_of_its_tenants(tmp_path):
    digest = "sha256:" + 64 * "a"
    entries = (
        f"a: {{workload: bert-base-mini, rate: 5/s, slo: {{p99: 100ms}}, key: '{digest}', hard: true}}",
        "b: {workload: bert-base-mini, rate: 5/s, slo: {p99: 100ms}, best_effort: true}",
        "c: {workload: bert-base-mini, rate: 5/s, slo: {p99: 100ms}, group: other}",
    )
    source = written(tmp_path, "device: sim:t4\ntenants:\n" + "".join(f"  {entry}\n" for entry in entries))
    out = tmp_path / "plan.yaml"
    assert main(["plan", str(source), "--out", str(out), "--time", "5s"]) == 0
    served = read_tenants(out).tenants
    assert (served["a"].key, served["b"].key) == (digest, None)
    assert (served["a"].hard, served["b"].best_effort) == (True, True)
    out.write_text(out.read_text().replace("sharing: processes", "sharing: scheduled"))
    workers = [{tenant.name for tenant in worker.tenants} for worker in orders(read_tenants(out), "sim:t4")]
    assert workers == [{"a", "b"}, {"c"}], "where tenants take turns, those of a group share a process"


def test_checking_an_overcommitted_plan_reports_missed(small_plan, tmp_path, capsys):
    document = yaml.safe_load(small_plan[0].read_text())
    document["devices"][0]["tenants"]["embed"]["rate_rps"] = 20000.0
    out = written(tmp_path, yaml.safe_dump(document), "plan.yaml")
    assert main(["plan", "--check", str(out)]) == 3
    assert "missed: embed" in capsys.readouterr().out


def test_an_objective_that_no_device_meets_is_one_sentence(tmp_path, capsys):
    path = written(tmp_path, "tenants: {big: {workload: bert-large, rate: 1/s, slo: {p99: 1ms}}}")
    assert main(["plan", str(path), "--devices", DEVICES]) == 3, "an answer, not an error"
    said = capsys.readouterr().err
    assert "big can't meet its objectives even alone on sim:a100-sxm4-80gb: p99 of big" in " ".join(said.split())


def test_without_prices_as_few_devices_as_possible_are_used(tmp_path, capsys):
    path = written(tmp_path, SMALL)
    for prices in ("", "prices: {v100-sxm2-16gb: 0}\n"):
        path.write_text(SMALL + prices)
        assert main(["plan", str(path), "--devices", "sim:v100-sxm2-16gb*3"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert said.startswith("1 x sim:v100-sxm2-16gb: keeps every objective")
        assert "bound 1 device " in said
        assert ("price of sim:v100-sxm2-16gb: unknown, so devices are counted" in said) == (not prices)


def test_unknown_prices_of_several_kinds_name_the_key_that_sets_them(tmp_path, capsys):
    path = written(tmp_path, SMALL)
    assert main(["plan", str(path), "--devices", "sim:v100-sxm2-16gb, sim:t4"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "the price of sim:v100-sxm2-16gb is unknown" in said
    assert "prices: {v100-sxm2-16gb: 1.20}" in said
    assert main(["plan", str(path), "--devices", "sim:k80, sim:v100-sxm2-16gb"]) == 1
    assert "the prices of sim:k80 and sim:v100-sxm2-16gb are unknown" in " ".join(capsys.readouterr().err.split())


def test_the_price_of_a_misspelt_device_is_refused(tmp_path, capsys):
    path = written(tmp_path, SMALL + "prices: {a100-sxm4-80g: 1.2}\n")
    assert main(["plan", str(path), "--devices", DEVICES]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "there is a price for 'a100-sxm4-80g', which is not a device" in said
    assert "did you mean a100-sxm4-80gb" in said


def test_what_is_not_a_plan_is_refused(tmp_path, capsys):
    assert main(["plan", "--check", str(written(tmp_path, SMALL))]) == 1
    assert "is not a plan" in capsys.readouterr().err


def test_tenants_without_devices_are_an_error_that_asks_for_them(tmp_path, capsys):
    assert main(["plan", str(written(tmp_path, SMALL))]) != 0
    assert "--devices" in capsys.readouterr().err


def test_a_change_that_would_suffice_is_named_as_a_command(tmp_path, capsys):
    # Of encoders, those run by TensorRT have the narrowest validated range.
    big = "workload: bert-base, seq: 512, at_once: 8, rate: 400/s, software: tensorrt, slo: {p99: 15ms}"
    path = written(tmp_path, f"tenants: {{big: {{{big}}}}}")
    assert main(["plan", str(path), "--devices", "sim:t4", "--time", "3min"]) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "big can't meet its objectives even alone on sim:t4: p99 of big" in said
    assert re.search(r"hint: big can be served .*: cotenant plan \S+ --devices 'sim:t4\S*'", said)


def test_the_table_of_a_plan_fits_eighty_columns_and_software_is_named_once():
    kept = (KeptObjective("tpot p95", 60.0, Interval(28.8, 23.9, 37.8)),)
    tenants = tuple(
        SeatedTenant(name, 0, 1, 300.0, 16, "onnxruntime", None, 0, 1, Interval(1.1, 1.0, 1.2), kept, holds_to=1.15)
        for name in ("complete", "rerank")
    )
    device = PlannedDevice("g#0", "g", "g", "mps", tenants, 1, 1.0, 1, 0.1, 0.1, 50, "simulated")
    table = seat_table(device, software=False)
    columns, rows = table.columns, [[str(value) for value in row] for row in table.rows]
    assert "software" not in columns
    assert run_by(device) == "; complete + rerank in onnxruntime"
    assert (
        sum(max(len(row[place]) for row in [columns, *rows]) + COLUMN_GAP for place in range(len(columns))) - COLUMN_GAP
        <= 80
    )


@pytest.mark.slow
def test_an_interrupt_prints_the_best_plan(tmp_path):
    workloads = ("distilbert", "bert-base", "resnet50", "vit-b-16", "mobilenet-v2")
    lines = [
        f"  t{number}: {{workload: {workloads[number % 5]}, rate: {3 + number}/s, at_once: 1..8, slo: {{p99: 150ms}}}}"
        for number in range(40)
    ]
    path = written(tmp_path, "\n".join(["tenants:", *lines]))
    command = [
        sys.executable,
        "-m",
        "cotenant.cli.main",
        "plan",
        str(path),
        "--devices",
        "sim:t4*40",
        "--time",
        "10min",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("a first plan" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=pace.seconds(120))
    assert "x sim:t4" in out
    assert "interrupted" in out
    assert process.returncode in {0, 3}
