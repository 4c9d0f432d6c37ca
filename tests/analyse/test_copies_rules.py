"""How many copies pay: each verdict, limit and sentence, from options made by hand."""

from types import SimpleNamespace as Facts

import pytest

from cotenant.analyse import copies_answer, copy_options
from cotenant.analyse.copies_answer import CopiesAnswer, CopyLevel, Tuning
from cotenant.analyse.copy_options import CopiesOption, CopyStart, Reliability, reliability
from cotenant.analyse.sharing.cells import Cell
from cotenant.tenancy.interval import Estimate, Missing

NOTHING = Missing("nothing")
GOOD = Reliability(10, 0, 0, 0, None)


def estimate(est, lo=None, hi=None, n=4):
    return Estimate(est, lo, hi, n)


def start(block=0, copies=2, **more):
    row = {
        "block": block, "mix": "m", "sharing": "mps", "copies": copies, "failed": None, "died": None,
        "failed_checks": (), "reasons": (), "throughput_rps": 10.0, "cores": 1.0, "memory_bytes": 100, "resolved": {},
    }  # fmt: skip
    return CopyStart(**row | more)


def option(copies=1, **more):
    row = {
        "copies": copies, "sharing": "processes", "throughput_rps": estimate(10.0), "gain": estimate(1.0, 1.0, 1.0),
        "latency_ms": {}, "kept": None, "held": True, "in_flight": None, "reliability": GOOD, "valid": 3, "unequal": (),
        "doubts": (), "cores": 0.5, "memory_bytes": 10**9, "sm_active": None, "dram_active": None, "resolved": {},
    }  # fmt: skip
    return CopiesOption(**row | more)


def answer(*options, rate=None, tuning=None, failures=0.1, **more):
    return CopiesAnswer("s", "cpu", 4, failures, options, tuning, rate, False, (), **more)


# --- starts


def test_starts_are_counted_by_how_they_ended():
    made = [
        start(), start(failed="no room"), start(died="it died", failed_checks=("steady",)),
        start(failed_checks=("steady",)), start(failed_checks=("requests_succeed", "x")), start(failed_checks=("x",)),
    ]  # fmt: skip
    found = reliability(made)
    assert found == Reliability(6, 1, 1, 2, "it died")
    assert (found.failures, found.share, Reliability(0, 0, 0, 0, None).share) == (2, pytest.approx(1 / 3), 0.0)
    assert reliability([start()]).why is None


def test_the_gain_is_within_blocks():
    alone = {0: 10.0, 1: 20.0, 3: 5.0}
    made = [start(1, throughput_rps=30.0), start(0, throughput_rps=15.0), start(2), start(3, throughput_rps=None)]
    found = copy_options._gain(made, alone)
    assert (found.est, found.n) == (pytest.approx(1.5), 2)
    assert copy_options._gain([start(copies=1)], alone) == Estimate(1.0, 1.0, 1.0, 3, "by definition")
    assert isinstance(copy_options._gain([start(2)], alone), Missing)


def test_the_simulated_gain_is_of_its_cell():
    assert copy_options._simulated_gain(Facts(solo=True), {}).est == 1.0
    assert isinstance(copy_options._simulated_gain(None, {}), Missing)
    cell = Cell("r", "cuda:0", True, "{}", "closed(1)", True, "m", "mps")
    assert copy_options._simulated_gain(cell, {cell: estimate(1.4)}).est == 1.4
    assert isinstance(copy_options._simulated_gain(cell, {}), Missing)


def test_requests_in_flight_by_littles_law():
    def copy(rps, ms):
        return Facts(throughput_rps=rps, mean_latency_ms=ms)

    copies = [copy(estimate(100.0), estimate(40.0)), copy(estimate(50.0), estimate(40.0)), copy(NOTHING, estimate(1.0))]
    assert copy_options._in_flight(copies, 8) == pytest.approx(0.25)
    assert copy_options._in_flight(copies, None) is None
    assert copy_options._in_flight(copies[2:], 8) is None


