"""Classes of rows: errors, calibrated intervals, the best simple law; and the product driven as by a user."""

import os
from pathlib import Path

import numpy as np
import pytest

from cotenant.prediction.trust import Class
from validation.product import ask
from validation.users.classes import judge
from validation.users.page import markdown
from validation.users.row import UserRow

DATA = Path(os.environ.get("COTENANT_DATA") or Path(__file__).parents[2].parent / "shared" / "data")
KIND = Class("ampere", "eager", "vision", "mps", calibrated=False)


def rows(count=60, groups=6, spread=0.1):
    noise = np.random.default_rng(1).normal(0.0, spread, count)
    return [
        UserRow(
            "demo", str(n), f"model {n % groups}", KIND, "slowdown", float(np.exp(noise[n])) * 2, 2.0, features=(2.0,)
        )
        for n in range(count)
    ]


def test_intervals_of_other_groups_cover_what_is_left_out():
    [judged] = judge(rows())
    assert judged.error.n == 60
    assert judged.coverage >= 0.85
    assert judged.error.low < 1 < judged.error.high
    assert judged.half_width < 2.5 * judged.error.mean_error


def test_a_closer_simple_law_is_reported():
    biased = [UserRow("demo", "x", f"g{n}", KIND, "slowdown", 3.0, 2.0) for n in range(30)]
    [judged] = judge(biased)
    assert judged.law_is_better
    assert "**0.0 (a constant)**" in markdown([judged], biased)


def test_a_law_is_judged_by_groups_it_was_not_fitted_on():
    apart = [UserRow("demo", "x", f"g{n % 2}", KIND, "slowdown", 2.0 + n % 2, 2.0) for n in range(30)]
    [judged] = judge(apart)
    assert judged.law_error == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_a_single_group_has_no_law():
    [judged] = judge([UserRow("demo", "x", "only", KIND, "slowdown", 2.0, 3.0) for _ in range(30)])
    assert not judged.law_is_better
    assert "none: a single group" in markdown([judged], [])


def alone(phase, group, measured, *, software="eager", family="ampere"):
    kind = Class(family, software, phase, "alone", calibrated=False)
    return UserRow("demo", group, group, kind, "time", measured, 1.0, features=(1.0, 1.0))


def of_phase(found, phase):
    return next(one for one in found if one.kind.phase == phase)


VISION = [alone("vision", f"v{n}", 0.9 + 0.2 * n / 19) for n in range(20)]
ENCODERS = [alone("encoder", "bert", 4.0) for _ in range(9)] + [alone("encoder", "roberta", 1.0)]


def test_a_class_of_few_models_has_the_range_of_all_models_of_its_software_and_of_its_own_rows():
    encoder = of_phase(judge([*ENCODERS, *VISION]), "encoder")
    assert encoder.error.groups == 2
    assert encoder.error.like == 20
    assert encoder.error.low <= 0.9, "other models of its software were that fast"
    assert encoder.error.high >= 4.0, "a class is never promised to be closer than its own rows were"
    assert encoder.coverage == pytest.approx(0.1), "BERT left out, no other model shows how slow it is"
    assert "(20)" in markdown([encoder], ENCODERS)


def test_a_small_class_whose_groups_differ_borrows_from_other_gpus():
    def measured(family, group, *values):
        return [alone("encoder", group, value, family=family, software="tensorrt") for value in values]

    found = judge([
        *measured("ampere", "a30", 1.1, 1.12),
        *measured("ampere", "a100", 0.95, 0.96),
        *measured("turing", "t4", 0.85, 1.15),
    ])  # fmt: skip
    ampere, turing = found
    assert ampere.error.like == 1
    assert ampere.coverage == 1.0
    assert ampere.error.low <= 0.85
    assert ampere.error.high >= 1.15
    assert turing.error.like == 0, "a single group can't show that it isn't covered"


def test_a_class_of_many_rows_stands_for_itself():
    encoder = of_phase(judge([*ENCODERS * 3, *VISION]), "encoder")
    assert encoder.error.like == 0
    assert encoder.error.high >= 4.0


@pytest.mark.parametrize("change", [{"software": "vllm"}, {"phase": "training"}, {"family": "volta"}])
def test_other_software_other_gpus_and_training_lend_nothing_to_inference(change):
    others = [alone(**{"phase": "vision", "group": f"v{n}", "measured": 1.0} | change) for n in range(20)]
    encoder = of_phase(judge([*ENCODERS, *others]), "encoder")
    assert encoder.error.like == 0
    assert encoder.error.high >= 4.0


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
