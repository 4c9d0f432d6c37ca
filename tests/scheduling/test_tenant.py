"""The account of a tenant, by hand."""

import math

import pytest

from cotenant.scheduling import Contract, Settings
from cotenant.scheduling.contract import ServiceClass
from cotenant.scheduling.correction import DeviceSpeed
from cotenant.scheduling.roster import Roster, standings
from cotenant.scheduling.tenant import TenantState

from .worker import decoder, encoder


def roster(*tenants, **settings):
    return Roster(
        [(Contract(name, objective_s), costs) for name, objective_s, costs in tenants], Settings(**settings), 0
    )


def state(objective_s=1.0, costs=None, **contract):
    return TenantState(Contract("a", objective_s, **contract), costs or encoder(1, 0.1), DeviceSpeed(), 0.0)


def test_an_account_fills_at_its_rate_up_to_its_size():
    tenant = state()
    tenant.grant(0.25, 2, 2.0, 2.0)
    assert (tenant.rate, tenant.balance_s(0.0)) == (0.5, 2.0)
    assert tenant.charge(1.5, 0.0)
    assert tenant.balance_s(1.0) == pytest.approx(1.0)
    assert not tenant.charge(1.001, 1.0)
    assert tenant.charge(1.0, 1.0)
    assert tenant.balance_s(2.0) == pytest.approx(0.5)
    assert tenant.balance_s(99.0) == 2.0
    tenant.estimate.speed.ease = 0.5
    assert tenant.balance_s(3.0) == pytest.approx(0.5)
    tenant.grant(0.1, 1, 0.1, 2.0)
    assert tenant.balance_s(99.0) == pytest.approx(0.2), "two requests at least"
    best = state(service=ServiceClass.BEST_EFFORT)
    best.grant(0.5, 1, 2.0, 2.0)
    assert (best.rate, best.balance_s(5.0), best.book_return(0.1, 0.0)) == (0.0, 0.0, math.inf)


def test_refused_requests_return_one_after_another():
    tenant = state()
    tenant.grant(0.5, 1, 2.0, 2.0)
    tenant.charge(2.0, 0.0)
    assert tenant.book_return(0.2, 0.0) == pytest.approx(0.4)
    assert tenant.book_return(0.2, 0.1) == pytest.approx(0.7)
    assert tenant.book_return(0.2, 50.0) == 0.0
    full = state()
    full.grant(0.5, 1, 2.0, 2.0)
    assert full.book_return(0.2, 1.0) == 0.0


def test_history_fades():
    tenant = state()
    tenant.grant(0.5, 1, 2.0, 2.0)
    assert tenant.attained == 1.0
    tenant.offer(0.3, 0.0)
    tenant.offer(0.3, 0.0)
    tenant.meet(0.0)
    assert (tenant.attained, tenant.asked_s, tenant.expected_rate) == (0.5, 0.6, 0.3)
    tenant.exceed(0.6, 0.0)
    assert not tenant.floods
    tenant.exceed(0.1, 0.0)
    assert tenant.floods
    tenant.age(2.0)
    assert (tenant.asked_s, tenant.beyond_s) == (pytest.approx(0.6 / math.e), pytest.approx(0.7 / math.e))
    tenant.meet(10.0)
    assert tenant.attained == pytest.approx((1 / math.e + 1) / (2 / math.e))
    tenant.age(5.0)
    assert tenant.attained == pytest.approx((1 / math.e + 1) / (2 / math.e)), "clocks don't go back"
    tenant.offer(9.0, 10.0)
    assert tenant.expected_rate == 0.5
    single = state()
    single.grant(0.5, 1, 2.0, 2.0)
    single.exceed(0.1, 0.0)
    assert not single.floods, "a request is no flood"


def test_the_rest_of_a_pause():
    tenant = state()
    assert tenant.paused_for_s(5.0) is None
    tenant.pause(8.0, 1.0)
    assert [tenant.paused_for_s(now) for now in (1.0, 4.0, 8.9, 9.0, 13.0)] == [8.0, 5.0, 0.5, 2.0, 3.0]
    tenant.resume()
    assert tenant.paused_for_s(5.0) is None


def test_standings_are_in_the_units_of_the_account():
    tenants = roster(("a", 2.0, decoder(0.1, 0.01, 10)), ("b", 2.0, encoder(1, 0.1)))
    tenants.named("a").backlog_s = 0.7
    first, second = standings(tenants, 0.0)
    assert first == ("a", 0.5, 4.0, 0.7, 1.0, pytest.approx(0.2))
    assert second == ("b", 0.5, 4.0, 0.0, 1.0, pytest.approx(0.1))
