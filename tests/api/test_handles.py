"""Handles: what a verb returns can be asked further, shown in one line, kept and loaded."""

import html
import pickle

import pytest
from click.testing import CliRunner

import cotenant
from cotenant.cli.main import cli

STUDY = """device: sim:t4
tenants:
  a: {workload: bert-base, slo: {p99: 100ms}, rate: 5/s}
  b: {workload: resnet50, slo: {p99: 100ms}, rate: 5/s}
mixes: [all]
sharing: [processes]
blocks: 2
window: 1s
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("handles") / "tenants.yaml"
    path.write_text(STUDY, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(file):
    return cotenant.run(file, out=file.parent / "runs", quiet=True)


@pytest.fixture(scope="module")
def plan(file):
    return cotenant.plan(file, "sim:t4*2", seconds=1.0, sharing=("processes", "mps"), quiet=True)


def test_a_run_shows_itself_in_one_line(run):
    text = repr(run)
    assert text.startswith("<cotenant.Run ")
    assert text.count("\n") == 0
    assert f"{type(run).__module__}.{type(run).__name__}" == "cotenant.Run"
    assert run._repr_html_().startswith(f"<p>{html.escape(run.opening[0])}</p>")
    assert "<table>" in run._repr_html_()


def test_an_answer_and_an_explanation_say_what_they_are_instead_of_listing_their_fields(run):
    first = str(run.answer).splitlines()[0]
    assert str(run.answer).splitlines() == list(run.opening)
    assert repr(run.answer) == f"<cotenant.types.Answer: {first}>"
    assert repr(run.explain()).endswith(f" mixes: {first}>")


def test_a_run_is_what_show_returns_for_its_folder(run):
    again = cotenant.show(run.folder)
    assert isinstance(again, cotenant.Run)
    assert again.rows() == run.rows()
    assert run.answer.choices


def test_a_run_reports_explains_and_answers_queries(run, tmp_path):
    assert run.report(out=tmp_path / "page.html").html.read_text().startswith("<!DOCTYPE html>")
    assert type(run.explain()) is cotenant.types.Explanation
    assert run.sql("select count(*) from trials").rows[0][0] > 0
    assert [verified.state for verified in run.verify()] == ["whole"]
    run.export("trials", tmp_path / "trials.csv")
    assert (tmp_path / "trials.csv").stat().st_size > 100


def test_a_run_compares_itself_with_an_earlier_one(file, run, tmp_path):
    now = cotenant.run(file, out=tmp_path, quiet=True)
    compared = now.compare(run)
    assert compared.kind == "pair"
    assert compared.regression is False
    assert repr(compared).startswith("<cotenant.Comparison pair: ")
    assert compared.markdown().startswith("### ")
    assert compared.to_json()["regression"] is False


def test_a_plan_checks_writes_and_exports_itself(plan, tmp_path):
    assert repr(plan) == f"<cotenant.Plan {plan.source}: {plan.sentences()[0]}>"
    assert {tenant.tenant for tenant in plan.check().tenants} == {"a", "b"}
    assert plan.page(tmp_path / "plan.html").read_text().startswith("<!DOCTYPE html>")
    assert plan.export("shell", tmp_path / "out").paths
    written = plan.write(tmp_path / "plan.yaml")
    again = cotenant.Plan.read(written)
    assert [device.sharing for device in again.devices] == [device.sharing for device in plan.devices]
    assert plan.moves_from(written) == plan.moves_from(plan) == ()
    assert {tenant.verdict for tenant in again.check().tenants} == {tenant.verdict for tenant in plan.check().tenants}


def test_a_plan_is_limited_to_the_ways_to_share_that_are_allowed(file):
    for way in ("processes", "scheduled"):
        planned = cotenant.plan(file, "sim:t4", seconds=1.0, sharing=(way,), quiet=True)
        assert {device.sharing for device in planned.devices} == {way}
    with pytest.raises(cotenant.DeviceError, match="can't be shared by mpss") as refused:
        cotenant.plan(file, "sim:t4", sharing=("mpss",), quiet=True)
    assert "mps" in refused.value.hint


def test_a_plan_that_is_exported_is_one_that_the_tool_can_express(file, tmp_path):
    """The devices' best order of requests is lost on a shell."""
    done = CliRunner().invoke(
        cli, ["plan", str(file), "--devices", "sim:t4*2", "--time", "1s", "--export", str(tmp_path), "--for", "shell"]
    )
    assert done.exit_code == 0, done.output
    assert (tmp_path / "plan.sh").exists()


def test_a_plan_and_a_run_of_it_are_compared_by_the_same_verb(plan, tmp_path):
    written = plan.write(tmp_path / "plan.yaml")
    name = plan.devices[0].name
    measured = cotenant.run(
        written, device=name, out=tmp_path / "runs", overrides=["window=1s", "blocks=2"], quiet=True
    )
    judged = cotenant.compare([written, measured.folder])
    assert judged.kind == "plan"
    assert {row.verdict for row in judged.details.rows} <= {"kept", "missed", "can't tell"}


def test_a_prediction_is_a_page_and_a_table(file, tmp_path):
    prediction = cotenant.predict(file, quiet=True)
    assert repr(prediction) == f"<cotenant.Prediction {file} on sim:t4: 1 mix>"
    assert [row["tenant"] for row in prediction.rows()] == ["a", "b"]
    assert prediction.page(tmp_path / "page.html").exists()


def test_handles_survive_pickle(run, plan):
    assert pickle.loads(pickle.dumps(run)).rows() == run.rows()
    assert pickle.loads(pickle.dumps(plan)).devices == plan.devices


def test_progress_is_shown_unless_quiet(file, capsys, tmp_path):
    cotenant.run(file, out=tmp_path / "loud")
    loud = capsys.readouterr()
    assert "tenants on sim:t4" in loud.err
    assert loud.out == ""
    cotenant.run(file, out=tmp_path / "quiet", quiet=True)
    assert capsys.readouterr() == ("", "")


def test_an_error_prints_its_problems_and_its_hint(tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("tenants: {a: {workload: bert-bse, rate: fast}}\n", encoding="utf-8")
    with pytest.raises(cotenant.StudyError) as raised:
        cotenant.run(wrong, quiet=True)
    lines = str(raised.value).splitlines()
    assert lines[0] == raised.value.message
    assert tuple(lines[1 : 1 + len(raised.value.problems)]) == raised.value.problems != ()
    assert raised.value.hint is None or lines[-1] == f"hint: {raised.value.hint}"