def test_sums_and_the_slowest_need_every_copy():
    found = copy_options._sum([Estimate(1.0, 0.5, 2.0, 9), Estimate(2.0, 1.0, 3.0, 4)])
    assert (found.est, found.lo, found.hi, found.n) == (3.0, 1.5, 5.0, 4)
    open_ended = copy_options._sum([Estimate(1.0, None, 2.0, 9), Estimate(2.0, 1.0, None, 4)])
    assert (open_ended.lo, open_ended.hi) == (None, None)
    assert isinstance(copy_options._sum([Estimate(1.0, 0.5, 2.0, 9), NOTHING]), Missing)
    assert isinstance(copy_options._sum([]), Missing)
    assert copy_options._slowest([estimate(1.0), estimate(3.0), estimate(2.0)]).est == 3.0
    assert isinstance(copy_options._slowest([estimate(1.0), NOTHING]), Missing)
    assert isinstance(copy_options._slowest([]), Missing)
    assert [copy_options._mean(values) for values in ([1.0, None, 2.0], [None], [])] == [1.5, None, None]


def summary(rps=10.0, ms=80.0):
    quantiles = dict.fromkeys(copy_options.QUANTILES, estimate(ms))
    return Facts(throughput_rps=estimate(rps), latency_ms=quantiles, mean_latency_ms=estimate(ms), slo=None, goals=())


def test_an_option_from_its_starts(monkeypatch):
    monkeypatch.setattr(copy_options, "objective_of", lambda _: None)
    made = [
        start(failed="no", failed_checks=("load_sustained", "copies_equal"), reasons=("odd",), memory_bytes=999),
        start(resolved={"blocks": 3}, cores=1.0, memory_bytes=7),
        start(cores=2.0, memory_bytes=8, failed_checks=("copies_equal", "steady"), reasons=("cache differ: 1, 2", "x")),
    ]  # fmt: skip
    used = Facts(sm_active=Facts(value=0.4), dram_active=None)
    found = copy_options._option(made, [summary(), summary(20.0)], estimate(2.0), used, 2.0)
    assert (found.copies, found.sharing, found.throughput_rps.est, found.gain.est, found.kept) == (
        2,
        "mps",
        30.0,
        2.0,
        None,
    )
    assert (found.held, found.valid, found.unequal) == (True, 1, ("cache differ: 1, 2",))
    assert found.doubts == ("load_sustained", "copies_equal", "steady")
    assert (found.cores, found.memory_bytes, found.resolved) == (1.5, 8, {"blocks": 3})
    assert (found.sm_active, found.dram_active, found.in_flight) == (0.4, None, pytest.approx(0.4))
    assert copy_options._option([start(failed_checks=("load_sustained",))], [], NOTHING, None, None).held is False


@pytest.mark.parametrize(
    ("answers", "kept"),
    [((), None), (("kept",), "kept"), (("kept", "open"), "open"), (("open", "missed"), "missed")],
)
def test_all_copies_have_to_keep_their_objectives(monkeypatch, answers, kept):
    given = iter(answers)
    monkeypatch.setattr(copy_options, "objective_of", lambda _: Facts(answer=next(given)))
    assert copy_options._option([start()], [summary() for _ in answers], NOTHING, None, None).kept == kept


@pytest.mark.parametrize(
    ("more", "label"),
    [
        ({"copies": 1}, "1 copy"),
        ({"sharing": "pinned"}, "2 copies, core blocks"),
        ({"sharing": "processes"}, "2 copies, shared cores"),
        ({"sharing": "processes", "cores": None}, "2 copies, time-slicing"),
        ({"sharing": "mps[50, 50]", "cores": None}, "2 copies, mps, 50 % each"),
        ({"sharing": "mig[1g.5gb, 1g.5gb]", "cores": None}, "2 copies, mig, 1g.5gb each"),
    ],
)
def test_labels(more, label):
    assert option(**{"copies": 2} | more).label == label


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, None),
        ({"reliability": Reliability(10, 1, 0, 0, "x")}, None),
        ({"reliability": Reliability(10, 2, 0, 0, "x")}, "2 of 10 starts failed"),
        ({"reliability": Reliability(10, 0, 2, 0, "x")}, "2 copies died"),
        ({"reliability": Reliability(10, 1, 1, 0, "x")}, "1 of 10 starts failed and 1 copy died"),
        ({"unequal": ("a", "b")}, "the copies aren't equal: b"),
        ({"throughput_rps": NOTHING}, "nothing could be measured"),
        ({"kept": "missed"}, "it misses the objective"),
        ({"kept": "open"}, None),
        ({"held": False}, "it doesn't hold the rate"),
        ({"in_flight": 0.8}, None),
        ({"in_flight": 0.79}, "the client kept only 79 % of the load in flight"),
    ],
)
def test_what_speaks_against_an_option(more, why):
    assert option(**more).against(0.1) == why


