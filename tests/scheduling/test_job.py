"""When a request is due, and the rest of a job, by hand."""

import math

import pytest

from cotenant.scheduling import Arrived, Contract, TenantCosts, chunk_cost
from cotenant.scheduling.costs import BatchCurve
from cotenant.scheduling.job import Request

from .worker import job, roster


def test_a_request_is_due_by_its_contract_or_its_clients_patience():
    contract = Contract("a", 1.0, per_step_s=0.1)
    plain = Request(Arrived(5.0, 1, "a"), contract, 10, 0.01)
    assert (plain.deadline, plain.way_s, plain.due) == (7.0, 0.01, pytest.approx(6.99))
    assert Request(Arrived(5.0, 1, "a"), contract, 10, 9.0).way_s == pytest.approx(0.05 * 2.0)
    hurried = Request(Arrived(5.0, 1, "a", 6.0), contract, 10)
    assert (hurried.deadline, hurried.due) == (6.0, 7.0)
    patient = Request(Arrived(5.0, 1, "a", 9.0), contract, 10)
    assert (patient.deadline, patient.due) == (9.0, 9.0)
    assert Request(Arrived(5.0, 1, "a", cache_bytes=7), contract, 10).cache_bytes == 7


def test_the_rest_of_a_job_by_batch_size_and_steps():
    costs = TenantCosts(
        (chunk_cost(0.1, spread=0.5), chunk_cost(0.2, spread=0.5)),
        BatchCurve((1.0, 1.5)),
        step=chunk_cost(0.01, spread=0.3),
        steps=4,
    )
    (tenant,) = roster(("a", 9.0, costs)).tenants.values()
    first, second = job(tenant, 9, scale=2.0, steps=4), job(tenant, 8, scale=1.0, steps=4, conforming=False)
    variance = 4 * (0.05**2 + 0.1**2) + 4 * 0.003**2
    assert (first.prefill_s, first.rest_s) == (pytest.approx(0.6), pytest.approx(0.64))
    assert first.plan_s == pytest.approx(0.64 + math.sqrt(variance))
    second.join(first)
    second.reckon()
    assert (second.batch, second.due, second.scale, second.conforming) == (2, 8, 2.0, True)
    assert second.rest_s == pytest.approx(1.5 * 0.6 + 0.04)
    second.advance(0)
    second.reckon()
    assert second.rest_s == pytest.approx(1.5 * 0.4 + 0.04)
    second.leave(first.members[0])
    assert (second.batch, second.scale, second.conforming, second.stamp) == (2, 1.0, False, -1)
    second.cover()
    assert second.conforming
    second.advance(0)
    assert not second.ended
    second.advance(3)
    assert (second.steps, second.ended) == (1, False)
    second.advance(1)
    assert second.ended
    third, fourth = job(tenant, 9), job(tenant, 7)
    third.join(fourth)
    third.leave(fourth.members[0])
    assert (third.batch, third.due) == (1, 9)
    speed = tenant.estimate.speed
    speed.level = math.log(2.0)
    speed._derive()
    third.reckon()
    assert third.rest_s == pytest.approx(2 * 0.34)
    assert third.plan_s == pytest.approx(2 * (0.34 + math.sqrt(0.05**2 + 0.1**2 + 4 * 0.003**2)))
    assert third.stamp == speed.stamp
