"""Interference measured by runs: solos, mixes over blocks, and observations left out."""

import math

import pytest

from cotenant.analyse.sharing.evidence import RequestWork, TenantEvidence
from cotenant.prediction.interference.gathered import gather_evidence
from cotenant.tenancy.identity import TenantIdentity
from cotenant.tenancy.records import TenantObservation

A, B = TenantIdentity("alpha", 1), TenantIdentity("beta", 2)


def seen(of, ns, *, trial, block, mix=None, tenant=None, verdict="valid", load="closed(1)", run="r"):
    """One tenant in one trial; a solo without a mix."""
    batch = {"alpha": 1, "beta": 2}[of]
    return TenantEvidence(
        seen=TenantObservation(
            run=run,
            trial=trial,
            block=block,
            mix=mix or of,
            sharing="processes" if mix else "alone",
            settings="{}",
            load=load,
            device="cpu",
            simulated=False,
            solo=mix is None,
            tenant=tenant or of,
            of=of,
            verdict=verdict,
            failed_checks=(),
            n=100,
            unfinished=0,
            throughput_rps=1e9 / ns,
            mean_latency_ns=ns,
            window_s=1.0,
            mean_device_ns=ns / 2,
        ),
        work=RequestWork(of, batch=batch, flops_per_request=1e9, bytes_per_request=1e7),
        load=load,
        service_ns=ns,
        peak_memory_bytes=1000,
    )


def block(number, *, slow_a=2.0, slow_b=1.5, run="r", drift=1.0, verdict="valid"):
    """Both tenants alone and together, with a common drift."""
    first = 10 * number
    return [
        seen("alpha", 1e6 * drift, trial=first, block=number, run=run),
        seen("beta", 4e6 * drift, trial=first + 1, block=number, run=run),
        seen("alpha", 1e6 * slow_a * drift, trial=first + 2, block=number, mix="alpha+beta", run=run, verdict=verdict),
        seen("beta", 4e6 * slow_b * drift, trial=first + 2, block=number, mix="alpha+beta", run=run, verdict=verdict),
    ]


def test_slowdowns_are_ratios_within_blocks_so_that_drift_cancels():
    found = gather_evidence([*block(0), *block(1, drift=3.0), *block(2, drift=0.5)])
    (mix,) = found.mixes
    assert mix.members == (A, B)
    slowdowns = dict(mix.slowdowns)
    assert slowdowns[A].est == pytest.approx(2.0)
    assert slowdowns[B].est == pytest.approx(1.5)
    assert slowdowns[A].n == 3


def test_blocks_of_different_runs_are_different_blocks():
    found = gather_evidence([*block(0, slow_a=2.0, run="one"), *block(0, slow_a=2.2, run="two")])
    assert dict(found.mixes[0].slowdowns)[A].n == 2
    assert dict(found.mixes[0].slowdowns)[A].est == pytest.approx(math.sqrt(2.0 * 2.2))


def test_copies_count_as_one_tenant_twice():
    found = gather_evidence(
        [
            seen("alpha", 1e6, trial=0, block=0),
            seen("alpha", 1.8e6, trial=1, block=0, mix="alpha x2", tenant="alpha#1"),
            seen("alpha", 2.2e6, trial=1, block=0, mix="alpha x2", tenant="alpha#2"),
        ]
    )
    (mix,) = found.mixes
    assert mix.members == (A, A)
    assert [key for key, _ in mix.slowdowns] == [A]
    assert mix.slowdowns[0][1].n == 1


def test_mixes_too_large_to_predict_are_counted_and_left_out():
    ten = [seen("alpha", 1e7, trial=1, block=0, mix="alpha x10", tenant=f"alpha#{number}") for number in range(1, 11)]
    found = gather_evidence([seen("alpha", 1e6, trial=0, block=0), *ten])
    assert (found.mixes, found.too_large) == ((), 1)


def test_invalid_trials_and_open_loads_are_left_out():
    late = seen("alpha", 9e6, trial=7, block=0, mix="alpha+beta", load="poisson(5)")
    found = gather_evidence([*block(0), *block(1, slow_a=9.0, verdict="invalid"), late])
    assert dict(found.mixes[0].slowdowns)[A].est == pytest.approx(2.0)
    assert found.open_loads == 1


def test_solos_carry_what_the_prior_needs():
    solo = {tenant.key: tenant for tenant in gather_evidence(block(0)).solos}
    assert solo[A].service_ns == pytest.approx(1e6)
    assert solo[A].device_ns == pytest.approx(5e5)
    assert (solo[B].flops, solo[B].moved_bytes, solo[B].memory_bytes) == (1e9, 1e7, 1000)
