"""The answer in words: which numbers and names each sentence holds, and which it leaves out."""

from dataclasses import replace

import pytest

from cotenant.analyse.decision.answer import Answer
from cotenant.analyse.decision.wording import (
    decision_word,
    headline,
    in_words,
    missed_alone,
    objectives,
    option_sentence,
    slowdowns,
    verdict,
)
from tests.analyse.decision.ways import about, choice, objective, standing, way, with_objectives

MISSED = objective(40.0, answer="missed")
OPEN = objective(25.0, lo=20.0, hi=31.0, answer="open", chance=0.8)


def said(*options, verdict_="share", because="does more work"):
    return verdict(choice(*options, verdict=verdict_, because=because))


def test_more_work_with_who_pays_most():
    tenants = [standing("a", slowdown=1.02), standing("b", slowdown=1.7)]
    assert said(way("mps", 1.5, tenants)) == (
        "Share a + b by mps: 1.50x [1.40, 1.60] the work of taking turns; b pays most, 1.70x slower."
    )
    assert said(way("mps", 1.5, tenants[:1])).endswith("; a pays most, 1.02x slower.")
    assert said(way("mps", 1.5, [standing("a", slowdown=1.01)])).endswith("the work of taking turns.")
    assert said(way("mps", 1.5, [standing("a", slowdown=None)], simulated=True)).endswith("of taking turns, simulated.")


@pytest.mark.parametrize(
    ("sharing", "named"),
    [
        ("mps[16.7, 16.7, 16.7]", "mps 16.7 each"),
        ("mps[60, 40]", "mps 60+40"),
        ("mig[4g.20gb, 3g.20gb]", "mig 4g+3g"),
        ("mig", "mig"),
    ],
)
def test_a_way_is_called_as_in_the_table(sharing, named):
    assert said(way(sharing, 1.5)).startswith(f"Share a + b by {named}: ")
    assert option_sentence(way(sharing, 1.5)).startswith(f"{named} does ")


def test_nobody_is_named_where_nobody_is_shown_to_pay_most():
    def tenant(name, est, half):
        return replace(standing(name), slowdown=about(est, est - half, est + half))

    alike = said(way("mps", 1.5, [tenant("a", 1.8, 0.2), tenant("b", 2.0, 0.2)]))
    assert alike.endswith("of taking turns; every tenant is 1.80x to 2.00x slower.")
    assert said(way("mps", 1.5, [tenant("a", 2.0, 0.1)] * 2)).endswith("; every tenant is 2.00x slower.")
    assert "b pays most, 2.00x" in said(way("mps", 1.5, [tenant("a", 1.8, 0.02), tenant("b", 2.0, 0.02)]))
    assert "b pays most, 2.00x" in said(way("mps", 1.5, [tenant("a", 1.5, 0.5), tenant("b", 2.0, 0.5)]))


def test_kept_objectives_with_the_least_to_spare():
    found = with_objectives("mps", objective(24.0), objective(15.0), objective(None))
    assert said(found, because="keeps every objective") == (
        "Share a + b + c by mps: every objective is kept (a has least to spare, 20 %), "
        "1.50x [1.40, 1.60] the work of taking turns."
    )
    over = with_objectives("mps", objective(15.0), objective(31.0))
    assert "(b has least to spare, 0 %)" in said(over, because="keeps every objective")
    assert "every objective is kept, 1.50x" in said(
        with_objectives("mps", objective(None)), because="keeps every objective"
    )


def test_with_given_rates_the_delay_stands_for_the_work():
    found = way("mps", 1.5, [standing("a", rate_rps=1.0)])
    assert said(found).startswith("Share a by mps: requests take 1.20x [1.15, 1.25] as long as alone")
    assert said(found, because="does less work") == (
        "Don't share a: even the best way, mps, makes requests take 1.20x [1.15, 1.25] as long as alone."
    )


def test_reasons_against_sharing():
    assert said(way("mps", 0.8), because="does less work") == (
        "Don't share a + b: even the best way, mps, does 0.80x [0.70, 0.90] the work of taking turns."
    )
    assert said(way("mps", 1.0, half=0.02), because="gains nothing").endswith(
        "the best way, mps, does 1.00x [0.98, 1.02] the work of taking turns. Take turns."
    )
    tenants = [standing("a", slowdown=1.1), standing("b", slowdown=6.0), standing("c", slowdown=None)]
    assert said(way("mps", 1.5, tenants), because="starves a tenant").endswith("but starves b.")
    assert said(way(work=3.0), because="disturbed").startswith("Can't tell about a + b: it did more than all")


