"""Where the time of solo requests goes, by model."""

from types import SimpleNamespace as Facts

import pytest

from cotenant.analyse.findings import StageShare, by_model
from cotenant.analyse.result import Result
from cotenant.reporting.main_table import main_table, stages_of
from cotenant.tenancy.interval import Estimate, Missing
from cotenant.text import NOTHING

TIMES = [
    StageShare("bert", "compute", 8.0),
    StageShare("bert", "to_host", 2.0),
    StageShare("bert", "to_device", 0.01),
    StageShare("resnet.small", "compute", 3.0),
    StageShare("resnet.large", "compute", 5.0),
]


def about(est: float, lo: float, hi: float) -> Estimate:
    return Estimate(est, lo, hi, 12, "blocks and the simulation's error")


def test_variants_of_a_model_are_one_row_with_the_mean_of_their_intervals():
    requests = {"resnet.small": about(3, 2, 6), "resnet.large": about(5, 4, 8)}
    bert, resnet = by_model(TIMES, requests)
    assert (resnet.time_ms.est, resnet.time_ms.lo, resnet.time_ms.hi) == pytest.approx((4, 3, 7))
    assert (bert.time_ms.lo, bert.time_ms.hi) == (None, None)


def test_an_end_that_one_variant_lacks_is_not_made_up():
    requests = {"resnet.small": about(3, 2, 6), "resnet.large": Missing("served nothing")}
    _, resnet = by_model(TIMES, requests)
    assert (resnet.time_ms.lo, resnet.time_ms.hi) == (None, None)


def test_the_table_shows_the_interval_and_leaves_stages_out_that_take_nearly_nothing():
    bert, _ = stages_of(by_model(TIMES, {"bert": about(10.0, 7.5, 14.0)})).rows
    assert bert == ("bert", "10.0 [7.50, 14.0] ms", "compute 80 %, to_host 20 %")


def test_models_without_a_valid_trial_have_no_figures(monkeypatch):
    def tenant(of, **verdicts):
        return Facts(of=of, trials_by_verdict=verdicts, mean_latency_ms=about(10.0, 7.5, 14.0))

    tenants = (tenant("bert", valid=1, unstable=4), tenant("resnet.small", unstable=5), tenant("resnet.large"))
    summary = Facts(tenants=tenants, mixes=(Facts(cell=Facts(solo=True), trials_by_verdict={"valid": 1}),))
    result = Result((), ({},), summary, {}, (), (), (), (), stages=tuple(TIMES))  # type: ignore[arg-type]
    assert {share.of for share in result.valid_stages} == {"bert"}
    monkeypatch.setattr("cotenant.reporting.main_table.capacity_curves", lambda _: ())
    table = main_table(result)
    assert table is not None
    assert table.rows == (
        ("bert", "10.0 [7.50, 14.0] ms", "compute 80 %, to_host 20 %"),
        ("resnet", NOTHING, "no valid trial"),
    )
