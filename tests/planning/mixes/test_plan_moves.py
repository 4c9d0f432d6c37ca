"""From an old plan to a new one with as few moves as possible, cheapest first."""

from cotenant.planning.mixes.moves import moves_between as typed_moves
from cotenant.tenancy.plan_document import PlanDocument


def seat(batch=1, rate=10.0, share=None, gib=1):
    entry = {"at_once": batch, "rate_rps": rate, "memory_bytes": gib * 2**30, "runs": {"workload": "x"}}
    return entry if share is None else {**entry, "share": share}


def device(name, sharing, **tenants):
    return {"name": name, "kind": "gpu", "sharing": sharing, "tenants": tenants}


def moves(*plans):
    return typed_moves(*(PlanDocument.model_validate({"plan": 2, **plan}) for plan in plans))


def test_equal_plans_need_no_move():
    plan = {"devices": [device("g0", "mps", a=seat(), b=seat())]}
    assert moves(plan, plan) == ()


def test_reordered_devices_need_no_move():
    old = {"devices": [device("g0", "mps", a=seat(), b=seat()), device("g1", "alone", c=seat())]}
    new = {"devices": [device("g0", "alone", c=seat()), device("g1", "mps", a=seat(), b=seat())]}
    assert moves(old, new) == ()


def test_moves_are_ordered_by_bytes_loaded():
    old = {"devices": [device("g0", "mps", a=seat(), b=seat(gib=9), d=seat()), device("g1", "alone", c=seat(gib=2))]}
    new = {
        "devices": [
            device("g0", "mps", a=seat(batch=4), e=seat(gib=3)),
            device("g1", "mps", c=seat(gib=2), b=seat(gib=9)),
        ]
    }
    found = moves(old, new)
    assert [(move.tenant, move.change) for move in found] == [
        ("a", "adjusts"),
        ("d", "stops"),
        ("c", "restarts"),
        ("e", "starts"),
        ("b", "moves"),
    ]
    assert found[-1].old == "g0 (mps)"
    assert found[-1].new == "g1 (mps)"
    assert found[-1].loads_bytes == 9 * 2**30


def test_a_new_share_is_a_restart():
    old = {"devices": [device("g0", "mps", a=seat(share=60), b=seat(share=40))]}
    new = {"devices": [device("g0", "mps", a=seat(share=50), b=seat(share=40))]}
    (move,) = moves(old, new)
    assert (move.tenant, move.change, move.new) == ("a", "restarts", "g0 (mps 50)")


def test_replicas_are_interchangeable_and_the_first_of_several_replaces_the_only_one():
    one = {"devices": [device("g0", "mps", a={**seat(rate=20.0), "tenant": "a"})]}
    two = {
        "devices": [
            device("g0", "mps", **{"a-0": {**seat(), "tenant": "a"}}),
            device("g1", "alone", **{"a-1": {**seat(), "tenant": "a"}}),
        ]
    }
    assert [(move.tenant, move.change) for move in moves(one, two)] == [("a-0", "adjusts"), ("a-1", "starts")]
    assert [(move.tenant, move.change) for move in moves(two, one)] == [("a", "adjusts"), ("a-1", "stops")]