@pytest.mark.parametrize(("count", "more"), [(1, ""), (2, ", and so does 1 other"), (3, ", and so do 2 others")])
def test_missed_objectives_name_the_first(count, more):
    found = with_objectives("mps", objective(), *[MISSED] * count)
    assert said(found, because="missed shared").endswith(
        f": b misses its objective (p90 is 40 ms, not 30 ms){more} under mps, the only way tried."
    )
    unseen = with_objectives("mps", objective(None, answer="missed", share=0.8567))
    assert "(85 % of requests within 30 ms, not 90 %)" in said(unseen, way("threads"), because="missed shared")
    assert said(unseen, way("threads"), because="missed shared").endswith("the best of 2 ways tried.")


def test_who_cannot_keep_up_alone():
    def tenants(*software, **more):
        return [
            standing(name, alone=MISSED, software=each, **more) for name, each in zip("abcde", software, strict=False)
        ]

    def reason(found):
        return said(way(standings=[*found, standing("z", alone=objective(), software="other")]), because="missed alone")

    assert reason(tenants("eager")).endswith(
        "device: a misses its objective even alone (run by eager, the default software)."
    )
    assert reason(tenants("vllm", "eager")).endswith(
        "a and b miss their objectives even alone (run by eager and vllm)."
    )
    assert reason(tenants("vllm", None)).endswith("a and b miss their objectives even alone.")
    assert reason(tenants(*["vllm"] * 5)).endswith("a, b, c and 2 more miss their objectives even alone (run by vllm).")
    behind = tenants("vllm", rate_rps=100.0, served_alone_rps=10.0, measured_alone_s=9.0, served_rps=5.0)
    assert reason(behind).endswith("(run by vllm); lower a to 9/s.")


def test_why_no_trial_passed():
    behind = [
        standing(name, rate_rps=100.0, served_rps=served, measured_s=9.0)
        for name, served in zip("abcd", (5.25, 0, 6, 7), strict=True)
    ]
    assert said(way(standings=[*behind, standing("e")]), because="no trial passed") == (
        "Can't tell yet about a + b + c + d + e: under mps a serves 5.2/s of the 100 requests/s that arrive, "
        "b serves 0/s of the 100 requests/s that arrive and c serves 6.0/s of the 100 requests/s that arrive."
    )
    checks = ("no_steal", "unknown", "steady", "on_schedule", "clock_stable")
    assert said(way(failed=checks), because="no trial passed").endswith(
        "passed every check (the host took processor time away, times were not steady and requests were sent late)."
    )
    assert said(way(failed=("unknown",)), because="no trial passed").endswith("no trial of mps passed every check.")


def test_leaning_by_requests():
    sure = with_objectives("mps", OPEN, objective())
    assert said(sure, verdict_="open", because="too few requests") == (
        "Share a + b by mps, 72 % sure: every estimate keeps its objective; closest: a's p90 is 25 ms "
        "(95 % interval 20.0 to 31.0), its limit 30 ms."
    )
    close = with_objectives("mps", OPEN, replace(OPEN, chance=0.6), replace(OPEN, chance=0.7), simulated=True)
    assert said(close, verdict_="open", because="too few requests") == (
        "Don't share a + b + c, 66 % sure: under mps, the only way tried, every estimate keeps its objective, but of 3 "
        "that are close some probably don't; closest: b's p90 is 25 ms (range 20.0 to 31.0), its limit 30 ms; "
        "2 other objectives are undecided too."
    )
    unlikely = with_objectives("mps", replace(OPEN, chance=0.4), OPEN)
    assert said(unlikely, verdict_="open", because="too few requests").endswith(
        "sure: under mps, the only way tried, a's p90 is 25 ms (95 % interval 20.0 to 31.0), its limit 30 ms; "
        "1 other objective is undecided too."
    )
    even = with_objectives("mps", replace(OPEN, chance=0.5), replace(OPEN, chance=0.5))
    assert "every estimate keeps" in said(even, verdict_="open", because="too few requests")


@pytest.mark.parametrize(
    ("shared", "text"),
    [
        (objective(25.0, answer="open", share=0.9), "a's p90 is 25 ms, its limit 30 ms."),
        (objective(25.0, lo=20.0, answer="open"), "a's p90 is 25 ms, its limit 30 ms."),
        (objective(25.0, answer="open", share=0.899), "a has 89 % of requests in time and needs 90 %."),
        (objective(None, answer="open", share=0.95), "a has 95 % of requests in time and needs 90 %."),
    ],
)
def test_how_close_an_open_objective_is(shared, text):
    assert said(with_objectives("mps", shared), verdict_="open", because="too few requests").endswith(text)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.85, "a has 80 % of requests in time (85 % alone) and needs 90 %."), (0.9, "in time and needs 90 %.")],
)
def test_neighbours_are_not_blamed_for_what_is_late_alone(share, text):
    found = with_objectives("mps", objective(None, answer="open", share=0.8))
    (tenant,) = found.standings
    late = replace(found, standings=(replace(tenant, alone=objective(None, answer="open", share=share)),))
    assert said(late, verdict_="open", because="too few requests").endswith(text)