# --- one copy under rising load


def tuned(*throughputs, asked=None):
    levels = [
        CopyLevel(2**place, NOTHING if rps is None else estimate(rps), NOTHING) for place, rps in enumerate(throughputs)
    ]
    return Tuning(tuple(levels), asked)


@pytest.mark.parametrize(
    ("throughputs", "chosen", "saturated"),
    [
        ((10, 20, 21), 2, True),  # 20 is 1 / 1.05 of 21
        ((10, 19.9, 21), 4, False),
        ((10, 10.5), 1, True),
        ((10, 10.6), 2, False),
        ((None, 10, 10), 2, True),
        ((0.0, 10, 10), 2, True),
        ((10,), 1, False),
    ],
)
def test_the_least_load_with_nearly_the_most_throughput(throughputs, chosen, saturated):
    found = tuned(*throughputs)
    assert (found.chosen.outstanding, found.saturated) == (chosen, saturated)


def test_the_asked_load_is_taken_as_it_is():
    assert tuned(10, 20, 21, asked=1).chosen.outstanding == 1
    assert not tuned(10, 20, 21, asked=1).saturated
    assert tuned(10, 20, asked=8).chosen is None
    assert tuned(None).chosen is None
    assert tuned().chosen is None
    assert tuned(None).sentence == "One copy served no request."
    assert tuned(10, 10).sentence == "One copy serves 10.0/s with 1 in flight, and no more with a higher load."
    assert tuned(10, 20, asked=1).sentence.startswith("One copy serves 10.0/s with 1 in flight, but 20.0/s with 2: it")
    assert "the most that was tried" in tuned(10, 20).sentence


# --- verdicts


def gains(est, lo=None, hi=None, copies=2, **more):
    return option(copies, gain=estimate(est, lo, hi), throughput_rps=estimate(10 * est), **more)


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ([option()], "one copy"),
        ([option(), gains(1.1, 1.01, 1.3)], "copies"),
        ([option(), gains(1.09, 1.01, 1.3)], "open"),
        ([option(), gains(1.3, 1.0, 1.6)], "open"),
        ([option(), gains(1.05, 0.9, 1.1)], "one copy"),
        ([option(), gains(1.05, 0.9, 1.11)], "open"),
        ([option(), gains(1.05)], "open"),
        ([option(kept="missed"), gains(1.05, 0.9, 1.1)], "none"),
        ([option(kept="missed")], "none"),
        ([option(throughput_rps=NOTHING), gains(1.5, 1.2, 1.8)], "open"),
        ([gains(1.5, 1.2, 1.8)], "open"),
        ([option(reliability=Reliability(10, 2, 0, 0, "x"))], "failing"),
        ([option(reliability=Reliability(10, 1, 0, 0, "x"))], "one copy"),
        ([option(), gains(1.5, 1.2, 1.8), gains(1.9, 1.6, 2.1, copies=3, held=False)], "copies"),
        ([option(), gains(1.5, 1.2, 1.8, kept="missed")], "one copy"),
    ],
)
def test_copies_pay_if_they_are_shown_to_gain_a_tenth(options, verdict):
    found = answer(*options)
    assert found.verdict == verdict
    assert found.decided is (verdict in {"copies", "one copy"})
    assert (found.chosen is None) is not found.decided
    assert found.headline[0]


