"""One way to share: what keeps an objective, how likely, what is starved, behind, disturbed or a gain."""

import math
from dataclasses import replace

import pytest
from scipy import stats

from cotenant.analyse.decision.option import (
    MeasuredObjective,
    SharingOption,
    behind,
    chance_below,
    mix_name,
    objective_of,
)
from cotenant.analyse.sharing.summary import TokenSummary
from cotenant.tenancy.records import ModelErrorRecord
from tests.analyse.decision.ways import about, objective, standing, tenant, way, with_objectives

ERROR = ModelErrorRecord("kind", True, "", time=(0.9, 1.1), slowdown=(0.8, 1.25), tail=(0.5, 2.0), shared_tail=(0.5, 2))


def test_an_objective_is_named_by_its_metric_and_quantile():
    assert objective().name == "p90"
    assert MeasuredObjective(0.999, 1.0, None, 1.0, "kept", None, 1.0).name == "p99.9"
    assert MeasuredObjective(0.95, 1.0, None, 1.0, "kept", None, 1.0, "ttft").name == "ttft p95"


def test_headroom_is_the_share_of_the_limit_that_is_left():
    assert objective(20.0, 25.0).headroom == pytest.approx(0.2)
    assert objective(30.0, 25.0).headroom == pytest.approx(-0.2)
    assert objective(None).headroom is None
    assert MeasuredObjective(0.9, 1.0, about(None), 1.0, "kept", None, 1.0).headroom is None


@pytest.mark.parametrize(("answer", "kept"), [("met", "kept"), ("missed", "missed"), ("undecided", "open")])
def test_an_objective_as_the_requests_decide_it(answer, kept):
    found = objective_of(tenant(answer=answer, needs_n=150))
    assert (found.answer, found.quantile, found.limit_ms, found.seen.est, found.share_in_time) == (
        kept, 0.9, 30.0, 20.0, 0.95,
    )  # fmt: skip
    assert found.more_s == (5.0 if kept == "open" else None), "50 more requests at 10 per second"


def test_without_an_objective_or_a_known_quantile():
    assert objective_of(tenant(slo_ms=None)) is None
    assert objective_of(replace(tenant(), slo_ms=None)) is None
    assert objective_of(tenant(quantile=0.8)).seen is None
    assert objective_of(tenant(answer="undecided")).more_s is None
    assert objective_of(tenant(answer="undecided", needs_n=150, rps=0.0)).more_s is None
    assert objective_of(tenant(answer="undecided", needs_n=90)).more_s == 0


def test_the_time_to_first_token_is_that_of_the_tokens():
    slo = replace(tenant().slo, metric="ttft")
    tokens = TokenSummary({"p90": about(7.0)}, {"p90": about(8.0)}, {}, about(1.0))
    assert objective_of(tenant(slo=slo, tokens=tokens)).seen.est == 7.0
    assert objective_of(tenant(slo=slo)).seen is None
    assert objective_of(tenant(slo=slo, tokens=tokens)).metric == "ttft"


@pytest.mark.parametrize(
    ("p90", "lo", "hi", "answer"),
    [
        (20.0, 10.0, 30.0, "open"),
        (20.0, 10.0, 29.9, "kept"),
        (40.0, 30.0, 50.0, "open"),
        (40.0, 30.1, 50.0, "kept"),
        (15.0, None, None, "open"),
        (14.9, None, None, "kept"),
        (60.0, None, None, "open"),
        (60.1, None, None, "kept"),
        (None, None, None, "kept"),
    ],
)
def test_a_simulation_that_may_be_wrong_across_the_limit_leaves_it_open(p90, lo, hi, answer):
    found = objective_of(tenant(p90=p90, lo=lo, hi=hi, simulated=True, error=ERROR))
    assert found.answer == answer
    assert objective_of(tenant(p90=p90, lo=lo, hi=hi)).answer == "kept", "requests that were measured decide alone"


def test_no_number_of_simulated_requests_settles_the_simulations_error():
    near = {"simulated": True, "error": ERROR, "answer": "undecided", "needs_n": 150}
    assert objective_of(tenant(p90=20.0, **near)).more_s is None
    assert objective_of(tenant(p90=1.0, **near)).more_s == 5.0