def test_an_open_question_is_never_quite_sure():
    nearly = choice(with_objectives("mps", replace(OPEN, chance=0.9999)), verdict="open", because="too few requests")
    assert decision_word(nearly) == "share, over 99 %"
    assert verdict(nearly).startswith("Share a by mps, over 99 % sure: ")


def test_leaning_by_blocks():
    assert said(way(work=1.1, half=0.15), verdict_="open", because="too few blocks") == (
        "Share a + b by mps, 90 % sure: 1.10x [0.95, 1.25] the work of taking turns; a pays most, 1.50x slower."
    )
    assert said(way(work=0.9, half=0.15), verdict_="open", because="too few blocks") == (
        "Don't share a + b, 91 % sure: the best way, mps, does 0.90x [0.75, 1.05] the work of taking turns."
    )
    assert decision_word(choice(way(work=1.1, half=0.15), verdict="open", because="too few blocks")) == "share, 90 %"
    assert decision_word(choice(way(), verdict="apart")) == "keep apart"
    assert decision_word(choice(way(), verdict="open", because="disturbed")) == "can't tell yet"


def test_rivals_and_why_a_better_estimate_is_not_first():
    best = way("threads", 2.0)
    assert "; streams and mps may be as good." in said(
        best, way("streams", 1.95), way("mps[50, 50]", 1.95), way("mps", 1.96)
    )
    better = said(best, way("mps", 2.02), way("streams", 2.03), way("pinned", 1.99))
    assert "; streams at 2.03x isn't clearly better and takes more to set up; pinned may be as good." in better
    assert "processes at 2.02x isn't clearly better and keeps less in reserve." in said(best, way("processes", 2.02))
    assert "better" not in said(best, way("threads[1]", 2.05))
    assert "as good" not in said(best, way("threads[1]", 1.99))
    starving = said(way("mps", 1.5), way("a", 1.6, fairness=0.4), way("b", 1.8, fairness=0.4))
    assert "; b does 1.80x but starves a." in starving


def test_with_given_rates_the_shortest_delay_is_the_better_rival():
    tenants = [standing("a", rate_rps=1.0)]
    best, *others = (
        way(name, 1.5, tenants, delay=delay) for name, delay in (("threads", 1.2), ("mps", 1.19), ("streams", 1.18))
    )
    assert "; streams at 1.18x isn't clearly better and takes more to set up; " not in said(best)
    assert "; streams at 1.18x isn't clearly better and takes more to set up" in said(best, *others)


def test_the_clearly_worst_way_is_named():
    best = way("mps", 1.5)
    assert said(best, way("threads", 0.8)).endswith("; threads costs more than it gains, 0.80x [0.70, 0.90].")
    assert said(best, way("threads", 0.9)).endswith("; threads gains least, 0.90x [0.80, 1.00].")
    assert said(best, way("threads", 1.3, half=0.09)).endswith("; threads gains least, 1.30x [1.21, 1.39].")
    for other in (way("threads", 1.25, ends=(1.1, 1.4)), way("threads", 0.8, valid=0), way("threads", 0.8, half=None),
                  way("threads", None)):  # fmt: skip
        assert "threads" not in said(best, other)
    assert "threads" not in said(way("mps", 1.5, half=None), way("threads", 0.8))


def test_other_ways_have_a_sentence():
    assert option_sentence(way("mps", valid=0)) == "No trial of mps passed every check."
    assert option_sentence(way("mps", 1.5)) == (
        "mps does 1.50x [1.40, 1.60] the work of taking turns; slowdowns: a 1.50x, b 1.50x."
    )
    assert option_sentence(with_objectives("mps", objective())).endswith("taking turns; all kept.")


@pytest.mark.parametrize(
    ("shared", "text"),
    [
        ((), ""),
        ((objective(), objective()), "all kept"),
        ((objective(), MISSED, OPEN), "b missed"),
        ((OPEN, objective(), OPEN), "a and c undecided"),
        ((MISSED,) * 5, "a, b, c and 2 more missed"),
        ((MISSED,) * 3, "a, b and c missed"),
    ],
)
def test_objectives_in_a_word(shared, text):
    assert objectives(with_objectives("mps", *shared)) == text