@pytest.mark.parametrize(
    ("options", "verdict", "copies"),
    [
        ([option(kept="kept"), option(2, kept="kept")], "one copy", 1),
        ([option(), option(2)], "one copy", 1),
        ([option(held=False), option(2), option(3)], "copies", 2),
        ([option(held=False), option(2, kept="open"), option(3, kept="kept")], "copies", 3),
        ([option(kept="open"), option(2, kept="kept")], "open", None),
        ([option(held=False), option(2, kept="open")], "open", None),
        ([option(held=False), option(2, held=False)], "none", None),
    ],
)
def test_a_given_rate_takes_the_fewest_copies_that_hold_it(options, verdict, copies):
    found = answer(*options, rate=12.0)
    assert (found.verdict, found.chosen and found.chosen.copies) == (verdict, copies)


def test_an_unsaturated_copy_is_no_baseline():
    found = answer(option(), tuning=tuned(10, 20))
    assert found.verdict == "no baseline"
    assert found.headline[0].startswith("Can't tell: one copy serves 20.0/s")
    assert found.headline[1].startswith("Something other")
    assert answer(option(), tuning=tuned(10, 20, asked=1)).headline[1].startswith("Leave --load out")
    assert answer(option(), tuning=tuned(10, 10)).verdict == "one copy"


def test_the_fewest_that_do_about_as_well():
    options = [gains(1.5, copies=4), gains(1.45, copies=3, sharing="a"), gains(1.44, copies=3, sharing="b"), gains(1.3)]
    assert copies_answer._fewest(options, at_rate=False).sharing == "a"
    exact = [gains(1.05, copies=3), gains(1.0, copies=2)]
    assert copies_answer._fewest(exact, at_rate=False).copies == 2, "1 is 1 / 1.05 of it"
    assert copies_answer._fewest([gains(1.06, copies=3), gains(1.0, copies=2)], at_rate=False).copies == 3
    assert copies_answer._fewest([option(3, kept="kept"), option(2, kept="open")], at_rate=True).copies == 3


def test_headlines():
    assert answer(option(), gains(1.5, 1.2, 1.8, kept="kept")).headline == [
        "Run 2 copies, shared cores: 1.50x [1.20, 1.80] the throughput of one copy and keeps the objective."
    ]
    assert answer(option(held=False), option(2), rate=12.0).headline == [
        "Run 2 copies, shared cores: it holds 12/s; fewer copies don't."
    ]
    assert answer(option(kept="kept"), rate=12.0).headline == ["Run one copy: it holds 12/s and keeps the objective."]
    assert answer(option()).headline == ["Run one copy: no larger number can be recommended."]
    said = answer(option(), gains(1.05, 0.9, 1.1), gains(1.01, 0.9, 1.05, copies=3)).headline[0]
    assert said.startswith("Run one copy: more don't pay; the best, 2 copies, shared cores, gives 1.05x")
    assert "up to 3" in answer(option(held=False), option(3, held=False), rate=1.0).headline[0]
    assert (
        "even one copy is unreliable: 2 of 10" in answer(option(reliability=Reliability(10, 2, 0, 0, "x"))).headline[0]
    )


# --- limits


@pytest.mark.parametrize(
    ("cores", "copies", "said"),
    [
        (3.2, 1, "The cores are the limit: one copy used 3.2 of 4 cores."),
        (3.1, 1, "One thread is the limit: one copy used 3.1 of 4 cores."),
        (0.8, 1, "One thread is the limit: one copy used 0.8 of 4 cores."),
        (0.79, 1, "One copy used 0.8 of 4 cores: cores are not the limit."),
        (2.0, 2, "2 copies used 2.0 of 4 cores: cores are not the limit."),
        (None, 1, None),
    ],
)
def test_the_limit_by_cores(cores, copies, said):
    options = [option(cores=cores if copies == 1 else 0.1)]
    if copies == 2:
        options.append(gains(1.5, 1.2, 1.8, cores=cores))
    assert answer(*options).limit == said


