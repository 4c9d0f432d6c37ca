"""What an explanation says in which case."""

from dataclasses import replace

import pytest

from cotenant.analyse.decision.answer import Answer
from cotenant.analyse.explanation.binding import Binding
from cotenant.analyse.explanation.contention import Fight, MixStory
from cotenant.analyse.explanation.explanation import Circumstance, Explanation
from cotenant.analyse.explanation.patterns import Link, Pattern
from cotenant.analyse.explanation.sentences import OVER_MIXES, explanation_sentences, main_sentences
from cotenant.analyse.explanation.split import CLOCK, CORES, Split
from cotenant.tenancy.interval import Interval
from tests.analyse.decision.ways import about, cell, choice, way


def story(*fights, place=None, stp=(1.5, 1.4, 1.6), **more):
    given = {
        "cores_wanted": None, "cores": None, "bandwidth_wanted": None, "aggressor": None, "victim": None,
        "imbalance": about(None), "missed": (), "worth": "yes",
    }  # fmt: skip
    return MixStory(cell=place or cell(), fights=fights, stp=about(*stp), **given | more)


def split(name="a", total=(1.5, 1.4, 1.6), *, place=None, residual=1.0, of=None, **parts):
    named = {"cores": CORES, "clock": CLOCK}
    known = {named[part]: about(*each) for part, each in parts.items()}
    return Split(place or cell(), name, of or name, about(*total), known, about(residual, residual, residual), None)


def alone(**more):
    given = {
        "of": "a", "load": "closed(1)", "settings": "{}", "bound": "compute", "while_serving": "compute",
        "sure": "clear", "reason": "so it is", "service_ms": about(10.0), "cores": 1.0, "compute_share": None,
        "bandwidth_share": None, "busy": None, "stages": {},
    }  # fmt: skip
    return Binding(**given | more)


def found(*mixes, answer=None, **more):
    given = {
        "tenants": (), "splits": (), "circumstances": (), "patterns": (), "contrasts": (), "shares": (), "more": (),
        "simulated": False,
    }  # fmt: skip
    return Explanation(answer=answer or Answer((), ()), mixes=mixes, **given | more)


def lines(*mixes, **more):
    return explanation_sentences(found(*mixes, **more))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "a alone is bound by compute (10 ms per request): so it is."),
        ({"sure": "likely"}, "a alone is probably bound by compute (10 ms per request): so it is."),
        ({"sure": "unclear"}, "a alone is perhaps bound by compute (10 ms per request): so it is."),
        ({"bound": "unknown"}, "a alone (10 ms per request): its bottleneck is unknown, since so it is."),
        ({"bound": "waiting for the load"}, "a alone is waiting for the load (10 ms per request): so it is."),
        ({"service_ms": about(None)}, "a alone is bound by compute: so it is."),
        (
            {"stages": {"x": 0.2, "y": 0.8}},
            "a alone is bound by compute (10 ms per request): so it is; 80 % of it in `y`.",
        ),
        ({"stages": {"x": 1.0}}, "a alone is bound by compute (10 ms per request): so it is."),
    ],
)
def test_a_tenant_alone(more, text):
    assert lines(tenants=(alone(**more),)) == [text]


def test_the_load_is_named_where_there_are_several():
    two = lines(tenants=(alone(), alone(load="closed(2)")))
    assert [line.partition(" is ")[0] for line in two] == ["a alone at closed(1)", "a alone at closed(2)"]
    assert lines(tenants=(alone(), alone(of="b")))[0].startswith("a alone is")


def test_a_mix_without_contention():
    calm = Fight("a", "nothing", sure=True)
    assert lines(story(calm))[0] == "a+b (mps): no tenant is shown to be slowed down."
    unsure = lines(story(calm, replace(calm, sure=False)))[0]
    assert unsure == "a+b (mps): no slowdown is known precisely enough."
    watts = cell(settings='{"power_w": 200}')
    assert lines(story(calm, place=watts))[0].startswith("a+b (mps, 200 W): ")