def test_without_an_interval_the_late_requests_tell_the_chance():
    found = objective_of(tenant(share=0.95, n=100)).chance
    assert found == pytest.approx(stats.beta.sf(0.9, 95.5, 5.5))
    assert objective_of(tenant(lo=10.0, hi=None)).chance == pytest.approx(found)
    assert objective_of(tenant(p90=None, simulated=True)).chance == pytest.approx(found)


def test_with_an_interval_its_distance_from_the_limit_tells_the_chance():
    measured = objective_of(tenant(p90=20.0, lo=15.0, hi=40.0)).chance
    assert measured == pytest.approx(stats.norm.cdf(1.96 * math.log(1.5) / math.log(2)))
    simulated = objective_of(tenant(p90=20.0, simulated=True, error=ERROR)).chance
    assert simulated == pytest.approx(stats.norm.cdf(1.645 * math.log(1.5) / math.log(2)))
    assert objective_of(tenant(p90=20.0, simulated=True)).chance == 1.0, "no error is known"
    assert objective_of(tenant(p90=40.0, simulated=True)).chance == 0.0


@pytest.mark.parametrize(
    ("est", "ends", "limit", "chance"),
    [
        (10.0, (5.0, 20.0), 10.0, 0.5),
        (10.0, (5.0, 40.0), 20.0, stats.norm.cdf(1.0)),
        (10.0, (2.5, 20.0), 5.0, stats.norm.cdf(-1.0)),
        (10.0, (0.0, 20.0), 5.0, 0.5),
        (10.0, (10.0, 10.0), 10.0, 1.0),
        (10.0, (10.0, 10.0), 9.9, 0.0),
    ],
)
def test_the_chance_is_by_the_end_on_the_limits_side(est, ends, limit, chance):
    assert chance_below(est, ends, limit, 2.0) == pytest.approx(chance, abs=1e-6)


@pytest.mark.parametrize(
    ("rate", "served", "seconds", "late"),
    [
        (None, 1.0, 10.0, False),
        (10.0, None, 10.0, False),
        (10.0, 0.0, 10.0, True),
        (100.0, 87.0, 10.0, True),  # 950 less 2.33 times the root of 1,000 is 876.3 requests
        (100.0, 87.6, 10.0, True),
        (100.0, 87.7, 10.0, False),
        (100.0, 94.0, 1e6, True),
        (100.0, 95.0, 1e6, False),
    ],
)
def test_behind_is_by_more_than_chance(rate, served, seconds, late):
    assert behind(rate, served, seconds) is late


def test_behind_is_by_the_requests_that_came_not_by_the_stated_rate():
    few = standing(rate_rps=100.0, arrived_rps=80.0, served_rps=79.0, measured_s=100.0)
    assert not few.overloaded, "fewer came than stated, and they were served"
    many = standing(rate_rps=100.0, arrived_rps=130.0, served_rps=100.0, measured_s=100.0)
    assert many.overloaded
    assert standing(
        rate_rps=100.0, arrived_alone_rps=130.0, served_alone_rps=100.0, measured_alone_s=100.0
    ).overloaded_alone
    assert not standing(arrived_rps=130.0, served_rps=100.0, measured_s=100.0).overloaded, "a closed load"


def test_a_tenant_may_be_behind_shared_alone_or_not_at_all():
    tenant = standing(rate_rps=100.0, served_rps=50.0, measured_s=10.0, served_alone_rps=99.0, measured_alone_s=10.0)
    assert (tenant.rate_given, tenant.overloaded, tenant.overloaded_alone) == (True, True, False)
    tenant = replace(tenant, served_rps=99.0, served_alone_rps=50.0)
    assert (tenant.overloaded, tenant.overloaded_alone) == (False, True)
    assert not standing().rate_given
    assert mix_name([standing("g#1"), standing("g#2"), standing("b")]) == "g x2 + b"


def test_the_gauge_is_the_delay_only_if_every_rate_is_given():
    given, closed = standing("a", rate_rps=1.0), standing("b")
    assert way(standings=[given, given]).gauge.est == 1.2
    assert way(standings=[given, closed]).gauge.est == 1.5
    assert not way(standings=[]).rates_given