@pytest.mark.parametrize(
    ("sm", "dram", "cores", "said"),
    [
        (0.4, 0.8, 0.1, "Memory bandwidth is the limit: with one copy, SMs were active 40 % of the time, memory 80 %."),
        (0.8, 0.79, 0.1, "The SMs are the limit: with one copy, SMs were active 80 % of the time."),
        (0.79, None, 0.9, "Neither SMs nor bandwidth are the limit: with one copy, SMs were active 79 % of the time."),
        (0.49, None, 0.8, "The GPU was mostly idle; the host is the limit: with one copy, SMs were active 49 %"),
        (0.49, None, 0.79, "Neither SMs"),
        (0.5, None, 0.9, "Neither SMs"),
        (0.49, None, None, "Neither SMs"),
    ],
)  # fmt: skip
def test_the_limit_of_a_gpu(sm, dram, cores, said):
    assert answer(option(sm_active=sm, dram_active=dram, cores=cores)).limit.startswith(said)


def test_memory_is_the_limit_where_more_copies_did_not_fit():
    def short(copies, why="CUDA out of memory"):
        return option(copies, reliability=Reliability(3, 3, 0, 0, why), throughput_rps=NOTHING)

    assert answer(option(), short(2)).limit == "Memory is the limit: 2 copies didn't fit."
    assert answer(option(), gains(1.5, 1.2, 1.8), short(3)).limit.endswith("3 copies didn't fit.")
    assert "didn't fit" not in answer(option(), gains(1.5, 1.2, 1.8), short(2)).limit
    assert "didn't fit" not in answer(option(), short(2, "it died")).limit
    assert not copies_answer._out_of_memory(option(reliability=Reliability(3, 0, 1, 0, "out of memory")))
    assert copies_answer._out_of_memory(option(reliability=Reliability(3, 1, 0, 0, "MemoryError")))
    assert answer(gains(1.5)).limit is None


def test_the_cost_is_memory():
    found = answer(option(), gains(1.5, 1.2, 1.8, memory_bytes=3 * 10**9))
    assert found.cost == "They take 2.79 GiB of memory; one copy takes 954 MiB."
    for one, two in ((None, 1), (1, None)):
        assert answer(option(memory_bytes=one), gains(1.5, 1.2, 1.8, memory_bytes=two)).cost is None
    assert answer(option()).cost is None


def test_rejected_options_say_why():
    failing = option(2, reliability=Reliability(3, 3, 0, 0, "a  b\n" + "x" * 300))
    [said] = answer(option(), failing).rejected
    assert said.startswith("2 copies, shared cores: 3 of 3 starts failed (last: a b xxx")
    assert len(said) == len("2 copies, shared cores: 3 of 3 starts failed (last: ).") + 160
    assert answer(option(), option(2, kept="missed")).rejected == ["2 copies, shared cores: it misses the objective."]
    assert (copies_answer._short("x" * 160), copies_answer._short(None)) == ("x" * 160, "")
    assert copies_answer._short("x" * 161) == "x" * 157 + "..."


def test_remarks():
    same = option(2, resolved={"cache_tokens": 1000})
    less = option(3, resolved={"cache_tokens": 500, "other": 7})
    found = answer(option(resolved={"cache_tokens": 1000}), same, less, notes=("note",)).remarks
    assert found[0] == "note"
    assert found[1].startswith("3 copies, shared cores: cache tokens 500 each; one copy alone had 1,000. Give explicit")
    assert len(found) == 2
    assert answer(same, less).remarks == []
    doubted = option(2, doubts=("tenants_alive", "steady"), valid=0)
    assert answer(option(), doubted).remarks == ["Not every option has a valid trial (steady): cotenant show says why."]
    assert answer(option(), option(2, doubts=("steady",), valid=1)).remarks == []
    assert answer(option(), option(2, doubts=("tenants_alive",), valid=0)).remarks == []
    assert answer(option(), option(2, doubts=("steady",), valid=0, throughput_rps=NOTHING)).remarks == []
