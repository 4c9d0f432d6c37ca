"""Memory for caches, shared by rate."""

from cotenant.scheduling import Contract, Settings, TenantCosts, chunk_cost
from cotenant.scheduling.contract import ServiceClass
from cotenant.scheduling.roster import Caches, Roster

from .worker import job


def test_room_for_caches_is_shared_by_rate_and_lent_but_for_a_request_each():
    def costs(size):
        return TenantCosts((chunk_cost(0.1),), cache_bytes=size)

    tenants = Roster(
        [(Contract("a", 1, 0.5), costs(10)), (Contract("b", 1, 0.25), costs(20)), (Contract("c", 1, 0.25), costs(0))],
        Settings(),
        0.0,
    )
    a, b, c = (tenants.named(name) for name in "abc")
    caches = Caches(90, tenants)  # parts of the users: 60 and 30
    assert caches._room(a, 90, 90)
    assert not caches._room(a, 91, 90)
    a.held_bytes = 50
    assert caches._room(a, 10, 90), "within its part"
    assert caches._room(a, 20, 90), "lent"
    assert not caches._room(a, 21, 90), "a request of b's keeps its room"
    b.held_bytes = 15
    assert caches._room(a, 10, 90)
    assert not caches._room(a, 11, 90), "15 of b's part are left"
    b.held_bytes = 30
    assert caches._room(a, 10, 90)
    assert not caches._room(b, 11, 90)
    assert not caches._room(b, 1, 90), "a's part has room for a request"
    a.held_bytes = 60
    assert not caches._room(b, 1, 90)
    b.held_bytes = 29
    assert caches._room(b, 1, 90)
    assert caches._room(c, 1, 90) is False
    assert caches.held() == 89
    need = job(a, 5)
    need.members[0].cache_bytes = 2
    assert not caches.fits(need)
    assert not caches.holds(type("R", (), {"cache_bytes": 91}))
    assert caches.holds(type("R", (), {"cache_bytes": 90}))
    need.begun = True
    assert caches.fits(need)
    assert Caches(None, tenants).fits(job(a, 5))
    caches.hold(need)
    assert (a.held_bytes, need.members[0].holds) == (62, True)


def test_without_rates_only_one_request_each_is_kept():
    best = {"service": ServiceClass.BEST_EFFORT}
    costs = TenantCosts((chunk_cost(0.1),), cache_bytes=10)
    tenants = Roster([(Contract("a", 1, **best), costs), (Contract("b", 1, **best), costs)], Settings(), 0.0)
    caches = Caches(30, tenants)
    tenants.named("a").held_bytes = 20
    assert caches._room(tenants.named("a"), 10, 30)
    assert not caches._room(tenants.named("a"), 11, 30)
