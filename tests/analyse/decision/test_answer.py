"""The choice between the ways to share a mix, and the order of choices."""

from dataclasses import replace

import pytest

from cotenant.analyse.decision.answer import Answer, _importance, choose, decide, effort
from cotenant.analyse.sharing.summary import MixSummary, Summary
from tests.analyse.decision.ways import about, cell, choice, objective, standing, tenant, way, with_objectives

KEPT, OPEN, MISSED = objective(), objective(29.0, answer="open", chance=0.6), objective(40.0, answer="missed", chance=0)


def names(found):
    return [option.cell.sharing for option in found.options]


@pytest.mark.parametrize(
    ("chance", "favours", "confidence"), [(0.5, "share", 0.5), (0.49, "apart", 0.51), (0.8, "share", 0.8)]
)
def test_an_open_choice_favours_the_likelier_side(chance, favours, confidence):
    option = with_objectives("mps", objective(answer="open", chance=chance))
    found = choice(option, verdict="open", because="too few requests")
    assert (found.favours, found.confidence) == (favours, pytest.approx(confidence))
    for because in ("no trial passed", "disturbed"):
        none = choice(option, verdict="open", because=because)
        assert (none.favours, none.confidence) == ("open", None)
    assert choice(option, verdict="apart").favours == "apart"
    assert choice(option, verdict="apart", because="too few blocks").confidence is None


@pytest.mark.parametrize(
    ("failed", "alone_rps", "because"),
    [
        (("load_sustained",), 50.0, "missed alone"),
        (("load_sustained",), 100.0, "no trial passed"),
        (("load_sustained", "no_steal"), 50.0, "no trial passed"),
    ],
)
def test_who_cannot_keep_up_even_alone_decides_though_no_trial_passed(failed, alone_rps, because):
    behind = standing(
        "a", MISSED, alone=MISSED, rate_rps=100.0, served_rps=50.0, measured_s=9.0, served_alone_rps=alone_rps,
        measured_alone_s=9.0,
    )  # fmt: skip
    found = choose([way("mps", 1.5, [behind, standing("b", KEPT)], valid=0, failed=failed)])
    assert found.because == because
    assert found.verdict == ("apart" if because == "missed alone" else "open")


def test_rivals_are_trusted_as_fair_and_nearly_as_good():
    best = way("mps", 2.0)
    others = [
        way("streams", 1.95), way("threads", 1.79, half=1.0), way("pinned", 1.95, valid=0),
        way("processes", 1.95, fairness=0.4),
    ]  # fmt: skip
    found = choice(best, *others)
    assert [rival.cell.sharing for rival in found.rivals] == ["streams"]
    assert choice(best, *others, verdict="open").rivals == ()
    unfair = choice(way("mps", 2.0, fairness=0.4), *others)
    assert [rival.cell.sharing for rival in unfair.rivals] == ["streams", "processes"]
    kept = choice(
        with_objectives("mps", KEPT), with_objectives("streams", KEPT, fairness=0.4), with_objectives("threads", OPEN)
    )
    assert [rival.cell.sharing for rival in kept.rivals] == ["streams"], "objectives stand above fairness"


def test_rivals_with_a_better_estimate_are_passed_over():
    found = choice(way("mps", 2.0), way("streams", 2.0), way("threads", 1.99), way("pinned", 2.1))
    assert [option.cell.sharing for option in found.passed_over] == ["streams", "pinned"]


def test_ways_that_starve_a_tenant_for_more_work():
    best = way("mps", 1.5)
    more, same, trustless = (
        way("a", 1.6, fairness=0.4),
        way("b", 1.5, fairness=0.4),
        way("c", 1.6, fairness=0.4, valid=0),
    )
    assert choice(best, more, same, trustless, way("d", 1.7)).starving == (more,)
    assert choice(best, more, verdict="open").starving == ()
    assert choice(way("mps", 1.5, fairness=0.4), more).starving == ()
    assert choice(with_objectives("mps", KEPT), more).starving == ()


def test_the_way_that_keeps_every_objective_comes_first_whatever_its_work():
    found = choose([with_objectives("mps", OPEN, work=1.9), with_objectives("threads", KEPT, work=1.1)])
    assert (found.verdict, found.because, names(found)) == ("share", "keeps every objective", ["threads", "mps"])