def test_slowdowns_of_copies_are_their_mean():
    tenants = [standing("g#1", slowdown=2.0), standing("g#2", slowdown=4.0), standing("g#3", slowdown=None)]
    found = way(standings=[*tenants, standing("b", slowdown=1.25), standing("c", slowdown=None)])
    assert slowdowns(found) == "g x3: 3.00x each, b 1.25x, c ?"


def alone(name, seen=40.0, under=""):
    return standing(name, alone=objective(seen, answer="missed"), under=under)


def test_who_misses_alone():
    found = missed_alone(Answer((alone("a"), *(alone("b", ms, f"{ms:g}") for ms in (40.0, 60.0, 50.0))), ()))
    assert found == [
        "a misses its objective even alone: p90 is 40 ms, not 30 ms.",
        "b misses its objective even alone under 60 and 2 other conditions: p90 is 60 ms, not 30 ms.",
    ]
    assert missed_alone(Answer((alone("b", under="x"),), ()))[0].startswith(
        "b misses its objective even alone under x:"
    )
    assert missed_alone(Answer((alone("b", None), alone("b", 31.0, "y")), ()))[0].startswith(
        "b misses its objective even alone under y"
    )
    assert missed_alone(Answer(tuple(map(alone, "abc")), ()))[-1].startswith("c misses")
    assert missed_alone(Answer(tuple(map(alone, "abcd")), ()))[-1] == "So do 1 other tenant."
    assert missed_alone(Answer(tuple(map(alone, "abcde")), ()))[3:] == ["So do 2 other tenants."]


def test_the_headline_of_one_mix_and_of_a_part_that_may_share():
    whole, part = choice(way("mps", 0.8), verdict="apart", because="does less work"), choice(way("threads"))
    assert headline(Answer((alone("a"),), ())) == [
        "a misses its objective even alone: p90 is 40 ms, not 30 ms.",
        "Nothing shared a device in this run, so there is nothing to decide.",
    ]
    assert headline(Answer((), (whole, part))) == [verdict(whole), verdict(part)]
    assert headline(Answer((), (part, whole))) == [verdict(part)]
    assert headline(Answer((), (whole,))) == [verdict(whole)]


def test_the_headline_of_a_matrix():
    big = [standing(name) for name in "abc"]
    shares = [choice(way("mps", 1.6)), choice(way("threads", 2.0, big))]
    doubt = choice(way("pinned", 1.1, half=0.3), verdict="open", because="too few blocks")
    none = choice(way("streams", 1.2, valid=0), verdict="open", because="no trial passed")
    apart = [choice(way("mps", work), verdict="apart", because="does less work") for work in (0.8, 0.9)]
    found = headline(Answer((), (*shares, doubt, none, *apart)))
    assert found == [
        "Of 6 mixes 2 may share, 1 probably may share, 2 should not, 1 can't be decided yet.",
        verdict(shares[0]),
        "a + b loses most: the best way, mps, does 0.80x [0.70, 0.90] the work of taking turns.",
    ]
    assert headline(Answer((), (*shares, doubt, none, apart[0]))) == [verdict(shares[0])], "five are no matrix"
    promised = choice(with_objectives("mps", objective()))
    assert len(headline(Answer((), (promised, *shares, doubt, none, *apart)))) == 1
    doubtful = headline(Answer((), (*[doubt] * 5, none)))
    assert doubtful[:2] == ["Of 6 mixes 5 probably may share, 1 can't be decided yet.", verdict(doubt)]
    assert doubtful[2].startswith("a + b gains least: the best way, pinned, ")
    assert headline(Answer((), (choice(way("mps", 0.9)), *[none] * 5)))[-1].startswith("a + b gains least"), "up to 1.0"
    unseen = choice(way("streams", None), verdict="open", because="no trial passed")
    assert len(headline(Answer((), (shares[0], *[unseen] * 5)))) == 2, (
        "one that was measured isn't the least of several"
    )
    assert len(headline(Answer((), (shares[0], *[replace(none, options=(way("x", 0.5, valid=0),))] * 5)))) == 2


def test_the_answer_as_plain_data():
    open_ = choice(with_objectives("mps", OPEN), way("threads"), verdict="open", because="too few requests")
    found = in_words(Answer((alone("a"),), (open_, choice(way()))))
    assert (found["missed_alone"], len(found["headline"])) == (["a"], 2)
    first, second = found["choices"]
    assert (first["mix"], first["verdict"], first["favours"], first["confidence"]) == ("a", "open", "share", 0.8)
    assert first["what_would_tell"].startswith("change the objective")
    assert second["what_would_tell"] is None
    assert [option["headroom"] for option in first["options"]] == [pytest.approx(1 / 6), None]
    assert [option["objectives"] for option in first["options"]] == ["open", None]