@pytest.mark.parametrize(
    ("work", "ends", "good"),
    [(1.8, (1.7, 2.0), True), (1.79, (1.7, 2.0), False), (1.9, (1.8, 1.99), False), (1.9, (None, None), True)],
)
def test_as_good_is_near_by_estimate_and_interval(work, ends, good):
    assert way(work=work, ends=ends).as_good_as(way(work=2.0), 0.1) is good
    assert not way(work=None).as_good_as(way(), 0.1)
    assert not way().as_good_as(way(work=None), 0.1)


@pytest.mark.parametrize(("delay", "good"), [(1.32, False), (1.31, False), (1.25, True), (1.1, True)])
def test_as_good_with_given_rates_is_as_short_a_delay(delay, good):
    standings = [standing("a", rate_rps=1.0)]
    mine, best = (way(standings=standings, delay=each) for each in (delay, 1.2))
    assert mine.as_good_as(best, 0.1) is good, "its interval begins 0.05 below it"
    assert not way(standings=standings, delay=1.25).as_good_as(best, 0.01)


@pytest.mark.parametrize(("fairness", "fair"), [(0.5, True), (0.49, False), (None, True)])
def test_no_tenant_makes_less_than_half_the_progress_of_another(fairness, fair):
    assert way(fairness=fairness).fair is fair
    found = way()
    metrics = {**found.mix.metrics, "fairness": about(0.4, 0.3, 0.5)}
    assert SharingOption(replace(found.mix, metrics=metrics), found.standings).fair, "the interval's upper end decides"


def test_one_valid_trial_is_enough_to_be_trusted():
    assert [way(valid=count).trusted for count in (0, 1)] == [False, True]


@pytest.mark.parametrize(
    ("answers", "kept"),
    [
        ((), None), (("kept", "kept"), "kept"), (("kept", "open"), "open"), (("open", "missed"), "missed"),
        (("kept", "missed"), "missed"),
    ],
)  # fmt: skip
def test_a_way_keeps_what_all_its_tenants_keep(answers, kept):
    assert with_objectives("mps", *(objective(answer=answer) for answer in answers)).kept == kept


def test_the_least_headroom_and_the_chance_of_all():
    found = with_objectives("mps", objective(20.0, chance=0.5), objective(27.0, chance=0.4), objective(None, chance=1))
    assert (found.headroom, found.chance) == (pytest.approx(0.1), pytest.approx(0.2))
    assert len(found.objectives) == 3
    assert way().headroom == 0.0


def test_without_objectives_the_chance_is_that_of_more_work_than_turns():
    side = math.log(1.2) / math.log(1.2 / 0.9)
    assert way(work=1.2, ends=(0.9, 1.5)).chance == pytest.approx(stats.norm.cdf(1.96 * side))
    assert way(work=1.2, ends=(0.9, 1.5), simulated=True).chance == pytest.approx(stats.norm.cdf(1.645 * side))
    assert [way(work=1.5, ends=ends).chance for ends in ((None, 2.0), (1.0, None))] == [0.5, 0.5]
    assert way(work=None).chance == 0.5


@pytest.mark.parametrize(("lo", "disturbed"), [(2.2, False), (2.21, True), (None, False)])
def test_more_work_than_that_of_all_tenants_alone_is_not_believed(lo, disturbed):
    assert way(work=2.5, ends=(lo, 3.0)).disturbed is disturbed


@pytest.mark.parametrize(
    ("ends", "gain"),
    [
        ((1.006, 1.2), "more"), ((1.005, 1.2), "open"), ((0.8, 0.99), "less"), ((0.8, 1.0), "open"),
        ((0.95, 1.05), "same"), ((0.94, 1.05), "open"), ((0.95, 1.06), "open"), ((None, 1.2), "unknown"),
        ((1.1, None), "unknown"),
    ],
)  # fmt: skip
def test_a_gain_by_the_ends_of_the_interval(ends, gain):
    assert way(work=1.0, ends=ends).gain(0.05) == gain
    assert way(work=None).gain(0.05) == "unknown"