def test_a_tenant_that_misses_alone_decides_before_everything():
    alone = standing("a", KEPT, alone=MISSED)
    found = choose([way("mps", 1.1, [alone]), way("threads", 1.9, [alone])])
    assert (found.verdict, found.because, names(found)) == ("apart", "missed alone", ["threads", "mps"])


@pytest.mark.parametrize(("chance", "first"), [(0.58, "threads"), (0.57, "mps")])
def test_of_open_ways_the_likeliest_then_the_one_with_more_work(chance, first):
    likely = with_objectives("mps", OPEN, work=1.1)
    other = with_objectives("threads", replace(OPEN, chance=chance), work=1.9)
    found = choose([likely, other, with_objectives("pinned", MISSED, work=1.95)])
    assert (found.verdict, found.because) == ("open", "too few requests")
    assert (names(found)[0], names(found)[2]) == (first, "pinned")


def test_if_all_ways_miss_the_nearest_comes_first_unless_a_way_is_hidden():
    far, near = with_objectives("mps", objective(50.0, answer="missed")), with_objectives("threads", MISSED)
    found = choose([far, near])
    assert (found.verdict, found.because, names(found)) == ("apart", "missed shared", ["threads", "mps"])
    hidden = with_objectives("pinned", OPEN, valid=0)
    found = choose([far, near, hidden])
    assert (found.verdict, found.because, names(found)) == ("open", "no trial passed", ["pinned", "threads", "mps"])
    worse = with_objectives("pinned", MISSED, valid=0)
    found = choose([far, worse, near])
    assert (found.because, names(found)) == ("missed shared", ["threads", "mps", "pinned"])


@pytest.mark.parametrize(
    ("options", "verdict", "because"),
    [
        ([way(work=1.5)], "share", "does more work"),
        ([way(work=1.5, fairness=0.4)], "apart", "starves a tenant"),
        ([way(work=0.8)], "apart", "does less work"),
        ([way(work=1.0, half=0.05)], "apart", "gains nothing"),
        ([way(work=1.0, half=0.06)], "open", "too few blocks"),
        ([way(work=1.0, half=None)], "open", "too few blocks"),
        ([way(work=2.5)], "open", "disturbed"),
        ([way(work=0.8), way("threads", 0.9, valid=0)], "open", "no trial passed"),
        ([way(work=0.8), way("threads", 0.8, valid=0)], "apart", "does less work"),
        ([way(work=1.5), way("threads", 1.9, valid=0)], "share", "does more work"),
        ([way(work=1.5, valid=0)], "open", "no trial passed"),
        ([way(work=1.1, half=0.01), way("threads", 1.9, fairness=0.4)], "share", "does more work"),
    ],
)
def test_what_work_decides(options, verdict, because):
    found = choose(options)
    assert (found.verdict, found.because) == (verdict, because)
    assert len(found.options) == len(options)


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ([way("mps", 1.0), way("threads", 1.5)], ["threads", "mps"]),
        ([way("mps", 1.5), way("threads", 1.47)], ["threads", "mps"]),  # 2 % less: easier to set up
        ([way("mps", 1.5), way("threads", 1.469)], ["mps", "threads"]),
        ([way("mps[50, 50]", 1.5), way("mps[25, 75]", 1.51)], ["mps[25, 75]", "mps[50, 50]"]),
        ([way("new", 1.5), way("mig", 1.5)], ["mig", "new"]),
        (
            [with_objectives("mps", objective(20.0)), with_objectives("threads", objective(20.5))],
            ["threads", "mps"],
        ),
        (
            [with_objectives("mps", objective(20.0)), with_objectives("threads", objective(21.0))],
            ["mps", "threads"],
        ),
    ],
)
def test_ties_go_to_headroom_then_to_the_easiest_setup(options, order):
    assert names(choose(options)) == order


def test_effort_grows_from_processes_to_partitions():
    assert [effort(way(mode)) for mode in ("processes", "mps", "mps[1]", "mig[2]", "other")] == [0, 5, 5, 8, 9]


def test_the_main_the_best_shared_and_the_undecided_mix():
    apart, shared = choice(way(), verdict="apart"), choice(way())
    doubt = choice(way(work=1.01, half=0.2), verdict="open", because="too few blocks")
    found = Answer((), (apart, doubt, shared))
    assert (found.main, found.best_shared, found.undecided) == (apart, doubt, (doubt,))
    none = Answer((), ())
    assert (none.main, none.best_shared, none.undecided) == (None, None, ())


