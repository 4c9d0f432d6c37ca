"""Rates up to which objectives are kept, and latency curves, by hand."""

import numpy as np
import pytest

from cotenant.analyse.sharing.capacity import (
    CapacityCurve,
    CurveCollector,
    LatencyCurve,
    RateAttainment,
    beside_alone,
    capacity_curves,
    capacity_sentences,
    curve_points,
)
from cotenant.analyse.sharing.slo import Attainment
from cotenant.analyse.sharing.summary import Summary
from cotenant.tenancy.records import TenantObservation
from tests.analyse.decision.ways import about, cell, tenant


def curve(*levels, solo=False, name="a", load="poisson", sharing="mps"):
    rates = tuple(RateAttainment(float(rate), share, 0.9, None) for rate, share in levels)
    return CapacityCurve(cell(sharing, name if solo else "a+b", solo=solo, load=load), name, name, rates)


@pytest.mark.parametrize(
    ("shares", "knee", "broken"),
    [
        ((0.95, 0.9, 0.89), 20.0, 30.0),
        ((0.95, 0.8, 0.95), 10.0, 20.0),
        ((0.8, 0.95, 0.95), None, 10.0),
        ((0.95, 0.95, 0.95), 30.0, None),
    ],
)
def test_the_knee_is_below_the_first_rate_that_is_not_kept(shares, knee, broken):
    found = curve(*zip((10, 20, 30), shares, strict=True))
    assert (found.knee and found.knee.rate_rps, found.broken and found.broken.rate_rps) == (knee, broken)
    plain = found.to_json()
    assert (plain["knee_rps"], plain["broken_rps"], len(plain["levels"])) == (knee, broken, 3)


def at(rate, share=0.95, name="a", load=None, **more):
    place = cell(load=load or f"poisson({rate:g})")
    return tenant(name, share=share, cell=place, rate_rps=float(rate), **more)


def test_a_curve_needs_three_rates_of_one_kind_of_arrivals():
    assert capacity_curves(Summary((at(10), at(20)), (), {})) == ()
    assert capacity_curves(Summary((at(10), at(20), at(10)), (), {})) == ()
    assert capacity_curves(Summary((at(10), at(20), at(30, load="gamma(30, 2)")), (), {})) == ()
    (found,) = capacity_curves(Summary((at(30, 0.8), at(10), at(20), at(40, slo_ms=None)), (), {}))
    assert [level.rate_rps for level in found.levels] == [10.0, 20.0, 30.0]
    assert (found.cell.load, found.tenant, found.knee.rate_rps) == ("poisson", "a", 20.0)
    assert len(capacity_curves(Summary(tuple(at(rate, load="own") for rate in (1, 2, 3)), (), {}))) == 1
    assert capacity_curves(Summary((tenant(), tenant(), tenant()), (), {})) == ()


def test_the_objective_with_the_least_headroom_counts():
    hard, easy = Attainment(about(0.98), 0.99, "missed", None), Attainment(about(0.9), 0.5, "met", None)
    rows = tuple(at(rate, objectives=((1.0, easy), (2.0, hard)), goodput_rps=about(7.0)) for rate in (1, 2, 3))
    (found,) = capacity_curves(Summary(rows, (), {}))
    assert {(level.attainment, level.quantile, level.goodput_rps) for level in found.levels} == {(0.98, 0.99, 7.0)}


def test_capacity_in_sentences():
    alone = curve((10, 0.95), (20, 0.95), (40, 0.5), solo=True)
    first, beside, early = capacity_sentences([alone, curve((10, 0.95), (20, 0.85), (40, 0.5)), curve((10, 0.5))])
    assert first == "a alone keeps its objectives up to 20 requests/s, and no longer at 40 (50 % in time)."
    assert beside.startswith("a in a+b (mps) keeps its objectives up to 10 requests/s, and no longer at 20 (85 % in ")
    assert beside.endswith("time): 50 % of what it keeps alone.")
    assert early == "a in a+b (mps) misses its objectives already at 10 requests/s (50 % in time)."
    every = curve((10, 0.95), (20, 0.95))
    (sentence,) = capacity_sentences([every])
    assert sentence == "a in a+b (mps) keeps its objectives at every rate measured, up to 20 requests/s."
    both = capacity_sentences([every, curve((10, 0.95), load="gamma")])
    assert both[1].startswith("a in a+b (mps) under gamma keeps ")
    assert capacity_sentences([every, curve((10, 0.95), load="")])[1].startswith("a in a+b (mps) keeps ")
    other = curve((10, 0.95), solo=True, load="gamma")
    assert beside_alone([alone, every, other]) == [(alone, None), (every, alone), (other, None)]


# --- latency curves


@pytest.mark.parametrize(("n", "last"), [(2, None), (3, 1.0), (5, 1.54), (6, 2.0), (299, 98.0), (30_000, 10_000.0)])
def test_three_requests_lie_behind_the_rarest_quantile(n, last):
    odds, values = curve_points(np.arange(1, n + 1) * 1_000_000, 0)
    assert len(odds) == len(values)
    assert (odds[-1] if odds else None) == (last if last is None else pytest.approx(last, rel=0.16))
    assert list(odds) == sorted(set(odds))
    for odd, value in zip(odds, values, strict=True):
        assert value == max(1, int(np.ceil((1 - 1 / odd) * n - 1e-9)))
    assert (2.0 in odds) == (n >= 6)


def test_requests_that_never_completed_are_later_than_all():
    odds, values = curve_points(np.arange(1, 91) * 1_000_000, 10)
    assert max(values) <= 90.0
    assert max(odds) <= 10.0
    assert values[odds.index(2.0)] == 50.0
    assert curve_points(np.array([], np.int64), 100) == ((), ())
    assert curve_points(np.array([3, 1, 2]) * 1_000_000, 0) == ((1.0,), (1.0,))


def test_a_curve_is_thinned_evenly():
    found = LatencyCurve(cell(), "a", "a", 9, 0, tuple(map(float, range(9))), tuple(map(float, range(9))))
    assert found.thinned(9) == found.thinned(99) == [(float(i), float(i)) for i in range(9)]
    assert [point for point, _ in found.thinned(3)] == [0.0, 4.0, 8.0]
    assert [point for point, _ in found.thinned(1)] == [0.0, 8.0]


def trial(number, name="a", verdict="valid", unfinished=0, latency=(1, 2, 3)):
    return TenantObservation(
        run="r", trial=number, block=number, mix="a+b", sharing="mps", settings="{}", load="closed(1)", device="cpu",
        simulated=False, solo=False, tenant=name, of=name, verdict=verdict, failed_checks=(), n=3,
        unfinished=unfinished, throughput_rps=1.0, mean_latency_ns=2.0, window_s=1.0,
        latency_ns=None if latency is None else np.array(latency) * 1_000_000,
    )  # fmt: skip


def test_latencies_of_a_tenant_are_collected_over_its_usable_trials():
    collector = CurveCollector()
    trials = [trial(0, unfinished=1), trial(1, unfinished=2), trial(2, verdict="invalid"), trial(3, latency=None)]
    passed = list(collector.watch([*trials, trial(0, "b"), trial(0, "c", verdict="invalid")]))
    assert len(passed) == 6
    assert [(found.tenant, found.n, found.unfinished) for found in collector.curves] == [("a", 9, 3), ("b", 3, 0)]
