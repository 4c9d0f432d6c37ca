"""What tenants contend for, who slows whom, whether sharing pays, and who has more of the device than it needs."""

import math
from dataclasses import replace

import pytest

from cotenant.analyse.decision.answer import Answer
from cotenant.analyse.explanation.binding import Binding
from cotenant.analyse.explanation.contention import (
    ContendingPair,
    Fight,
    _fight,
    _memory_resource,
    _sides,
    _worth,
    contribution,
    stories,
    unneeded_shares,
)
from cotenant.analyse.explanation.split import CLOCK, CORES, HOST, MEMORY, QUEUE, WORK, Split
from cotenant.analyse.sharing.evidence import Peaks
from cotenant.analyse.sharing.summary import MixSummary, Summary
from cotenant.tenancy.interval import Missing
from tests.analyse.decision.ways import about, cell, choice, objective, standing, way


def alone(of="a", serving="compute", *, cores=1.0, compute=0.5, bandwidth=0.3, busy=None, ms=10.0, **more):
    return Binding(
        of, more.get("load", "closed(1)"), "{}", serving, serving, "clear", "so it is", about(ms), cores, compute,
        bandwidth, busy, {},
    )  # fmt: skip


def split(name="a", total=(1.5, 1.4, 1.6), place=None, **parts):
    known = {"queueing": QUEUE, "cores": CORES, "clock": CLOCK, "memory": MEMORY, "host": HOST, "work": WORK}
    return Split(
        place or cell(), name, name, about(*total), {known[part]: about(*each) for part, each in parts.items()},
        about(1.0), None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "objectives", "worth"),
    [
        ((1.006, 1.2), (), "yes"), ((1.005, 1.2), (), "open"), ((0.8, 0.99), (), "no"), ((0.8, 1.0), (), "open"),
        ((1.1, 1.2), ("missed", "kept"), "no"), ((1.1, 1.2), ("open",), "open"), ((1.1, 1.2), ("kept",), "yes"),
        ((0.8, 0.9), ("kept",), "yes"),
        ((None, 1.2), (), "open"), ((1.1, None), (), "open"),
    ],
)  # fmt: skip
def test_sharing_pays_if_it_keeps_every_objective_or_without_any_does_more(ends, objectives, worth):
    assert _worth(about(1.1, *ends), objectives) == worth
    assert _worth(Missing("no"), objectives) == (worth if objectives else "open")


def test_the_aggressor_is_the_one_that_is_slowed_less():
    logs = tuple(math.log(1.2) + noise for noise in (0.001, -0.001, 0.0))
    aggressor, victim, ratio = _sides(ContendingPair("a", "b", logs))
    assert (aggressor, victim, ratio.est) == ("b", "a", pytest.approx(1.2, rel=1e-3))
    aggressor, victim, ratio = _sides(ContendingPair("a", "b", tuple(-log for log in logs)))
    assert (aggressor, victim, ratio.est) == ("a", "b", pytest.approx(1.2, rel=1e-3))
    for pair in (
        None,
        ContendingPair("a", "b", ()),
        ContendingPair("a", "b", (0.2,)),
        ContendingPair("a", "b", (-0.2,)),
    ):
        assert _sides(pair)[:2] == (None, None)
    assert _sides(ContendingPair("a", "b", logs, (0.8, 1.25)))[:2] == (None, None), "the simulation may be that wrong"
    wrong = _sides(ContendingPair("a", "b", tuple(-log for log in logs), (0.95, 1.3)))
    assert wrong[:2] == (None, None), "turned round, the error is turned round as well"
    assert _sides(ContendingPair("a", "b", tuple(-log for log in logs), (0.8, 1.05)))[:2] == ("a", "b")


