"""Figures: rows in, a specification out; a bounded number of points; a reason where nothing can be drawn."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from cotenant.analyse.findings import RateLatency, knee
from cotenant.analyse.sharing.capacity import curve_points
from cotenant.analyse.sharing.evidence import peaks_of
from cotenant.api.report import report
from cotenant.reporting.figures.every import figures
from cotenant.reporting.figures.figure import MOST_POINTS, Absent, Figure
from cotenant.reporting.figures.latency import mix_curves_spec
from cotenant.reporting.figures.material import gather
from cotenant.reporting.figures.names import Condition, letters
from cotenant.reporting.figures.work import stages_figure
from cotenant.store.reduced import MOST_TRIALS_DRAWN
from tests.reporting.html.report_runs import SHARED, write_run

ROOFLINE = {"flops_per_s": {"float32": 1e11}, "bytes_per_s": 1e10, "cores": 2, "measured_utc": "2030-01-01"}
OPEN = {"poisson(10%)": (10.0, 1.0), "poisson(40%)": (40.0, 1.2), "poisson(60%)": (60.0, 4.0)}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    run = write_run(tmp_path_factory.mktemp("runs") / "run", manifest={"roofline": ROOFLINE}, loads=OPEN)
    material = gather([run])
    return material, figures(material)


def every(found):
    return [figure for many in found.values() for figure in many if isinstance(figure, Figure)]


def fields(spec):
    """Every field that a specification refers to."""
    match spec:
        case dict():
            own = [spec["field"]] if isinstance(spec.get("field"), str) else []
            return own + [name for key, inner in spec.items() if key != "values" for name in fields(inner)]
        case list():
            return [name for inner in spec for name in fields(inner)]
    return []


def test_every_kind_of_figure_can_be_drawn_from_a_run_that_has_everything(drawn):
    assert {kind for kind, many in drawn[1].items() if isinstance(many[0], Figure)} == {
        "slowdown", "latency", "throughput", "stp", "fairness", "load", "stages", "roofline", "sensors"
    }  # fmt: skip


def test_figures_are_plain_json_with_unique_harmless_names(drawn):
    found = every(drawn[1])
    names = [figure.name for figure in found]
    assert len(set(names)) == len(names)
    assert all(name.replace("-", "").isalnum() and name.isascii() for name in names)
    for figure in found:
        assert json.loads(json.dumps(figure.complete(), allow_nan=False))


def test_a_specification_names_only_fields_that_its_rows_have(drawn):
    for figure in every(drawn[1]):
        present = {name for row in figure.rows for name in row} | {"at", "label", "until_s", "why", "end"}
        assert set(fields(figure.spec)) <= present, figure.name


def test_no_figure_loads_anything(drawn):
    for figure in every(drawn[1]):
        assert '"url"' not in json.dumps(figure.spec)
        assert "href" not in json.dumps(figure.spec)


def test_slowdowns_are_those_of_the_summary(drawn):
    rows = drawn[1]["slowdown"][0].rows
    assert len(rows) == 4
    for row in rows:
        assert row["slowdown"] == pytest.approx(SHARED[row["sharing"]], rel=0.05)
        assert row["lo"] <= row["slowdown"] <= row["hi"]


def test_stages_keep_their_order_and_length(drawn):
    rows = [row for row in drawn[1]["stages"][0].rows if row["place"] == "alone" and row["of"] == "encoder"]
    assert [row["stage"] for row in rows] == ["load", "compute"]
    assert rows[1]["mean_ms"] == pytest.approx(3 * rows[0]["mean_ms"], rel=0.01)


def test_members_of_a_group_are_one_bar_as_long_as_their_mean(drawn):
    material = drawn[0]
    alone = next(stage for stage in material.stages if stage.cell.solo)
    members = [replace(alone, tenant=f"{alone.of}@{i}", mean_ms=ms, n=n) for i, ms, n in ((0, 10.0, 30), (1, 20.0, 10))]
    figure = stages_figure(replace(material, stages=tuple(members)), Condition.of(alone.cell))
    assert [(row["mean_ms"], row["requests"]) for row in figure.rows] == [(pytest.approx(12.5), 40)]


def test_counters_become_rates_and_levels_stay_levels(drawn):
    rows = [row for row in drawn[1]["sensors"][0].rows if "value" in row]
    busy = [row["value"] for row in rows if row["sensor"] == "cpu_busy, s per s"]
    assert not busy  # left out, since it never changes
    points = [point for point in drawn[0].samples if point.sensor == "cpu_busy"]
    assert [point.value for point in points] == pytest.approx([1.5] * len(points))
    assert min(row["value"] for row in rows if row["sensor"].startswith("temperature")) >= 50


def test_trials_with_a_disturbed_machine_are_marked(tmp_path):
    run = write_run(tmp_path / "run", verdict="unstable", failed=["no_steal"], reasons=["stolen"], blocks=1)
    (figure,) = figures(gather([run]))["sensors"]
    bands = [row for row in figure.rows if "until_s" in row]
    assert {row["why"] for row in bands} == {"no_steal"}
    assert [row["t_s"] for row in bands] == [0, 2, 4, 6]


def test_the_roof_bends_where_compute_meets_memory(drawn):
    rows = drawn[1]["roofline"][0].rows
    roof = [(row["intensity"], row["gflops_per_s"]) for row in rows if row["kind"] == "roof"]
    assert (10.0, 100.0) in roof
    assert max(height for _, height in roof) == 100.0
    tenants = [row for row in rows if row["kind"] == "tenant"]
    assert {row["name"] for row in tenants} == {"encoder", "decoder"}
    assert all(row["intensity"] == 20 for row in tenants)


def test_peak_rates_come_from_the_manifest_alone():
    kept = {"flops_per_s": {"float32": 1e9}, "bytes_per_s": 2e9, "cores": 3, "measured_utc": "2030"}
    assert peaks_of({"device": "cpu", "roofline": kept}).flops_per_s == {"float32": 1e9}
    for without in ({"device": "cpu"}, {"device": "sim:t4"}, {"roofline": {"flops_per_s": "?"}}, {"roofline": None}):
        assert peaks_of(without).flops_per_s == {}


def test_what_is_missing_is_named(tmp_path):
    found = figures(gather([write_run(tmp_path / "run", blocks=1)]))
    for kind in ("load", "roofline"):
        assert isinstance(found[kind][0], Absent)
        assert len(found[kind][0].reason) > 20


@pytest.mark.parametrize(
    ("levels", "at"),
    [
        ([(10, 1.0), (20, 1.1), (30, 5.0)], 20),
        ([(30, 5.0), (10, 1.0), (20, 1.1)], 20),
        ([(10, 1.0), (20, 1.5), (30, 1.9)], None),
        ([(10, 1.0), (20, 9.0)], None),
        ([], None),
    ],
)
def test_the_knee_is_the_last_level_before_the_median_doubles(levels, at):
    found = knee([RateLatency(*level) for level in levels])
    assert (found and found.rate_rps) == at


def test_the_knee_is_marked_in_the_figure(drawn):
    assert {row["rate_rps"] for row in drawn[1]["load"][0].rows if row["knee"]} == {40.0}


def test_a_curve_goes_as_far_as_its_requests_allow():
    values = np.arange(1, 1001, dtype=np.int64) * 1_000_000
    odds, latency = curve_points(values, 0)
    assert odds[0] == 1
    assert 250 < odds[-1] <= 1000 / 3
    at = dict(zip(odds, latency, strict=True))
    assert (at[2.0], at[10.0], at[100.0]) == (500, 900, 990)


def test_unfinished_requests_are_slower_than_all_others():
    values = np.arange(1, 101, dtype=np.int64)
    odds, _ = curve_points(values, 900)
    assert max(odds) <= 1000 / 900 + 1e-9
    assert curve_points(values[:0], 5) == ((), ())
    assert curve_points(values[:2], 0) == ((), ())


def test_a_long_run_of_many_tenants_stays_within_the_limit_of_points(tmp_path):
    loads = {f"poisson({rate})": (float(rate), 1.0) for rate in range(5, 15, 5)}
    run = write_run(tmp_path / "run", blocks=8, requests=400, loads=loads)
    material = gather([run])
    for figure in every(figures(material)):
        assert len(figure.rows) <= MOST_POINTS, figure.name
    shown = {(point.cell, point.block) for point in material.timelines}
    assert len(shown) == MOST_TRIALS_DRAWN * len({cell for cell, _ in shown})


def test_the_conditions_of_a_study_share_a_figure_while_they_are_few(drawn):
    (figure,) = drawn[1]["stp"]
    assert len({row["mix"] for row in figure.rows}) == 3
    assert len(drawn[1]["latency"]) == 3


def test_several_runs_are_distinguished(tmp_path):
    runs = [write_run(tmp_path / name, blocks=2) for name in "ab"]
    found = figures(gather(runs))
    for kind in ("stp", "throughput", "latency"):
        assert {row["run"] for row in found[kind][0].rows} == {"A", "B"}, kind


def test_runs_are_lettered_like_columns_of_a_spreadsheet():
    assert [letters(n) for n in (0, 1, 25, 26, 27, 51, 52)] == ["A", "B", "Z", "AA", "AB", "AZ", "BA"]


def test_exported_figures_of_a_simulated_run_are_stamped(tmp_path):
    pytest.importorskip("vl_convert", reason="vl-convert is not installed: cotenant[figures]")
    for simulated in (True, False):
        run = write_run(tmp_path / f"run-{simulated}", simulated=simulated, blocks=2)
        written = report([run], figures=tmp_path / f"figures-{simulated}").figures
        drawings = [path.read_text(encoding="utf-8") for path in written if path.suffix == ".svg"]
        assert drawings
        assert all(("SIMULATED" in drawing) == simulated for drawing in drawings)


def test_figures_for_a_paper_come_as_pdf_with_their_data(tmp_path):
    pytest.importorskip("vl_convert", reason="vl-convert is not installed: cotenant[figures]")
    written = report([write_run(tmp_path / "run", blocks=2)], figures=tmp_path / "figures", figures_for="paper").figures
    names = {path.stem for path in written}
    assert {path.name for path in written} == {f"{name}.{kind}" for name in names for kind in ("svg", "pdf", "csv")}
    assert all(path.read_bytes().startswith(b"%PDF") for path in written if path.suffix == ".pdf")
    assert all(path.read_text(encoding="utf-8").count("\n") > 1 for path in written if path.suffix == ".csv")
    for page in (path.read_bytes() for path in written if path.suffix == ".pdf"):
        assert re.search(rb"/MediaBox \[0 0 (252|522) ", page)
    for drawing in (path for path in written if path.suffix == ".svg"):
        (wide,) = re.findall(r'<svg[^>]* width="([\d.]+)pt"', drawing.read_text(encoding="utf-8"))
        assert float(wide) in {252.0, 522.0}, "a column of 3.5 inches, or two"


def test_devices_stand_side_by_side_in_a_figure_too(tmp_path):
    runs = [write_run(tmp_path / name, blocks=2, manifest={"device": name}) for name in ("cpu", "sim:t4")]
    (drawn,) = figures(gather(runs))["devices"]
    assert [(row["device"], row["mix"], row["sharing"]) for row in drawn.rows] == [
        ("cpu", "encoder+decoder", "processes"),
        ("t4", "encoder+decoder", "processes"),
    ]
    assert all(row["gain"] == pytest.approx(np.log2(row["ratio"])) for row in drawn.rows)
    assert "devices" not in figures(gather(runs[:1]))
    assert 'data-figure="devices"' not in report(runs, out=tmp_path / "all.html").html.read_text(encoding="utf-8")


def test_labels_beyond_the_lowest_and_the_highest_curve_are_inside_the_axes():
    layers = [layer for layer in mix_curves_spec()["spec"]["layer"] if layer["mark"]["type"] == "text"]
    assert {layer["mark"]["dy"] > 0 for layer in layers} == {True, False}
    for layer in layers:
        mark = layer["mark"]
        assert layer["encoding"]["y"]["scale"]["padding"] >= abs(mark["dy"]) + mark["fontSize"] / 2