def test_what_its_tenants_lack_and_use_alone():
    fights = [Fight("a", "cores", sure=True), Fight("b", "cache", sure=True), Fight("c", "cores", sure=True)]
    wants = {"cores_wanted": 2.55, "cores": 2, "bandwidth_wanted": 0.4}
    assert lines(story(*fights, **wants))[0].endswith(
        "lack cores and the cache; alone they use 2.5 of 2 cores and 40 % of the memory bandwidth in total."
    )
    assert lines(story(*fights, **wants | {"cores": None}))[0].endswith(
        "; alone they use 40 % of the memory bandwidth in total."
    )
    unsure = story(*fights, Fight("d", "turns", sure=False))
    assert "one process after the other (as far as these sensors tell)." in lines(unsure)[0]
    unknown = Fight("d", "unknown", sure=False)
    assert lines(story(*fights, unknown))[0].endswith(": its tenants lack cores and the cache.")
    assert lines(story(unknown))[0].endswith(": slower than alone, and no part of it stands out clearly.")


def test_the_parts_of_a_slowdown():
    fight = Fight("a", "cores", sure=True)
    parts = split(total=(2.0, 1.9, 2.1), cores=(2.0**0.5, 1.3, 1.5), clock=(1.009, 1.0, 1.02))
    assert lines(story(fight), splits=(parts,))[1] == (
        "a in a+b (mps) takes 2.00x [1.90, 2.10] its time alone: fewer cores 1.41x [1.30, 1.50], 50 % of it "
        "(time without a core: time-slicing, or cores given to others)."
    )
    assert (
        "clock 0.99x [0.90, 1.10] (less than alone)" in lines(story(fight), splits=(split(clock=(0.99, 0.9, 1.1)),))[1]
    )
    over = lines(story(fight), splits=(split(total=(1.5, 1.4, 1.6), cores=(2.0, 1.9, 2.1)),))[1]
    assert "fewer cores 2.00x [1.90, 2.10] (time" in over, "more than all of it is no share"
    rest = lines(story(fight), splits=(split(residual=1.01),))[1]
    assert rest.endswith("its time alone: unexplained 1.01x [1.01, 1.01].")
    assert lines(story(fight), splits=(split(residual=1.009),))[1].endswith("no part of it stands out.")
    assert len(lines(story(fight), splits=(split(total=(1.02, 1.01, 1.03)),))) == 2, "not slowed noticeably"
    place = cell(simulated=True)
    simulated = lines(story(fight, place=place), splits=(split(place=place, cores=(1.5, 1.4, 1.6)),))[1]
    assert "its time alone: fewer cores 1.50x, 100 % of it (" in simulated


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            {"missed": ("a", "b"), "worth": "no"},
            "is not worth it: a and b miss their objectives (STP 1.50x [1.40, 1.60]).",
        ),
        ({}, "is worth it: STP 1.50x [1.40, 1.60] against 1 for taking turns, and no objective is missed."),
        ({"worth": "no"}, "is not worth it: STP 1.50x [1.40, 1.60], less than the 1 of taking turns."),
        (
            {"worth": "open", "stp": (1.1, 1.006, 1.2)},
            "may or may not be worth it: STP 1.10x [1.01, 1.20], but an objective is open.",
        ),
        (
            {"worth": "open", "stp": (1.1, 1.005, 1.2)},
            "may or may not be worth it: STP 1.10x [1.00, 1.20] against 1 for taking turns.",
        ),
        (
            {"worth": "open", "stp": (1.1, None, None)},
            "may or may not be worth it: STP 1.10x against 1 for taking turns.",
        ),
        ({"delay": about(1.2, 1.1, 1.3)}, "is worth it: requests take 1.20x [1.10, 1.30] their time alone."),
        (
            {"delay": about(None), "worth": "no"},
            "is not worth it: requests take an unknown multiple of their time alone.",
        ),
        (
            {"delay": about(1.2), "missed": ("a",), "worth": "no"},
            "is not worth it: a misses its objective (requests take 1.20x their time alone).",
        ),
        ({"delay": about(1.2), "worth": "open"}, "may or may not be worth it: requests take 1.20x their time alone."),
    ],
)
def test_whether_sharing_is_worth_it(more, text):
    assert lines(story(**more))[-1] == f"a+b (mps) {text}"
    assert lines(story(stp=(None,)))[-1].endswith("no tenant is shown to be slowed down.")