@pytest.mark.parametrize(
    ("found", "fight"),
    [
        (split(total=(1.5, 0.9, 1.6), cores=(1.5, 1.4, 1.6)), ("nothing", True)),
        (split(total=(1.5, None, None), cores=(1.5, 1.4, 1.6)), ("nothing", False)),
        (split(cores=(1.5, 0.9, 1.6)), ("unknown", False)),
        (split(cores=(1.5, 1.4, 1.6), clock=(1.1, 1.05, 1.2)), ("cores", True)),
        (split(host=(1.5, 1.4, 1.6)), ("host", True)),
        (split(place=cell("processes"), host=(1.5, 1.4, 1.6)), ("turns", False)),
        (split(place=cell("processes"), cores=(1.5, 1.4, 1.6)), ("cores", True)),
        (split(memory=(1.5, 1.4, 1.6)), ("memory bandwidth or cache", True)),
        (split(work=(1.5, 1.4, 1.6)), ("memory bandwidth or cache", False)),
    ],
)
def test_what_the_greatest_part_points_to(found, fight):
    assert _fight(found, None, [], None) == Fight("a", *fight)


@pytest.mark.parametrize(
    ("own", "others", "bandwidth", "resource"),
    [
        ("cache", ["memory bandwidth"], 0.9, "cache"),
        ("memory bandwidth", [], 0.8, "memory bandwidth"),
        ("compute", ["memory bandwidth"], 0.8, "memory bandwidth"),
        ("compute", ["compute"], 0.8, "memory bandwidth or cache"),
        ("memory bandwidth", [], 0.79, "memory bandwidth or cache"),
        ("compute", ["compute"], 0.49, "cache"),
        ("compute", ["compute"], 0.5, "memory bandwidth or cache"),
        ("compute", ["memory bandwidth"], 0.49, "memory bandwidth or cache"),
        ("compute", ["compute"], None, "memory bandwidth or cache"),
        (None, ["memory bandwidth"], 0.9, "memory bandwidth"),
    ],
)
def test_bandwidth_or_cache(own, others, bandwidth, resource):
    mine = None if own is None else alone(serving=own)
    assert _memory_resource(mine, [alone(serving=other) for other in others], bandwidth) == resource


def test_a_part_is_a_share_of_the_slowdowns_logarithm():
    found = split(total=(4.0, 3.9, 4.1), cores=(2.0, 1.9, 2.1))
    assert contribution(found, CORES) == pytest.approx(0.5)
    assert contribution(found, CLOCK) is None
    assert contribution(split(total=(1.0, 0.9, 1.1), cores=(2.0,)), CORES) is None
    assert contribution(split(total=(0.5, 0.4, 0.6), cores=(2.0,)), CORES) == pytest.approx(-1.0)
    assert contribution(split(total=(None,), cores=(2.0,)), CORES) is None
    assert contribution(split(total=(0.0,), cores=(2.0,)), CORES) is None
    assert contribution(split(cores=(0.0,)), CORES) is None


def told(bindings, *, option=None, peaks=None, place=None, splits=None):
    place = place or cell()
    mix = MixSummary(place, ("a", "b"), 3, {}, {"stp": about(1.5, 1.4, 1.6)}, "valid", {}, {"valid": 3})
    solo = MixSummary(cell("alone", "a", solo=True), ("a",), 3, {}, {"stp": about(1.0)}, "valid", {}, {"valid": 3})
    answer = Answer((), () if option is None else (choice(option),))
    splits = [split("a", place=place), split("b", place=place)] if splits is None else splits
    (story,) = stories(Summary((), (solo, mix), {}), splits, bindings, peaks or Peaks(cores=2), {}, answer=answer)
    return story


def test_a_mix_wants_what_its_tenants_use_alone():
    both = [alone("a", cores=1.0, bandwidth=0.3, busy=0.5), alone("b", cores=2.0, bandwidth=None)]
    story = told(both)
    assert (story.cores_wanted, story.cores, story.bandwidth_wanted) == (pytest.approx(2.5), 2, pytest.approx(0.15))
    assert told(both, peaks=Peaks(undisturbed=False)).bandwidth_wanted is None
    assert told([alone("a", bandwidth=None, cores=None)]).bandwidth_wanted is None
    assert told([alone("a", cores=None)]).cores_wanted is None
    assert told(both, place=cell(device="cuda:0")).cores_wanted is None
    assert told([alone("a", load="closed(9)")]).cores_wanted is None, "measured under another load"
    assert told(both, splits=[]).fights == ()


