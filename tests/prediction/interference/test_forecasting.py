"""Forecasts: every number has a basis, tails follow from the load, and unknowns are reported."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.prediction.interference.covariance import CPU
from cotenant.prediction.interference.forecast import MixForecast, TenantForecast, open_ways
from cotenant.prediction.interference.forecasting import Asked, forecast_mixes
from cotenant.prediction.interference.gathered import MeasuredMix
from cotenant.prediction.interference.predictor import stretched
from cotenant.prediction.interference.profiles import CROWDED, CpuProfiles, PowerUse, roofline_shared
from cotenant.tenancy.identity import TenantIdentity
from cotenant.tenancy.interval import Estimate, Interval
from cotenant.tenancy.load import Load
from cotenant.tenancy.objective import Objective

NAMES = ("a", "b", "c")
KEYS = tuple(TenantIdentity(name, 1) for name in NAMES)


def asked(*, mixes=(), loads=None, objectives=None, half=0.3):
    profiles = CpuProfiles(
        solo_ns=np.array([1e7, 2e7, 5e6]),
        cores=np.array([0.9, 0.5, 0.4]),
        bandwidth=np.array([0.2, 0.6, 0.1]),
        intensity=np.array([10.0, 1.0, 5.0]),
    )
    return Asked(
        device="cpu",
        simulated=False,
        names=NAMES,
        keys=KEYS,
        features=profiles.features(),
        priors={"processes": partial(roofline_shared, profiles)},
        solo_s=profiles.solo_ns / 1e9,
        memory_bytes=(100, 200, None),
        loads=loads or {},
        objectives=objectives or {},
        mixes=mixes,
        variances={"processes": CPU},
        prior_half=half,
    )


def measured(first, second, slowdowns):
    estimates = [Estimate(value, value * 0.98, value * 1.02, 4, "test") for value in slowdowns]
    keys = (KEYS[NAMES.index(first)], KEYS[NAMES.index(second)])
    return MeasuredMix("processes", keys, tuple(zip(keys, estimates, strict=True)))


def test_without_measured_mixes_the_prior_is_used_and_named():
    found = forecast_mixes(asked(), [("a", "b")], ["processes"])
    (mix,) = found.mixes
    assert [tenant.basis for tenant in mix.tenants] == ["prior only", "prior only"]
    expected = 0.9 / 0.5 * 1.4**CROWDED
    assert mix.tenants[0].slowdown.est == pytest.approx(expected)
    assert mix.tenants[0].throughput_rps.est == pytest.approx(100 / expected)
    assert mix.memory_bytes == 300
    assert "No mix was measured under processes: intervals are the prior's validated error." in found.notes


def test_a_prior_that_is_not_validated_gives_no_interval():
    slowdown = forecast_mixes(asked(half=math.nan), [("a", "b")], ["processes"]).mixes[0].tenants[0].slowdown
    assert (slowdown.lo, slowdown.hi) == (None, None)


def test_a_measured_mix_is_reproduced_and_corrects_the_others():
    evidence = (measured("a", "b", (2.6, 1.9)),)
    found = forecast_mixes(asked(mixes=evidence), [("b", "a"), ("a", "c")], ["processes"])
    own, other = found.mixes
    assert [tenant.basis for tenant in own.tenants] == ["measured, 4 blocks"] * 2
    assert [tenant.slowdown.est for tenant in own.tenants] == pytest.approx([1.9, 2.6])
    assert other.tenants[0].basis == "1 mix of this tenant"
    assert other.tenants[1].basis == "1 mix of others"
    before = forecast_mixes(asked(), [("a", "c")], ["processes"]).mixes[0].tenants[0].slowdown.est
    assert other.tenants[0].slowdown.est > before


def test_memory_is_unknown_where_a_tenant_has_none():
    assert forecast_mixes(asked(), [("a", "c")], ["processes"]).mixes[0].memory_bytes is None


def test_measured_mixes_are_never_suggested_again():
    found = forecast_mixes(
        asked(mixes=(measured("a", "b", (2.0, 1.5)),)),
        [("a", "b"), ("a", "c"), ("b", "c")],
        ["processes"],
        next_mixes=5,
    )
    assert {mix.mix for mix in found.next} == {("a", "c"), ("b", "c")}


def test_sharings_without_a_prior_are_reported_not_guessed():
    found = forecast_mixes(asked(), [("a", "b")], ["processes", "mig"])
    assert {mix.sharing for mix in found.mixes} == {"processes"}
    assert any("mig" in note for note in found.notes)


def test_the_tail_grows_with_an_open_load_and_is_marked_as_not_validated():
    def p99(rate):
        loads = {"a": Load.model_validate(f"poisson({rate})")}
        found = forecast_mixes(
            asked(loads=loads, objectives={"a": (Objective("latency", 0.99, 50.0),)}), [("a", "b")], ["processes"]
        )
        assert any("not validated" in note for note in found.notes)
        assert found.mixes[0].tenants[1].tail is None
        return found.mixes[0].tenants[0].tail

    calm, busy, hopeless = p99(5), p99(40), p99(90)
    assert calm.p50_ms.est == pytest.approx(18.0 * 1.4**CROWDED, rel=0.1)
    assert calm.p99_ms.est < busy.p99_ms.est
    assert calm.attainment.est > busy.attainment.est
    assert hopeless.p99_ms.est == math.inf
    assert hopeless.attainment.est == 0.0


def test_a_rarely_busy_neighbour_rarely_slows_others_down():
    weights = np.array([[0.0, 1.0], [1.0, 0.0]])
    always = stretched(np.array([0.01, 0.01]), np.array([2.0, 2.0]), weights, np.array([math.nan, math.nan]))
    rarely = stretched(np.array([0.01, 0.01]), np.array([2.0, 2.0]), weights, np.array([math.nan, 5.0]))
    assert always == pytest.approx([0.02, 0.02])
    assert rarely[0] == pytest.approx(0.01 * (1 + 5 * 0.02))


def test_energy_per_request_adds_up_to_the_power_however_many_run_at_once():
    """A takes 10 ms alone, so that 400 a second are more than one after another could be."""
    loads = {"a": Load.model_validate("poisson(400)"), "b": Load.model_validate("poisson(2)")}
    gpu = find_gpu("a100-sxm4-40gb")
    known = replace(
        asked(loads=loads), power=PowerUse(gpu, np.full(3, 0.005), np.full(3, 0.001)), batching=frozenset({"a"})
    )
    (mix,) = forecast_mixes(known, [("a", "b")], ["processes"]).mixes
    of_a, of_b = (tenant.energy_j.est for tenant in mix.tenants)
    assert 400 * of_a + 2 * of_b == pytest.approx(mix.power_w.est)


def way(sharing, *slowdowns, mix=("a", "b")):
    """A mix whose tenants are slowed down by (estimate, low, high)."""
    tenants = [
        TenantForecast(name, Interval(*numbers), Interval(1.0), Interval(1.0), None, "prior only")
        for name, numbers in zip(mix, slowdowns, strict=True)
    ]
    return MixForecast(mix, sharing, tuple(tenants), None)


def test_a_way_to_share_is_open_where_another_may_be_much_gentler():
    gentle, apart = way("mps", (1.1, 1.0, 1.3), (1.2, 1.0, 1.5)), way("processes", (2.0, 1.6, 2.5), (1.0, 1.0, 1.0))
    assert open_ways([gentle, apart]) == ()
    near = way("streams", (1.3, 1.2, 1.6), (1.1, 1.0, 1.2))
    (found,) = open_ways([apart, near, gentle])
    assert (found.mix, found.ways, found.label) == (("a", "b"), ("mps", "streams"), "a + b")
    assert found.loses == pytest.approx(1.5 / 1.2)  # the slowest under streams takes 1.2 at least
    as_good = way("streams", (1.21, 1.4, 1.6), (1.1, 1.0, 1.2))
    assert open_ways([gentle, as_good]) == ()  # 1.5 against 1.4: whichever it is


def test_mixes_that_a_wrong_way_costs_most_come_first():
    little = [way(name, (1.2, 1.0, 1.3), (1.0, 1.0, 1.0)) for name in ("mps", "processes")]
    much = [way(name, (1.2, 1.0, 3.0), (1.0, 1.0, 1.0), mix=("a", "c")) for name in ("mps", "processes")]
    assert [found.mix for found in open_ways([*little, *much])] == [("a", "c"), ("a", "b")]
    assert open_ways(little[:1]) == ()
