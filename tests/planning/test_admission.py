"""The single change that admits a tenant, and second opinions on mixes that a wide range leaves open."""

import itertools
from pathlib import Path

import pytest

from cotenant.planning.admission import NO_CHANGE, Advisor, admitting_change
from cotenant.planning.mixes.kinds import DeviceKind
from cotenant.planning.mixes.make import Ask, Impossible, make_plan
from cotenant.planning.mixes.serving_plan import Refusal
from cotenant.planning.mixes.tenants import ServingTenant
from cotenant.tenancy.objective import Objective
from cotenant.tenancy.tenant_entry import TenantEntry
from tests.support.toy_predictor import GIB, Work, toy

KIND = DeviceKind("sim:t4", "T4", 16 * GIB, 1.0, "a price", 2, ("processes",))


def entry(**keys):
    return TenantEntry.model_validate({"workload": "bert-base", "rate": "40/s", "slo": {"p99": "50ms"}, **keys})


def tenant(name, *, rate=10.0, limit=100.0, **keys):
    return ServingTenant(name, rate, (Objective("latency", 0.99, limit),), **keys)


def planned(tenants, kinds, predictor, **keys):
    ticks = itertools.count()
    return make_plan(tenants, kinds, predictor, clock=lambda: next(ticks) * 1e-3, ask=Ask(seconds=5), **keys)


def test_the_first_change_that_works_is_given_as_a_command():
    tried = []

    def attempt(overrides, devices):
        tried.append((tuple(overrides), devices))
        return any("graphs" in text for text in overrides)

    change = admitting_change("embed", entry(), "sim:t4", attempt)
    assert change.sentence == "with software: graphs"
    assert (
        change.command("a.yaml", "sim:t4")
        == "cotenant plan a.yaml --devices 'sim:t4' --set 'tenants.embed.software=graphs'"
    )
    assert (("tenants.embed.software=compile",), "sim:t4") in tried


@pytest.mark.parametrize("most", [35.0, 17.0])
def test_the_largest_rate_that_works_is_found(most):
    def attempt(overrides, devices):
        rates = [float(text.partition("=")[2][:-2]) for text in overrides if ".rate=" in text]
        return bool(rates) and rates[0] <= most

    change = admitting_change("embed", entry(), "sim:t4", attempt)
    rate = float(change.overrides[0].partition("=")[2][:-2])
    assert rate <= most < rate + 4


def test_the_smallest_relaxed_limit_that_works_is_found():
    def attempt(overrides, devices):
        limits = [float(text.partition("p99: ")[2][:-3]) for text in overrides if ".slo=" in text]
        return bool(limits) and limits[0] >= 90

    assert admitting_change("embed", entry(), "sim:t4", attempt).overrides == ("tenants.embed.slo={p99: 100ms}",)


def test_no_absurd_limit_is_given_where_time_is_up_and_a_smaller_one_works():
    def attempt(overrides, devices):
        limits = [float(text.partition("p99: ")[2][:-3]) for text in overrides if ".slo=" in text]
        return bool(limits) and limits[0] >= 90

    change = admitting_change("embed", entry(), "sim:t4", attempt, more=lambda _: False)
    assert change.overrides == ("tenants.embed.slo={p99: 500ms}",), "ten times the limit, not ten thousand times"


def test_another_device_is_preferred_to_a_limit_that_nobody_wants():
    def attempt(overrides, devices):
        limits = [float(text.partition("p99: ")[2][:-3]) for text in overrides if ".slo=" in text]
        return "a40" in devices or (bool(limits) and limits[0] > 500)

    assert admitting_change("embed", entry(), "sim:t4", attempt) is None
    assert admitting_change("embed", entry(), "sim:t4", attempt, other_kinds=["sim:a40"]).sentence == "on sim:a40"


def test_where_no_change_is_found_the_answer_says_so(monkeypatch):
    monkeypatch.setattr(Advisor, "_admits", lambda self, *_, **__: False)
    ticks = itertools.count()
    advisor = Advisor(Path("a.yaml"), "sim:t4", {"embed": entry()}, (), Ask(seconds=1), lambda: next(ticks) * 1e-3)
    assert advisor.hint(["embed"], set(), 1.0) == f"embed: {NO_CHANGE}"
    (refusal,) = advisor.explained([Refusal("embed", "misses its p99")], 1.0)
    assert (refusal.reason, refusal.command) == (f"misses its p99; {NO_CHANGE}", "")


def test_where_one_more_device_would_do_it_is_added():
    change = admitting_change("embed", entry(), "sim:t4*2,sim:a40", lambda _, devices: "t4*3" in devices, room=True)
    assert change.devices == "sim:t4*3,sim:a40"