def pair(aggressor="a", victim="b", imbalance=1.5, sharing="mps", **more):
    return story(
        Fight("a", "cores", sure=True), aggressor=aggressor, victim=victim, imbalance=about(imbalance, 1.4, 1.6),
        place=cell(sharing), **more,
    )  # fmt: skip


def test_aggressors():
    said = lines(pair(), pair(sharing="threads"))
    assert "In a+b (mps) a is the aggressor and b the victim: its slowdown is 1.50x [1.40, 1.60] that of a." in said
    assert "a slows others more than it is slowed in all 2 pairs in which one of the two does." in said
    assert not any("in all" in line for line in lines(pair()))
    assert not any("in all" in line for line in lines(pair(), pair(sharing="x"), pair("b", "a", sharing="y")))


def best(*mixes):
    return Answer((), tuple(choice(way(mix.cell.sharing)) for mix in mixes))


def test_on_the_screen_only_uneven_pairs_and_the_best_way_of_each_mix():
    even, uneven, calm = pair(imbalance=1.049), pair(imbalance=1.05, sharing="threads"), story(place=cell("streams"))
    other = pair(sharing="not the best")
    said = main_sentences(found(even, uneven, calm, other, answer=best(even, uneven, calm)))
    assert said[0] == (
        "Of 4 mixes and ways to share 4 are worth it (every objective kept or, without any, clearly more "
        "work than taking turns)."
    )
    assert [line for line in said if "aggressor" in line] == [
        "In a+b (threads) a is the aggressor and b the victim: its slowdown is 1.05x [1.40, 1.60] that of a."
    ]
    assert said[-1] == "1 other mix, shared the best way: no tenant is shown to be slowed down."
    assert not any("not the best" in line for line in said)
    (one, *_) = main_sentences(found(even, answer=best(even)))
    assert one.startswith("a+b (mps) is worth it: ")
    counted = main_sentences(found(replace(even, worth="no"), replace(uneven, worth="open"), answer=best(even)))
    assert counted[0] == "Of 2 mixes and ways to share 1 is not worth it and 1 is open."


def test_circumstances_of_a_tenant_are_told_once_and_copies_once():
    several = tuple(Circumstance("overload", f"a is overloaded in {mix}.", "a") for mix in "xy")
    other = Circumstance("overload", "b is overloaded.", "b")
    said = main_sentences(found(circumstances=(*several, other)))
    assert said == ["a is overloaded in x.", "b is overloaded."]
    mix = pair(None, None)
    copies = (split("a#1", of="a"), split("a#2", of="a"))
    assert sum("takes" in line for line in main_sentences(found(mix, answer=best(mix), splits=copies))) == 1


def test_patterns_of_the_commonest_ways_first():
    def pattern(sharing):
        return Pattern(sharing, 7, 14, (Link("size", Interval(0.8, 0.7, 0.9), 0.9),), ("size",), 0.3)

    mixes = [pair(None, None, sharing=sharing) for sharing in ("mps", "threads", "threads", "streams", "streams")]
    patterns = tuple(map(pattern, ("mps", "threads", "streams")))
    said = main_sentences(found(*mixes, answer=best(*mixes), patterns=patterns))
    assert [line.split(",")[0] for line in said if "no tenant property" in line] == ["Under threads", "Under streams"]
    assert OVER_MIXES not in said
    assert OVER_MIXES in main_sentences(found(*mixes, answer=best(*mixes), patterns=patterns, simulated=True))
    assert OVER_MIXES in lines(*mixes, patterns=patterns, simulated=True)
    assert OVER_MIXES not in lines(*mixes, simulated=True)
    assert lines(simulated=True) == ["Simulated devices computed these numbers; nothing was measured on them."]
    assert lines(shares=("s",), more=("m",)) == ["s", "m"]