def mix(place, work, tenants=("a", "b")):
    metrics = {"stp": about(work, work - 0.01, work + 0.01), "antt": about(1.2), "fairness": about(0.9)}
    return MixSummary(place, tenants, 3, {}, metrics, "valid", {}, {"valid": 3})


def free(name, place, **more):
    return tenant(name, slo_ms=None, cell=place, **more)


def test_standings_hold_the_tenant_beside_itself_alone():
    together, apart = cell(), cell("apart")
    alone = tenant("a", p90=10.0, solo=True, rps=20.0, requests=100)
    shared = tenant("a", rps=5.0, requests=100, rate_rps=9.0, software="eager", slowdown=2.0)
    summary = Summary((alone, shared, free("b", together), free("a", apart)), (mix(together, 1.5), mix(apart, 2.0)), {})
    (found,) = decide(summary, "my.yaml").choices
    assert (found.study, names(found)) == ("my.yaml", ["mps"])
    first, second = found.best.standings
    assert (first.measured_s, first.measured_alone_s) == (20.0, 5.0)
    assert (first.served_rps, first.served_alone_rps, first.rate_rps) == (5.0, 20.0, 9.0)
    assert (first.alone.seen.est, first.shared.seen.est, first.slowdown.est) == (10.0, 20.0, 2.0)
    assert (first.software, first.generates) == ("eager", False)
    assert (second.alone, second.shared, second.measured_alone_s, second.served_alone_rps) == (None, None, 0.0, None)


def test_a_tenant_alone_counts_only_under_the_same_conditions():
    alone = tenant("a", solo=True, cell=cell("alone", "a", solo=True, load="closed(2)"))
    shared = tenant("a")
    (found,) = decide(Summary((alone, shared), (mix(cell(), 1.5, ("a",)),), {})).choices
    assert found.best.standings[0].alone is None


def test_who_misses_alone_and_under_which_of_several_conditions():
    def alone(name, answer, **where):
        return tenant(name, answer=answer, cell=cell("alone", name, solo=True, **where))

    watts = '{"power_w": 200}'
    found = decide(Summary((alone("a", "missed", settings=watts), alone("b", "met"), alone("c", "missed")), (), {}))
    assert [(each.tenant, each.under) for each in found.missed_alone] == [("a", "200 W"), ("c", "as found")]
    found = decide(Summary((alone("a", "missed"), alone("b", "undecided")), (), {}))
    assert [(each.tenant, each.under) for each in found.missed_alone] == [("a", "")]
    found = decide(Summary((alone("a", "missed", load="x", device="cpu"), alone("a", "missed", load="y", device="gpu")),
                           (), {}))  # fmt: skip
    assert [each.under for each in found.missed_alone] == ["cpu, x", "gpu, y"]


def test_choices_are_ordered_by_tenants_then_verdict_then_work():
    places = {name: cell(mix=name) for name in ("three", "open", "apart", "good", "better")}
    works = {"three": 0.5, "open": 1.0, "apart": 0.6, "good": 1.4, "better": 1.6}
    tenants, mixes = [], []
    for name, place in places.items():
        members = ("a", "b", "c") if name == "three" else ("a", "b")
        tenants += [free(member, place) for member in members]
        mixes.append(mix(place, works[name], members))
    mixes[1] = replace(mixes[1], metrics={**mixes[1].metrics, "stp": about(1.1, 0.8, 1.4)})
    found = decide(Summary(tuple(tenants), tuple(mixes), {}))
    assert [each.best.cell.mix for each in found.choices] == ["three", "better", "good", "open", "apart"]
    assert found.main.best.cell.mix == "three"
    assert found.best_shared.best.cell.mix == "better"


def test_larger_mixes_come_first_then_what_to_share_then_what_is_sure_then_more_work():
    larger = choice(way("mps", 1.2, [standing(name) for name in "abc"]), verdict="apart")
    more, less = choice(way("mps", 2.0)), choice(way("mps", 1.5))
    likely = objective(answer="open", chance=0.9)
    unsure = choice(with_objectives("mps", likely, likely, work=9.0), verdict="open", because="too few requests")
    unknown = choice(way("mps", 1.1), verdict="open", because="no trial passed")
    apart = choice(way("mps", 1.9), verdict="apart")
    assert (unsure.favours, unknown.favours) == ("share", "open")
    expected = [larger, more, less, unsure, unknown, apart]
    assert sorted([unknown, apart, unsure, less, larger, more], key=_importance) == expected
