"""Classes of rows: errors, calibrated intervals, the best simple law; and the product driven as by a user."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotenant.prediction.data_sets import Between
from cotenant.prediction.trust import Class
from validation.product import ask
from validation.users.classes import judge
from validation.users.page import markdown
from validation.users.ranges import learn
from validation.users.row import UserRow

DATA = Path(os.environ.get("COTENANT_DATA") or Path(__file__).parents[2].parent / "shared" / "data")
KIND = Class("ampere", "eager", "vision", "mps", calibrated=False)


def many(between=0.03):
    """Four sources with three models each, ten rows of each."""
    draw = np.random.default_rng(1)
    rows = []
    for source in range(4):
        shift = draw.normal(0.0, between)
        for model in range(3):
            own = shift + draw.normal(0.0, 0.02)
            rows += [
                UserRow(
                    f"source {source}", str(number), f"model {model}", KIND, "slowdown",
                    2 * float(np.exp(own + draw.normal(0.0, 0.05))), 2.0, features=(2.0,),
                )
                for number in range(10)
            ]  # fmt: skip
    return rows


def test_ranges_hold_data_sets_and_sources_left_out():
    found = judge(many())
    [judged] = found.judged
    assert judged.validated
    assert judged.low < 1 < judged.high
    for cases in (found.without_set, found.without_source):
        assert sum(case.inside for case in cases) / len(cases) >= 0.88
    assert len(found.without_set) == 120


def test_a_source_that_is_far_off_widens_ranges_for_the_next():
    near, apart = judge(many()), judge(many(between=0.3))
    assert apart.judged[0].half_width > 2 * near.judged[0].half_width
    assert apart.validated.steps["slowdown"].effects["source"] > near.validated.steps["slowdown"].effects["source"]


def test_a_data_set_left_out_chooses_nothing_about_its_own_range():
    far = [replace(row, group="far", measured=3 * row.measured) for row in many()[:10]]
    kept, found = learn(many()), judge([*many(), *far])
    own = {case.half_width for case in found.without_set if case.row.group == "far"}
    steps = kept.steps["slowdown"]
    mean, deviation = Between("slowdown", kept.sets, steps).expected(KIND)
    low, high = np.exp(mean - steps.validated * deviation), np.exp(mean + steps.validated * deviation)
    assert min(own) == pytest.approx((high - low) / 2, rel=1e-3)
    assert not any(case.inside for case in found.without_set if case.row.group == "far")
    assert found.judged[0].half_width > max(own), "what ships has seen it"


def test_batches_of_one_model_are_one_data_set_and_borrow():
    rows = [replace(row, group="only", data_set="one", gpu="g") for row in many()]
    [judged] = judge(rows).judged
    assert judged.data_sets == 1
    assert not judged.validated
    assert "1, borrows" in markdown(judge(rows), rows)


def test_the_page_shows_coverage_by_data_set_and_half_widths_before():
    rows = [replace(row, group=f"model {number % 2}") for number, row in enumerate(many())] * 2
    page = markdown(judge(rows), rows, before={(str(KIND), "slowdown"): 0.034})
    assert ", 0.03 |" in page
    assert "| model 1, , source 0 | slowdown, mps | vision | validated |" in page


def test_times_beside_others_have_the_errors_of_the_time_alone_and_of_the_slowdown():
    alone = [replace(row, kind=replace(KIND, sharing="alone"), quantity="time") for row in many()]
    times = [replace(row, quantity="time") for row in many()]
    found = judge([*many(), *alone, *times])
    widths = {row.row.quantity + row.row.kind.sharing: row.half_width for row in found.without_set}
    assert widths["timemps"] > max(widths["slowdownmps"], widths["timealone"])


def test_a_closer_simple_law_is_reported():
    biased = [replace(row, measured=3.0, simulated=2.0) for row in many()]
    found = judge(biased)
    assert found.judged[0].law_is_better
    assert "**0.0 (a constant)**" in markdown(found, biased)
    assert found.validated.laws


def test_a_law_is_judged_by_data_sets_it_was_not_fitted_on():
    apart = [UserRow("demo", "x", f"g{n % 2}", KIND, "slowdown", 2.0 + n % 2, 2.0) for n in range(30)]
    assert judge(apart).judged[0].law_error == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_a_study_is_carried_out_as_a_run_would():
    found = ask({
        "device": "sim:a100-sxm4-40gb",
        "tenants": {"a": {"workload": "resnet18-mini", "batch": 8}},
        "mixes": [{"copies": {"a": [2]}}],
        "sharing": ["processes", "mps"],
        "window": "0.2s",
    })  # fmt: skip
    assert found.solo["a"].mean_ms > 0
    assert {sharing for _, sharing in found.shared} == {"processes", "mps"}


@pytest.mark.skipif(not (DATA / "sharing").is_dir(), reason=f"no measured data in {DATA} (set COTENANT_DATA)")
def test_turns_of_a_large_model_are_within_a_tenth_of_the_measurement():
    from validation.users.sharing import nos

    turns = [row for row in nos(DATA) if row.kind.sharing == "processes"]
    slowdowns = [row for row in turns if row.quantity == "slowdown" and not row.kind.calibrated]
    times = [row for row in turns if row.quantity == "time" and row.kind.calibrated]
    assert len(slowdowns) == len(times) == 3
    assert all(row.simulated == pytest.approx(row.measured, rel=0.1) for row in [*slowdowns, *times])
