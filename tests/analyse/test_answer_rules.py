"""Answers in the small: what decides each, by hand, on inputs that hold only what the rule looks at."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from cotenant.analyse import copies_answer, copy_options
from cotenant.analyse.copies_answer import CopiesAnswer, CopyLevel, Tuning
from cotenant.analyse.copy_options import CopiesOption, CopyStart, Reliability, reliability
from cotenant.analyse.estimates import warmup
from cotenant.analyse.estimates.autocorrelation import Stretches
from cotenant.analyse.explanation import binding, patterns
from cotenant.analyse.explanation.patterns import Sufferer
from cotenant.analyse.judged_promises import JudgedPromise, _counted_trials, _stretches, promise_sentence
from cotenant.analyse.neighbours import watching
from cotenant.analyse.neighbours.totals import Totals
from cotenant.analyse.sharing import closing, slo
from cotenant.tenancy.interval import Estimate, Interval, Missing


def number(est, half=0.0):
    return Estimate(est, est - half, est + half, 5, "")


# --- copies: starts and options


def start(**more):
    given = {
        "block": 0,
        "mix": "m",
        "sharing": "mps",
        "copies": 2,
        "failed": None,
        "died": None,
        "failed_checks": (),
        "reasons": (),
        "throughput_rps": 10.0,
        "cores": 1.0,
        "memory_bytes": 100,
        "resolved": {},
    }
    return CopyStart(**given | more)


def test_starts_are_counted_by_how_they_ended():
    made = [
        start(),
        start(failed="x"),
        start(died="y"),
        start(failed_checks=("steady",)),
        start(failed_checks=("quiet_machine",)),
        start(failed="z", failed_checks=("steady",)),
    ]
    found = reliability(made)
    assert (found.starts, found.failed, found.died, found.degraded, found.why) == (6, 2, 1, 1, "z")
    assert (found.failures, found.share) == (3, 0.5)
    assert Reliability(0, 0, 0, 0, None).share == 0.0
    assert start(failed_checks=("requests_succeed",)).degraded
    assert reliability([start()]).why is None


def option(**more):
    given = {
        "copies": 2,
        "sharing": "mps[50, 50]",
        "throughput_rps": number(20.0),
        "gain": number(1.5, 0.1),
        "latency_ms": {},
        "kept": None,
        "held": True,
        "in_flight": None,
        "reliability": Reliability(4, 0, 0, 0, None),
        "valid": 3,
        "unequal": (),
        "doubts": (),
        "cores": 2.0,
        "memory_bytes": 2 * 2**30,
        "sm_active": None,
        "dram_active": None,
        "resolved": {},
    }
    return CopiesOption(**given | more)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, None),
        ({"reliability": Reliability(4, 2, 0, 0, None)}, "2 of 4 starts failed"),
        ({"reliability": Reliability(4, 1, 0, 0, None)}, None),
        ({"reliability": Reliability(4, 1, 2, 0, None)}, "1 of 4 starts failed and 2 copies died"),
        ({"reliability": Reliability(1, 0, 1, 0, None)}, "1 copy died"),
        ({"unequal": ("a", "cache differ: 1")}, "the copies aren't equal: cache differ: 1"),
        ({"throughput_rps": Missing("")}, "nothing could be measured"),
        ({"kept": "missed"}, "it misses the objective"),
        ({"kept": "open"}, None),
        ({"held": False}, "it doesn't hold the rate"),
        ({"in_flight": 0.79}, "the client kept only 79 % of the load in flight"),
        ({"in_flight": 0.8}, None),
    ],
)
def test_what_speaks_against_an_option(more, why):
    assert option(**more).against(0.25) == why


@pytest.mark.parametrize(
    ("more", "way"),
    [
        ({}, "mps, 50 % each"),
        ({"sharing": "pinned"}, "core blocks"),
        ({"sharing": "processes"}, "shared cores"),
        ({"sharing": "processes", "cores": None}, "time-slicing"),
        ({"sharing": "mig[1g.5gb, 1g.5gb]"}, "mig, 1g.5gb each"),
    ],
)
def test_ways_in_words(more, way):
    assert option(**more).way == way
    assert option(**more).label == f"2 copies, {way}"
    assert option(copies=1).label == "1 copy"


def test_the_gain_is_within_blocks():
    made = [
        start(block=0, throughput_rps=20.0),
        start(block=1, throughput_rps=30.0),
        start(block=2, throughput_rps=None),
        start(block=3, throughput_rps=9.0),
    ]
    found = copy_options._gain(made, {0: 10.0, 1: 10.0})
    assert (found.est, found.n) == (pytest.approx(math.sqrt(6)), 2)
    assert copy_options._gain([start(copies=1)], {0: 1.0, 1: 1.0}).est == 1.0
    assert isinstance(copy_options._gain(made[2:], {0: 10.0}), Missing)


def test_sums_slowest_and_littles_law():
    found = copy_options._sum([number(1.0, 0.1), number(2.0, 0.2)])
    assert (found.est, found.lo, found.hi, found.n) == pytest.approx((3.0, 2.7, 3.3, 5))
    assert copy_options._sum([number(1.0), Estimate(1.0, None, None, 2, "")]).lo is None
    assert isinstance(copy_options._sum([number(1.0), Missing("")]), Missing)
    assert isinstance(copy_options._sum([]), Missing)
    assert copy_options._slowest([number(1.0), number(3.0), number(2.0)]).est == 3.0
    assert isinstance(copy_options._slowest([number(1.0), Missing("")]), Missing)
    assert (copy_options._mean([1.0, None, 2.0]), copy_options._mean([None])) == (1.5, None)
    copies = [SimpleNamespace(throughput_rps=number(10.0), mean_latency_ms=number(ms)) for ms in (400.0, 300.0)]
    assert copy_options._in_flight(copies, 4) == pytest.approx(0.75)
    assert copy_options._in_flight(copies, None) is None
    assert copy_options._in_flight([], 4) is None


def level(outstanding, rate):
    return CopyLevel(outstanding, number(rate) if rate else Missing(""), number(1.0))


@pytest.mark.parametrize(
    ("rates", "asked", "chosen", "saturated"),
    [
        ([10, 20, 20.5], None, 2, True),
        ([10, 20, 21.0], None, 2, True),
        ([10, 20, 21.1], None, 4, False),
        ([10, 20, 30], None, 4, False),
        ([10, 20, 20], 1, 1, False),
        ([20, 20, 20], 1, 1, True),
        ([0, 20, 20], None, 2, True),
        ([0, 0, 0], None, None, False),
        ([10, 20, 20], 4, 4, False),
        ([10, 20, 20], 9, None, False),
    ],
)
def test_the_least_load_that_serves_about_as_much_as_any(rates, asked, chosen, saturated):
    tuning = Tuning(tuple(level(2**power, rate) for power, rate in enumerate(rates)), asked)
    assert (tuning.chosen.outstanding if tuning.chosen else None) == chosen
    assert tuning.saturated is saturated


def test_a_tuning_in_words():
    def said(rates, asked=None):
        return Tuning(tuple(level(2**power, rate) for power, rate in enumerate(rates)), asked).sentence

    assert said([10, 20, 20]) == "One copy serves 20.0/s with 2 in flight, and no more with a higher load."
    assert said([10, 20]).endswith(
        "with 2 in flight, the most that was tried: it isn't saturated, so it is no baseline."
    )
    assert "but 20.0/s with 2: it isn't saturated" in said([10, 20], 1)
    assert said([0, 0]) == "One copy served no request."


def answer(*options, **more):
    given = {
        "server": "s",
        "device": "cpu",
        "host_cores": 4,
        "failures": 0.25,
        "options": options,
        "tuning": None,
        "rate_rps": None,
        "simulated": False,
        "left_out": (),
    }
    return CopiesAnswer(**given | more)


ONE = option(copies=1, sharing="alone", gain=number(1.0), cores=0.5, memory_bytes=2**30)
BAD = {"reliability": Reliability(2, 2, 0, 0, "CUDA out of memory")}


@pytest.mark.parametrize(
    ("options", "more", "verdict"),
    [
        ([ONE, option()], {}, "copies"),
        ([ONE, option(gain=number(1.09, 0.01))], {}, "one copy"),
        ([ONE, option(gain=Estimate(1.1, 1.01, 1.2, 5, ""))], {}, "copies"),
        ([ONE, option(gain=Estimate(1.5, 1.0, 2.0, 5, ""))], {}, "open"),
        ([ONE, option(gain=Estimate(1.05, 1.0, 1.1, 5, ""))], {}, "one copy"),
        ([ONE, option(gain=Estimate(1.05, 0.99, 1.11, 5, ""))], {}, "open"),
        ([option()], {}, "open"),
        ([ONE], {}, "one copy"),
        ([replace(ONE, held=False)], {}, "none"),
        ([replace(ONE, **BAD)], {}, "failing"),
        ([replace(ONE, throughput_rps=Missing("")), option()], {}, "open"),
        ([replace(ONE, **BAD), option()], {}, "copies"),
        ([ONE, option()], {"tuning": Tuning((level(1, 10),))}, "no baseline"),
        ([ONE, option()], {"rate_rps": 5.0}, "one copy"),
        ([replace(ONE, held=False), option()], {"rate_rps": 5.0}, "copies"),
        ([replace(ONE, kept="open"), option()], {"rate_rps": 5.0}, "open"),
        ([replace(ONE, held=False), option(kept="open")], {"rate_rps": 5.0}, "open"),
        ([replace(ONE, held=False), option(held=False)], {"rate_rps": 5.0}, "none"),
    ],
)
def test_verdicts_on_copies(options, more, verdict):
    found = answer(*options, **more)
    assert found.verdict == verdict
    assert found.decided is (verdict in {"copies", "one copy"})
    assert (found.chosen is None) is (not found.decided)
    assert found.headline[0].startswith(
        {
            "copies": "Run 2 copies",
            "one copy": "Run one copy",
            "open": "Can't tell yet",
            "none": "No number",
            "failing": "Don't run",
            "no baseline": "Can't tell: one copy serves",
        }[verdict]
    )


def test_the_fewest_copies_that_do_about_as_well():
    two, three, four = option(gain=number(1.91)), option(copies=3, gain=number(2.0)), option(copies=4, gain=number(1.5))
    assert answer(ONE, two, three, four).chosen is two
    weak = option(gain=number(1.9))
    assert answer(ONE, weak, three).chosen is three
    pinned = option(sharing="pinned", gain=number(1.95))
    assert answer(ONE, two, pinned).chosen is pinned
    failing = replace(ONE, held=False)
    assert answer(failing, three, two, rate_rps=9.0).chosen is two
    assert answer(failing, option(kept="open"), three, rate_rps=9.0).chosen is three


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ([ONE, option(**BAD)], "Memory is the limit: 2 copies didn't fit."),
        ([replace(ONE, cores=0.8)], "One thread is the limit"),
        ([replace(ONE, cores=0.7)], "cores are not the limit"),
        ([replace(ONE, cores=3.2)], "The cores are the limit"),
        ([replace(ONE, cores=None)], None),
        ([ONE, option(cores=3.3)], "The cores are the limit: 2 copies used 3.3 of 4 cores"),
        ([replace(ONE, sm_active=0.8)], "The SMs are the limit"),
        ([replace(ONE, sm_active=0.79)], "Neither SMs"),
        ([replace(ONE, sm_active=0.2, dram_active=0.8)], "Memory bandwidth"),
        ([replace(ONE, sm_active=0.49, cores=0.8)], "the host is the limit"),
        ([replace(ONE, sm_active=0.5, cores=0.8)], "Neither SMs"),
        ([option()], None),
    ],
)
def test_what_limits_more_copies(options, limit):
    said = answer(*options).limit
    assert said is None if limit is None else limit in said


def test_costs_rejections_and_remarks():
    found = answer(ONE, option())
    assert found.cost == "They take 2.00 GiB of memory; one copy takes 1.00 GiB."
    assert answer(ONE).cost is None
    rejected = answer(ONE, option(**BAD)).rejected
    assert rejected == ["2 copies, mps, 50 % each: 2 of 2 starts failed (last: CUDA out of memory)."]
    differs = answer(replace(ONE, resolved={"cache_tokens": 100}), option(resolved={"cache_tokens": 40}))
    assert "cache tokens 40 each; one copy alone had 100" in differs.remarks[0]
    assert answer(replace(ONE, resolved={"a": 1}), option(resolved={"a": 1})).remarks == []
    doubted = answer(ONE, option(valid=0, doubts=("steady", "tenants_alive")))
    assert doubted.remarks == ["Not every option has a valid trial (steady): cotenant show says why."]
    assert answer(ONE, option(valid=0, doubts=("copies_equal",))).remarks == []
    assert copies_answer._short("a " * 200).endswith("...")
    assert len(copies_answer._short("a" * 200)) == 160
    assert copies_answer._short("a" * 160) == "a" * 160


# --- what was watched

BUCKETS = {0.1: 50.0, 0.2: 90.0, 0.5: 100.0, math.inf: 100.0}


@pytest.mark.parametrize(("q", "seconds"), [(0.5, 0.1), (0.25, 0.05), (0.7, 0.15), (0.9, 0.2), (0.95, 0.35)])
def test_quantiles_are_interpolated_within_a_bucket(q, seconds):
    assert watching.bucket_quantile(BUCKETS, q) == pytest.approx(seconds)


def test_quantiles_of_few_or_endless_times_are_not_given():
    assert watching.bucket_quantile(BUCKETS, 0.99) is None, "needs 299"
    assert watching.bucket_quantile({0.1: 50.0, math.inf: 100.0}, 0.9) is None
    assert watching.bucket_quantile({}, 0.5) is None
    assert watching.bucket_quantile({0.1: 6.0}, 0.5) == pytest.approx(0.05)
    assert watching.bucket_points(BUCKETS, 4) == pytest.approx([0.025, 0.075, 0.13125, 0.19375])
    assert watching.bucket_points({}, 4) == []
    assert watching.bucket_points({math.inf: 4.0}, 4) == []


def totals(values, step=1.0):
    return Totals(step * np.arange(len(values)), np.array(values, float))


def watched(**roles):
    return watching.TenantTotals("a", "s", roles)


def test_growth_leaves_restarts_out_and_means_divide_it():
    tenant = watched(
        requests=totals([0, 5, 9, 1, 3]),
        latency_s=totals([0, 1, 2, 0, 1]),
        latency_count=totals([0, 5, 9, 1, 3]),
        one=totals([7]),
    )
    assert watching._grown(tenant, "requests") == 11
    assert (watching._grown(tenant, "one"), watching._grown(tenant, "none")) == (0.0, 0.0)
    assert watching._mean(tenant, "latency_s", "latency_count") == pytest.approx(3 / 11)
    assert watching._mean(tenant, "latency_s", "none") is None
    assert watching._mean(tenant, "none", "requests") is None


def test_the_variation_of_gaps_from_counts():
    counts = np.array([4, 6, 4, 6, 4, 6, 4, 6, math.nan])
    assert watching._cv(counts) == pytest.approx(math.sqrt(4 / 2 / 5))
    assert watching._cv(counts[:7]) is None
    assert watching._cv(np.zeros(9)) is None


@pytest.mark.parametrize(
    ("period", "latency", "seconds", "step"),
    [
        (1.0, 0.1, 900, 3.0),
        (1.0, 0.1, 901, 10.0),
        (2.0, 0.1, 100, 5.0),
        (1.0, 2.0, 100, 10.0),
        (1.0, 1.0, 100, 3.0),
        (1.0, 999, 100, 300.0),
    ],
)
def test_intervals_are_long_enough_for_two_readings_and_most_requests(period, latency, seconds, step):
    tenant = watched(
        requests=totals(range(9), period),
        latency_s=totals(np.arange(9) * latency, period),
        latency_count=totals(range(9), period),
    )
    assert watching._step([tenant], seconds) == step


# --- correlations and groups of mixes


def sufferer(mix, slowdown, tenant="a", service_ms=1.0, neighbours=1, **properties):
    return Sufferer(mix, "mps", tenant, properties, math.log(slowdown), neighbours, service_ms)


def test_links_have_fishers_interval_and_holms_correction():
    random = np.random.default_rng(2)
    y = random.normal(size=12)
    columns = {"strong": y + 0.3 * random.normal(size=12), "weak": random.normal(size=12)}
    strong, weak = patterns._links(columns, y, 9)
    r = np.corrcoef(columns["strong"], y)[0, 1]
    assert (strong.property, strong.r.est) == ("strong", pytest.approx(r))
    reach = stats.norm.ppf(0.975) / math.sqrt(6)
    assert strong.r.ends == pytest.approx((math.tanh(math.atanh(r) - reach), math.tanh(math.atanh(r) + reach)))
    p = 2 * stats.norm.cdf(-abs(math.atanh(r)) * math.sqrt(6))
    assert strong.p == pytest.approx(2 * p)
    assert abs(weak.r.est) < abs(strong.r.est)


def test_held_out_mixes_are_predicted_by_the_others():
    x, mixes = np.arange(8.0)[:, None], np.array(list("aabbccdd"))
    assert patterns._left_out(x, 2 * x[:, 0] + 1, mixes) == pytest.approx(1.0)
    y = np.array([0, 0, 0, 0, 0, 0, 1.0, 1.0])
    missed = 0.0
    for mix in "abcd":
        out = mixes == mix
        slope, offset = np.polyfit(x[~out, 0], y[~out], 1)
        missed += ((y[out] - slope * x[out, 0] - offset) ** 2).sum()
    assert patterns._left_out(x, y, mixes) == pytest.approx(1 - missed / ((y - y.mean()) ** 2).sum())


def test_groups_are_compared_by_welch():
    a, b = np.log([1.5, 1.6, 1.7]), np.log([1.1, 1.2, 1.1, 1.15])
    found, p = patterns._contrast("mps", ("big", a), ("small", b))
    test = stats.ttest_ind(a, b, equal_var=False)
    inside = test.confidence_interval()
    assert p == pytest.approx(test.pvalue)
    assert (found.ratio.est, *found.ratio.ends) == pytest.approx(
        (math.exp(a.mean() - b.mean()), math.exp(inside.low), math.exp(inside.high))
    )
    assert (found.one.name, found.one.mixes, found.one.slowdown, found.other.mixes) == (
        "big",
        3,
        pytest.approx(math.exp(a.mean())),
        4,
    )
    same, p = patterns._contrast("mps", ("x", np.ones(3)), ("y", np.ones(3)))
    assert (p, same.ratio.est) == (1.0, 1.0)
    assert patterns._contrast("mps", ("x", np.ones(3)), ("y", np.zeros(3)))[1] == 0.0


def test_kinds_and_sizes_of_pairs():
    kinds = {"a": "encoder", "b": "decoder"}
    assert patterns._by_kind([sufferer("m", 2), sufferer("m", 2)], kinds) == "encoders"
    assert patterns._by_kind([sufferer("m", 2), sufferer("m", 2, "b")], kinds) == "a decoder beside an encoder"
    assert patterns._by_kind([sufferer("m", 2, "c")], kinds) is None
    assert patterns._by_size([sufferer("m", 2), sufferer("m", 2, service_ms=3.0)]) == "a small beside a big tenant"
    assert patterns._by_size([sufferer("m", 2), sufferer("m", 2, service_ms=2.9)]) == "tenants of one size"
    assert patterns._by_size([sufferer("m", 2)]) is None
    assert patterns._by_size([sufferer("m", 2), sufferer("m", 2, service_ms=0.0)]) is None


def test_contrasts_need_three_mixes_of_two_tenants_each_side():
    def mixes(count, big, slowdown, name):
        return [
            sufferer(f"{name}{i}", slowdown + 0.01 * i, tenant, service_ms=ms)
            for i in range(count)
            for tenant, ms in (("a", 1.0), ("b", big))
        ]

    rows = mixes(3, 5.0, 1.5, "x") + mixes(3, 1.0, 1.1, "y")
    (found,) = patterns.contrasts(rows, {})
    assert (found.one.name, found.other.name) == ("a small beside a big tenant", "tenants of one size")
    assert found.shown
    assert patterns.contrasts(mixes(3, 5.0, 1.5, "x") + mixes(2, 1.0, 1.1, "y"), {}) == []
    assert patterns.contrasts([replace(row, neighbours=2) for row in rows], {}) == []


def test_a_pattern_needs_six_mixes_and_slowdowns_that_differ():
    name = "how many neighbours it has"
    rows = [sufferer(f"m{i}", 1 + 0.2 * i, **{name: float(i)}) for i in range(6)]
    (found,) = patterns.patterns(rows)
    assert (found.mixes, found.tenants, found.model, found.sharing) == (6, 6, (name,), "mps")
    assert found.left_out_r2 > 0.7
    assert patterns.patterns(rows[:5]) == []
    assert patterns.patterns([replace(row, log_slowdown=0.1) for row in rows]) == []
    assert patterns.patterns([replace(row, properties={name: 1.0}) for row in rows]) == []
    first, second = patterns.pattern_sentences(found)
    assert "more slowdown the more of it" in first
    assert "(6 tenants in 6 mixes)" in first
    assert "of how slowdowns differ in held-out mixes" in second


# --- objectives


@pytest.mark.parametrize(
    ("quantile", "late", "confidence", "needed"),
    [(0.9, 0, 0.99, 44), (0.99, 0, 0.99, 459), (0.99, 0, 0.95, 299), (0.99, 1, 0.99, 662), (0.5, 0, 0.95, 5)],
)
def test_requests_needed_are_those_of_the_binomial(quantile, late, confidence, needed):
    assert slo.queries_needed(quantile, late, confidence) == needed
    assert (
        stats.binom.cdf(late, needed, 1 - quantile) <= 1 - confidence < stats.binom.cdf(late, needed - 1, 1 - quantile)
    )


def test_attainment_decides_with_its_confidence():
    sure = slo.attainment([459], [459], 0.99)
    assert (sure.answer, sure.needs_n, sure.share.est) == ("met", None, 1.0)
    short = slo.attainment([458], [458], 0.99)
    assert short.answer == "undecided"
    assert 459 <= short.needs_n <= 460
    lost = slo.attainment([50], [100], 0.9)
    assert lost.answer == "missed"
    lo, hi = slo.binomial_interval(50, 100)
    inside = stats.binomtest(50, 100).proportion_ci(0.95, "exact")
    assert (lo, hi) == pytest.approx((inside.low, inside.high))
    assert slo.binomial_interval(0, 10)[0] == 0.0
    assert slo.binomial_interval(10, 10)[1] == 1.0
    edge = next(hits for hits in range(90, 0, -1) if slo.attainment([hits], [100], 0.9).answer == "missed")
    assert (
        stats.binomtest(edge, 100).proportion_ci(0.98, "exact").high
        < 0.9
        <= stats.binomtest(edge + 1, 100).proportion_ci(0.98, "exact").high
    )
    with pytest.raises(ValueError, match="at least one request"):
        slo.attainment([0], [0], 0.9)
    for bad in ((0.0, 0), (1.0, 0), (0.9, -1)):
        with pytest.raises(ValueError, match="between 0 and 1"):
            slo.queries_needed(*bad)


def test_requests_that_a_study_lacks():
    counted = slo.ObjectiveRequests()
    assert counted.lacking() == {}
    first, again = slo.queries_needed(0.99, 2), slo.queries_needed(0.99, 8)
    for n, late, times in (
        (100, 0, first / 100),
        (first, 0, None),
        (first, 3, again / first),
        (again, 9, None),
        (first, first, None),
    ):
        counted._seen, counted._late = {("cell", "t", 0.99): n}, {("cell", "t", 0.99): late}
        assert counted.lacking().get("cell") == (None if times is None else pytest.approx(times))


def promise(**more):
    return JudgedPromise(
        **{
            "tenant": "a",
            "objective": "p99",
            "limit_ms": 10.0,
            "quantile": 0.99,
            "requests": 100,
            "in_time": 90,
            "share": Interval(0.9, 0.8, 0.95),
            "verdict": "kept",
        }
        | more
    )


@pytest.mark.parametrize(
    ("measured", "lower", "upper", "outside"),
    [
        (12.0, 5.0, 10.0, 0.2),
        (4.0, 5.0, 10.0, -0.2),
        (7.0, 5.0, 10.0, 0.0),
        (10.0, 5.0, 10.0, 0.0),
        (5.0, 5.0, 10.0, 0.0),
        (None, 5.0, 10.0, None),
        (3.0, 0.0, 10.0, 0.0),
    ],
)
def test_how_far_outside_its_range_a_promise_lies(measured, lower, upper, outside):
    seen = None if measured is None else Interval(measured)
    found = promise(measured_ms=seen, expected_ms=Interval(7.0, lower, upper)).outside
    assert found == (None if outside is None else pytest.approx(outside))


@pytest.mark.parametrize(
    ("lo", "hi", "clearly"),
    [(10.1, 12.0, True), (10.0, 12.0, False), (3.0, 4.9, True), (3.0, 5.0, False), (None, None, False)],
)
def test_a_measured_interval_beside_the_range_is_clearly_outside(lo, hi, clearly):
    row = promise(measured_ms=Interval(7.0, lo, hi), expected_ms=Interval(7.0, 5.0, 10.0))
    assert row.clearly_outside is clearly
    assert not promise(measured_ms=Interval(7.0, lo, hi)).clearly_outside


def test_promises_in_a_sentence():
    rows = [
        promise(),
        promise(tenant="b", verdict="missed"),
        promise(tenant="b", verdict="missed"),
        promise(tenant="c", verdict="can't tell"),
    ]
    assert promise_sentence(rows) == "1 of 4 objectives kept; missed: b; can't tell: c"
    assert promise_sentence(rows[:1]) == "1 of 1 objective kept"


def test_buckets_bound_the_requests_in_time():
    buckets = [{0.1: 5.0, 0.2: 8.0, math.inf: 10.0}]
    for limit, low, high in ((0.15, 5, 8), (0.1, 5, 5), (0.2, 8, 8), (0.05, 0, 5), (0.3, 8, 10)):
        assert [int(_counted_trials(buckets, limit, high=side)[0].hits[0]) for side in (False, True)] == [low, high]
    assert _counted_trials([{0.1: 0.0}], 0.1, high=True) == []
    assert _counted_trials(buckets, 0.1, high=True)[0].sizes.tolist() == [10]


def test_requests_without_a_time_are_spread():
    found = _stretches(np.array([True, False, True, True]), 2, 3, 6)
    assert isinstance(found, Stretches)
    assert (found.sizes.tolist(), found.hits.tolist()) == ([5, 4], [3, 3])


# --- closing sentences


@pytest.mark.parametrize(
    ("number", "target", "more"),
    [
        (Missing(""), 0.05, 0),
        (Estimate(1.0, None, None, 1, ""), None, 2),
        (Estimate(1.0, None, None, 3, ""), None, 0),
        (Estimate(1.0, 0.9, 1.1, 9, ""), None, 0),
        (Estimate(1.0, 0.75, 1.25, 9, ""), 0.25, 0),
    ],
)
def test_blocks_that_are_not_needed(number, target, more):
    assert closing._more_blocks(number, target) == more


def test_blocks_until_an_interval_is_narrow_enough():
    found = closing._more_blocks(Estimate(1.0, 0.9, 1.1, 9, ""), 0.05)
    spread = 0.1 * 3 / stats.t.ppf(0.975, 8)
    assert spread * stats.t.ppf(0.975, 8 + found) / math.sqrt(9 + found) <= 0.05
    less = math.floor((9 + found) / 1.05) - 1
    assert spread * stats.t.ppf(0.975, less - 1) / math.sqrt(less) > 0.05
    assert closing._wish(500, 60.0).startswith("needs about 500 more blocks (")
    assert closing._wish(1, 60.0).startswith("needs about 1 more block (")
    assert closing._wish(501, 60.0).startswith("scatters too much")


def ways(**more):
    return closing.AloneThreeWays(
        **{"of": "a", "idle_ms": 10.0, "stopped_ms": (9.0, 9.2), "whole_ms": None, "doubtful": False} | more
    )


def test_three_ways_of_being_alone():
    (said,) = closing.alone_sentences([ways()])
    assert said.startswith(
        "a alone takes 10 ms beside idle neighbours; with them stopped 9 ms before the run and 9.2 ms"
    )
    assert said.endswith("after it: 9.9 % more beside idle neighbours.")
    assert closing._stopped(ways(stopped_ms=(9.6,))).endswith(
        "9.6 ms before the run: idle neighbours cost it nothing measurable"
    )
    assert closing._stopped(ways(stopped_ms=(11.0,))).endswith("9.1 % less beside idle neighbours")
    assert closing._stopped(ways(stopped_ms=(9.0, 10.0), idle_ms=10.5)).endswith("cost it nothing measurable")
    assert closing._whole(ways(whole_ms=8.0)).endswith("takes 8 ms instead of 9.1: its share costs 14 %")
    assert closing._whole(ways(whole_ms=8.8)).endswith("the smaller share costs it nothing measurable")
    assert "instead of 10:" in closing._whole(ways(stopped_ms=(), whole_ms=8.0))
    assert closing.alone_sentences([ways(doubtful=True)])[0].endswith("(not all of these trials were valid).")


# --- what limits a tenant alone


def measured(**more):
    item = SimpleNamespace(
        peak_memory_bytes=more.pop("held", 10),
        working_set_bytes=more.pop("working_set", None),
        work=SimpleNamespace(flops_per_request=more.pop("flops", 1.0)),
    )
    peaks = SimpleNamespace(memory_bytes=100, cache_bytes=50, undisturbed=more.pop("undisturbed", True))
    return binding._Measured(
        **{
            "cores": 1.0,
            "compute_share": 0.1,
            "bandwidth_share": 0.1,
            "on_cpu": True,
            "starved": False,
            "item": item,
            "peaks": peaks,
        }
        | more
    )


@pytest.mark.parametrize(
    ("more", "bound", "sure"),
    [
        ({"held": 90}, "capacity", "clear"),
        ({"held": 89, "compute_share": 0.6}, "compute", "clear"),
        ({"compute_share": 0.59}, "compute", "likely"),
        ({"compute_share": 0.4}, "compute", "likely"),
        ({"compute_share": 0.39}, "compute", "unclear"),
        ({"bandwidth_share": 0.6}, "memory bandwidth", "clear"),
        ({"compute_share": 0.15}, "compute", "unclear"),
        ({"compute_share": 0.149}, "launch or host overhead", "likely"),
        ({"bandwidth_share": 1.05}, "cache", "clear"),
        ({"bandwidth_share": 1.04}, "memory bandwidth", "clear"),
        ({"bandwidth_share": 0.2, "working_set": 50}, "cache", "clear"),
        ({"bandwidth_share": 0.2, "working_set": 51}, "memory bandwidth", "unclear"),
        ({"compute_share": 0.7, "undisturbed": False}, "compute", "unclear"),
        ({"bandwidth_share": 1.2, "undisturbed": False}, "memory bandwidth", "unclear"),
        ({"cores": 0.49}, "waiting elsewhere", "clear"),
        ({"cores": 0.5}, "launch or host overhead", "likely"),
        ({"cores": 0.49, "on_cpu": False}, "launch or host overhead", "clear"),
        ({"starved": True, "cores": 0.1, "compute_share": 0.7}, "compute", "unclear"),
        ({"compute_share": None, "bandwidth_share": None}, "unknown", "unclear"),
        ({"compute_share": None, "bandwidth_share": None, "flops": None}, "compute", "likely"),
        ({"compute_share": None, "bandwidth_share": None, "flops": None, "on_cpu": False}, "unknown", "unclear"),
    ],
)
def test_what_binds_a_tenant(more, bound, sure):
    found, how_sure, _ = binding._while_serving(measured(**more))
    assert (found, how_sure) == (bound, sure)


@pytest.mark.parametrize(
    ("foreign", "steal", "switches", "itself"),
    [
        (None, None, None, True),
        (0.09, 0.0, None, True),
        (0.1, None, None, False),
        (None, 0.1, None, False),
        (0.5, None, 5, True),
        (0.5, None, 4, False),
    ],
)
def test_a_tenant_waits_itself_if_nobody_took_its_core_or_it_yields(foreign, steal, switches, itself):
    item = SimpleNamespace(
        foreign_share=foreign, steal_share=steal, switches_voluntary=switches, seen=SimpleNamespace(n=10)
    )
    assert binding._waits_itself([item]) is itself


# --- steadiness


def series(*levels, each=20, noise=0.002, seed=0):
    random = np.random.default_rng(seed)
    return np.concatenate([level * (1 + noise * random.normal(size=each)) for level in levels])


@pytest.mark.parametrize(
    ("levels", "kind", "changes"),
    [
        ((10, 10, 10), "flat", 0),
        ((13, 10, 10), "warm-up", 1),
        ((10, 13, 13), "slowdown", 1),
        ((10, 13, 10), "no steady state", 2),
        ((10, 10.4, 10.4), "flat", 0),
        ((14, 12, 10), "warm-up", 2),
    ],
)
def test_classes_of_series(levels, kind, changes):
    found = warmup.steadiness(series(*levels))
    assert (found.kind, len(found.changes)) == (kind, changes)
    assert len(found.levels) == changes + 1
    if changes == 1:
        assert found.changes[0] == pytest.approx(20 if levels[0] != levels[1] else 40, abs=1)
        assert found.levels == pytest.approx((levels[0], levels[-1]), rel=0.01)
    assert warmup.classify(series(*levels)) == kind


def test_the_last_quarter_must_be_at_one_level_and_short_series_tell_nothing():
    late = np.concatenate([series(10, each=80), series(14, each=19)])
    assert warmup.classify(late) == "no steady state"
    assert warmup.classify(np.concatenate([series(10, each=60), series(14, each=40)])) == "slowdown"
    few = warmup.steadiness([1.0] * 19)
    assert (few.kind, few.levels, few.note) == ("flat", (1.0,), "only 19 points: too few to see a change")
    assert warmup.steadiness([1.0] * 20).note is None
    assert warmup.steadiness([]).levels == ()
    assert warmup.steadiness(series(13, 10, each=100), most_points=19).note is not None


def best_cut(points):
    """One cut at most, by trying all, with the cost of each stretch as the docstring says."""
    n = len(points)
    floor = (1e-3 * abs(np.median(points))) ** 2

    def cost(part):
        return len(part) * math.log(max(np.var(part), floor))

    cuts = {(): cost(points)} | {
        (at,): cost(points[:at]) + cost(points[at:]) + 15 * math.log(n) for at in range(5, n - 4)
    }
    return list(min(cuts, key=cuts.get))


@pytest.mark.parametrize("seed", range(8))
def test_one_change_of_level_is_where_the_cost_is_least(seed):
    random = np.random.default_rng(seed)
    at, jump = int(random.integers(6, 30)), float(random.choice([0.0, 0.3, 2.0]))
    points = 10 + random.normal(size=36) * 0.3 + jump * (np.arange(36) >= at)
    assert warmup._change_points(points) in (best_cut(points), *([] if jump else [[]]))


def test_outliers_are_pulled_in():
    raw = np.array([10.0] * 9 + [99.0])
    assert warmup._without_extremes(raw).max() == 15.0
    wide = np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8, 99])
    assert warmup._without_extremes(wide).max() == pytest.approx(4.5 + 6 * 1.4826 * 2.5)
    points = np.resize([1.0, 2.0, 3.0], 40)
    points[20] = 50.0
    spread = warmup._winsorised(points)
    assert spread[20] < 8
    assert spread[:15].tolist() == points[:15].tolist()


def test_steps_by_all_partitions():
    data = np.array([0.0, 0.1, 0.0, 5.0, 5.1, 5.0, 5.0])
    (step,) = warmup.find_steps(data, 0.1, 10.0)
    assert (step.at, step.before, step.after) == (3, pytest.approx(0.1 / 3), pytest.approx(5.025))
    assert step.error == pytest.approx(0.1 * math.sqrt(1 / 3 + 1 / 4))
    assert warmup.find_steps(data, 0.1, 1e9) == []
    assert warmup.find_steps(data, 0.1, 10.0, least=5.1) == []
    assert warmup.find_steps(data[:1], 0.1, 1.0) == []
    assert [step.at for step in warmup.find_steps(np.array([0.0, 9.0]), 0.1, 10.0)] == [1]
    assert warmup.penalty(11, 2, math.inf) == pytest.approx(stats.norm.ppf(1 - 0.05 / 2 / 20) ** 2)
    assert warmup.penalty(1, 1, math.inf) == pytest.approx(stats.norm.ppf(0.975) ** 2)
    assert warmup.noise_of([np.array([0, 2, 0, 2.0])]) == pytest.approx(1.4826 * 2 / math.sqrt(2))
    assert warmup.noise_of([]) == 0.0
    assert warmup.noise_of([np.array([1.0])]) == 0.0