def test_a_change_that_costs_nothing_is_preferred_to_another_device():
    change = admitting_change(
        "embed", entry(), "sim:t4", lambda overrides, devices: "compile" in str(overrides) or "*2" in devices, room=True
    )
    assert change.sentence == "with software: compile"


@pytest.mark.parametrize(("room", "sentence"), [(True, "with one more sim:t4"), (False, "at 4.00/s instead of 40/s")])
def test_there_is_an_answer_even_if_time_is_up(room, sentence):
    def attempt(overrides, _):
        return not any("software" in text for text in overrides)

    change = admitting_change("embed", entry(), "sim:t4", attempt, room=room, more=lambda _: False)
    assert change.sentence == sentence


def test_the_likeliest_change_is_tried_even_if_time_is_up():
    change = admitting_change("embed", entry(), "sim:t4", lambda *_: True, room=True, more=lambda _: False)
    assert change.sentence == "with software: compile"


def test_nothing_is_claimed_that_did_not_work():
    assert admitting_change("embed", entry(), "sim:t4", lambda *_: False, other_kinds=["sim:a40"]) is None


def test_a_tenant_that_only_a_wide_range_refuses_is_admitted_by_the_closer_look():
    tenants, works = [tenant("a", limit=30.0)], [Work(20.0)]
    rough, closer = toy(works, margin=0.6), toy(works, margin=0.05)
    with pytest.raises(Impossible):
        planned(tenants, [KIND], rough)
    found = planned(tenants, [KIND], rough, closer=closer)
    assert found.keeps_all
    assert found.devices[0].tenants[0].kept[0].time_ms.hi < 30


def test_devices_are_joined_where_only_a_wide_range_keeps_them_apart():
    tenants, works = [tenant("a", limit=40.0), tenant("b", limit=40.0)], [Work(15.0), Work(15.0)]
    rough, closer = toy(works, margin=0.5), toy(works, margin=0.05)
    assert len(planned(tenants, [KIND], rough).devices) == 2
    assert len(planned(tenants, [KIND], rough, closer=closer).devices) == 1


def test_a_device_is_emptied_where_its_tenants_fit_on_others_one_by_one():
    tenants, works = [tenant(f"t{number}", limit=45.0) for number in range(6)], [Work(15.0)] * 6
    rough, closer = toy(works, margin=0.5), toy(works, margin=0.05)
    kind = DeviceKind("sim:t4", "T4", 16 * GIB, 1.0, "a price", 6, ("processes",))
    assert len(planned(tenants, [kind], rough).devices) == 3
    found = planned(tenants, [kind], rough, closer=closer)
    assert [len(device.tenants) for device in found.devices] == [3, 3], (
        "no two of three devices can be joined as they are"
    )


def test_a_gpu_without_mig_says_so():
    with pytest.raises(Impossible, match="sim:t4 has no MIG, which `isolation: mig` needs"):
        planned([tenant("a", isolation="mig")], [KIND], toy([Work(5.0)]))


def test_more_replicas_than_devices_are_refused_with_their_number():
    with pytest.raises(
        Impossible, match=r"a needs 6 replicas to serve 100/s .* more than fit on 2 devices \(with one: "
    ):
        planned([tenant("a", rate=100.0, limit=60.0)], [KIND], toy([Work(25.0)]))


def test_the_room_for_growth_is_that_of_a_plan_made_for_the_higher_rate():
    found = planned([tenant("a", limit=60.0, batches=(1, 2, 4))], [KIND], toy([Work(20.0, press=0.0)]))
    holds = found.devices[0].tenants[0].holds_to
    again = [tenant("a", rate=10 * factor, limit=60.0, batches=(1, 2, 4)) for factor in (holds, holds + 0.3)]
    one = DeviceKind("sim:t4", "T4", 16 * GIB, 1.0, "a price", 1, ("processes",))
    assert planned(again[:1], [one], toy([Work(20.0, press=0.0)])).keeps_all
    with pytest.raises(Impossible):
        planned(again[1:], [one], toy([Work(20.0, press=0.0)]))


def test_the_room_for_growth_is_what_the_closer_look_finds_at_any_number_at_once():
    works, one = [Work(15.0, press=0.3)] * 2, DeviceKind("sim:t4", "T4", 16 * GIB, 1.0, "a price", 1, ("processes",))
    rough, closer = toy(works, margin=0.5), toy(works, margin=0.05)

    def at(factor):
        tenants = [
            tenant(name, rate=rate, limit=60.0, batches=(1, 2, 4)) for name, rate in (("a", 10 * factor), ("b", 10))
        ]
        return planned(tenants, [one], rough, closer=closer)

    holds = at(1.0).devices[0].tenants[0].holds_to
    assert holds > 3
    assert at(holds).keeps_all
    assert not at(1.06 * holds).keeps_all, "the next factor that is tried"
