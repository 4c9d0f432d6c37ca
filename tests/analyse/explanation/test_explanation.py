"""Circumstances of a run, pairs, and how busy tenants are: by which trials, from which share on."""

import math
from dataclasses import replace

import pytest

from cotenant.analyse.explanation.explanation import _busy, _pairs, circumstances
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.evidence import RequestWork, TenantEvidence
from cotenant.tenancy.records import ModelErrorRecord, TenantObservation


def seen(trial=0, tenant="a", mix="a+b", *, ms=10.0, n=100, unfinished=0, rps=50.0, **more):
    given = {
        "run": "r", "trial": trial, "block": trial, "mix": mix, "sharing": "mps", "settings": "{}", "load": "closed(1)",
        "device": "cpu", "simulated": False, "solo": "+" not in mix, "tenant": tenant, "of": tenant.partition("#")[0],
        "verdict": "valid", "failed_checks": (), "n": n, "unfinished": unfinished, "throughput_rps": rps,
        "mean_latency_ns": ms * 1e6, "window_s": 1.0,
    }  # fmt: skip
    return TenantObservation(**given | more)


def evidence(trial=0, tenant="a", mix="a+b", *, own_load="closed(1)", rate=None, service_ms=None, clock=None,
             foreign=None, steal=None, **more):  # fmt: skip
    return TenantEvidence(
        seen(trial, tenant, mix, **more), RequestWork("w", 1, None, None, None), own_load, rate_rps=rate,
        service_ns=None if service_ms is None else service_ms * 1e6, clock_mhz=clock, foreign_share=foreign,
        steal_share=steal,
    )  # fmt: skip


def said(*items):
    return [(found.kind, found.sentence) for found in circumstances(items)]


def test_strangers_from_a_tenth_of_the_device_on():
    items = [evidence(0, foreign=0.1, ms=20.0), evidence(1, foreign=0.3, ms=20.0), evidence(2, foreign=0.09, ms=10.0)]
    ((kind, sentence),) = said(*items)
    assert kind == "noisy neighbour"
    assert sentence.startswith(
        "Processes outside the study took 20 % of the device in 2 of 3 trials, in which the same cells took 2.00x the "
        "time of undisturbed ones: "
    )
    assert said(items[2]) == []
    for other in (
        replace(items[2], foreign_share=None),
        evidence(2, foreign=0.0, n=0),
        evidence(2, foreign=0.0, ms=0.0),
        evidence(2, foreign=0.0, load="closed(2)"),
        evidence(2, "b", foreign=0.0),
    ):
        assert " trials: part of" in said(items[0], other)[0][1], "no undisturbed trial of the same cell"


def test_time_stolen_by_the_host():
    ((kind, sentence),) = said(evidence(0, steal=0.05), evidence(1, steal=0.15), evidence(2, steal=0.04), evidence(3))
    assert kind == "hypervisor"
    assert sentence.startswith("The hypervisor took 10 % of the device's time in 2 of 3 trials: ")
    assert said(evidence(steal=0.04)) == []


def overloaded(*, rate=100.0, **more):
    return evidence(own_load="poisson(100)", load="poisson(100)", rate=rate, **more)


def test_an_overload_by_rate_or_by_requests_that_never_completed():
    ((kind, sentence),) = said(overloaded(rps=50.0, n=75, unfinished=25, service_ms=2.5))
    assert kind == "overload"
    assert sentence.startswith(
        "a is overloaded in a+b (mps) at poisson(100): 100 requests/s offered and 50 served, 25 % of requests never "
        "completed, 75 % of its latency is waiting. "
    )
    assert said(overloaded(rps=99.0)) == []
    assert said(overloaded(rps=50.0, verdict="invalid")) == []
    assert said(evidence(rps=50.0, rate=100.0)) == [], "a closed load waits for its answers"
    assert said(overloaded(rate=None, n=95, unfinished=5)) == []
    ((_, sentence),) = said(overloaded(rate=None, n=94, unfinished=6, service_ms=20.0))
    assert (
        ": more was offered and 50 served, 6 % of requests never completed, 0 % of its latency is waiting." in sentence
    )
    ((_, sentence),) = said(overloaded(rps=50.0))
    assert "50 served. Its latency" in sentence
    own = evidence(own_load="poisson(100)", load="own", rate=100.0, rps=50.0)
    assert "a is overloaded in a+b (mps)" in said(own)[0][1]


def test_the_overload_of_a_tenant_alone_comes_first():
    found = [sentence for _, sentence in said(overloaded(rps=50.0), overloaded(mix="a", rps=50.0))]
    assert [line.split(" at ")[0] for line in found] == ["a is overloaded alone", "a is overloaded in a+b (mps)"]


@pytest.mark.parametrize(("clock", "fell"), [(971.0, False), (970.0, False), (969.0, True)])
def test_a_clock_that_falls_by_more_than_three_percent(clock, fell):
    found = said(evidence(mix="a", clock=1000.0), evidence(1, clock=clock), evidence(2))
    assert bool(found) is fell
    if fell:
        assert found[0][1].startswith("The clock fell from 1,000 MHz alone to 969 MHz in company (-3.1 %): ")
    assert said(evidence(clock=500.0)) == said(evidence(mix="a", clock=500.0)) == []


def test_how_busy_a_tenant_with_a_rate_is():
    items = [overloaded(rps=50.0, service_ms=2.0), overloaded(trial=1, rps=50.0, service_ms=4.0)]
    rest = [overloaded(mix="a", service_ms=9.0), overloaded(tenant="b"), evidence(tenant="c", service_ms=9.0)]
    assert _busy([*items, *rest]) == {(Cell.of(items[0].seen), "a"): pytest.approx(0.15)}


def test_pairs_of_two_different_tenants():
    alone = [seen(block, name, name, ms=10.0) for block in (0, 1) for name in "ab"]
    both = [seen(0, "b", ms=20.0), seen(0, "a", ms=30.0), seen(1, "a", ms=40.0)]
    ((cell, pair),) = _pairs([*alone, *both]).items()
    assert (cell.mix, pair.first, pair.second, pair.error) == ("a+b", "a", "b", None)
    assert pair.logs == (pytest.approx(math.log(1.5)),), "only the block that both were measured in"
    copies = [seen(0, "a#1", "a#1+a#2"), seen(0, "a#2", "a#1+a#2")]
    three = [seen(0, name, "a+b+c") for name in "abc"]
    assert _pairs([*alone, *copies, *three]) == {}
    error = ModelErrorRecord("k", True, "", (0.9, 1.1), (0.8, 1.25), (0.9, 1.1))
    (pair,) = _pairs([*alone, *(replace(each, model_error=error) for each in both)]).values()
    assert pair.error == pytest.approx(
        (math.exp(-math.sqrt(2) * math.log(1.25)), math.exp(math.sqrt(2) * math.log(1.25)))
    )
    for half in ((both[0], replace(both[1], model_error=error)), (replace(both[0], model_error=error), both[1])):
        (pair,) = _pairs([*alone, *half]).values()
        assert pair.error is None