def test_each_tenant_is_judged_beside_the_others():
    memory = {"memory": (1.5, 1.4, 1.6)}
    story = told(
        [alone("a", bandwidth=0.1), alone("b", "cache", bandwidth=0.1)],
        splits=[split("a", **memory), split("b", **memory)],
    )
    assert story.fights == (Fight("a", "cache", sure=True), Fight("b", "cache", sure=True))
    story = told(
        [alone("a", bandwidth=0.3), alone("b", "memory bandwidth", bandwidth=0.6)],
        splits=[split("a", **memory), split("b", **memory)],
    )
    assert [fight.resource for fight in story.fights] == ["memory bandwidth"] * 2


def test_missed_objectives_and_the_delay_come_from_the_decision():
    missed = objective(40.0, answer="missed")
    tenants = [standing("a", missed, rate_rps=1.0), standing("b", objective(), rate_rps=1.0)]
    story = told([], option=way(standings=tenants))
    assert (story.missed, story.worth, story.delay.est) == (("a",), "no", 1.2)
    assert told([], option=way()).delay is None
    assert (told([]).missed, told([]).worth, told([]).delay) == ((), "yes", None)


# --- shares of the device


def divided(shares, a, b=None, *, mode="mps", mix="a+b"):
    return way(f"{mode}[{shares}]", standings=[a, b or standing("b", objective(40.0, answer="missed"))], mix=mix)


def sentences(*options, busy=0.1):
    works = {(option.cell, "a"): busy for option in options}
    return [line for line in unneeded_shares(Answer((), (choice(*options),)), works) if line.startswith("a ")]


def test_a_tenant_that_keeps_its_objective_with_less():
    large, small = standing("a", objective(), slowdown=1.25), standing("a", objective(), slowdown=1.5)
    options = divided("60, 40", large), divided("30, 70", small)
    (sentence,) = sentences(*options)
    assert sentence == (
        "a doesn't need 60 % of the device under mps: with 30 % it keeps its objective (1.50x its time alone instead "
        "of 1.25x) and works for 10 % of the time: measure it with 15 %."
    )
    assert sentences(*options, busy=0.25)[0].endswith("instead of 1.25x).")
    assert sentences(options[0], divided("30, 70", standing("a", objective(answer="open")))) == []
    assert sentences(divided("60, 40", large, mode="threads"), divided("30, 70", small, mode="threads")) == []
    assert sentences(divided("60, 40", large, mix="b+a"), divided("30, 70", small, mix="b+a"))[0].startswith(
        "a doesn't need 70 %"
    ), "shares are in the order of the mix"
    assert sentences(divided("60", large), divided("30", small)) == []
    assert sentences(divided("60, 40", large, mix="a+c"), divided("30, 70", small, mix="a+c")) == []


def test_a_tenant_that_rarely_works_may_need_less_than_the_least_measured():
    kept = standing("a", objective())
    (sentence,) = sentences(divided("3, 97", kept))
    assert sentence == (
        "a may need less than 3 % of the device under mps: it keeps its objective and works for 10 % of the time; "
        "measure it with 2 %."
    )
    assert sentences(divided("1, 99", kept))[0].endswith("measure it with 1 %.")
    assert sentences(divided("3, 97", kept), busy=0.25) == []
    assert sentences(divided("3, 97", standing("a"))) == []


@pytest.mark.parametrize(("hi", "as_fast"), [(1.507, True), (1.508, False), (None, False)])
def test_without_an_objective_the_time_must_be_visibly_the_same(hi, as_fast):
    large = standing("a", slowdown=1.5)
    small = replace(large, slowdown=about(1.5, 1.4, hi))
    found = sentences(divided("60, 40", large), divided("30, 70", small))
    assert bool(found) is as_fast
    if found:
        assert "with 30 % it is as fast (1.50x its time alone instead of 1.50x)." in found[0]
    assert sentences(divided("60, 40", standing("a", slowdown=None)), divided("30, 70", small)) == []
