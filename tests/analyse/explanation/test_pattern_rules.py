"""Correlations of slowdowns and groups of mixes, by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from cotenant.analyse.explanation import patterns
from cotenant.analyse.explanation.patterns import Sufferer


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
    (found,) = patterns.contrasts(rows, dict)
    assert (found.one.name, found.other.name) == ("a small beside a big tenant", "tenants of one size")
    assert found.shown
    assert patterns.contrasts(mixes(3, 5.0, 1.5, "x") + mixes(2, 1.0, 1.1, "y"), dict) == []
    assert patterns.contrasts([replace(row, neighbours=2) for row in rows], dict) == []


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
