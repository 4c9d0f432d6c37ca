"""A plan meets every objective at the upper end of the prediction, respects constraints, and explains itself."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from cotenant.errors import CotenantError
from cotenant.planning.mixes.kinds import DeviceKind
from cotenant.planning.mixes.make import Ask, Impossible, make_plan
from cotenant.planning.mixes.mig import MigGeometry
from cotenant.planning.mixes.predictor import PredictedMix, Range, Requirements
from cotenant.planning.mixes.serving_plan import document_of
from cotenant.planning.mixes.tenants import BatchJob, ServingTenant
from cotenant.reporting.results.planned import answer_of
from cotenant.tenancy.objective import Objective
from tests.support.toy_predictor import GIB, Work, toy

A100 = MigGeometry.of(7, 8, {f"{c}g": (c, m, m * 10 * GIB) for c, m in ((1, 1), (2, 2), (3, 4), (4, 4), (7, 8))})
BIG = DeviceKind("big", "Big GPU", 80 * GIB, 2.0, "test", 8, ("processes", "mps"))
SMALL = DeviceKind("small", "Small GPU", 20 * GIB, 0.5, "test", 8, ("processes",))


def clock():
    ticks = itertools.count()
    return lambda: next(ticks) * 1e-4


def tenant(name, rate, limit=None, **wishes):
    objectives = (Objective("latency", 0.99, limit),) if limit else ()
    return ServingTenant(name, rate, objectives, **wishes)


def plan(tenants, works, kinds=(BIG,), **ask):
    speed = {"small": 0.25}
    return make_plan(tenants, kinds, toy(works, speed=speed), clock=clock(), ask=Ask(seconds=5, **ask))


def on(made):
    return [sorted(seat.tenant for seat in device.tenants) for device in made.devices]


def test_tenants_that_leave_each_other_room_share_one_device():
    made = plan([tenant("a", 20, 100), tenant("b", 20, 100)], [Work(10), Work(10)])
    assert on(made) == [["a", "b"]]
    assert made.cost_per_h == 2.0
    assert made.gap == pytest.approx(0)
    assert made.keeps_all


def test_an_objective_that_sharing_would_break_gets_a_device_of_its_own_and_the_reason_names_it():
    made = plan(
        [tenant("a", 20, 16), tenant("b", 20, 100)],
        [Work(10, press=1.0), Work(20)],
        [replace(BIG, ways=("processes",))],
    )
    assert sorted(on(made)) == [["a"], ["b"]]
    (why,) = [one for one in made.rejected if set(one.tenants) == {"a", "b"}]
    assert why.reason.startswith("p99 of a up to")
    assert "> 16 ms" in why.reason
    assert why.saves_per_h == 2.0
    assert made.binding == "p99 of a"
    assert "a + b under processes" in made.cheaper or "b + a under processes" in made.cheaper


def test_every_upper_end_of_the_plan_is_within_its_limit():
    random = np.random.default_rng(3)
    tenants = [tenant(f"t{n}", float(random.uniform(5, 30)), float(random.uniform(40, 200))) for n in range(9)]
    made = plan(tenants, [Work(float(random.uniform(2, 15))) for _ in tenants])
    assert sorted(itertools.chain(*on(made))) == sorted(one.name for one in tenants)
    for device in made.devices:
        assert device.busy <= 1
        assert device.used_bytes <= device.memory_bytes
        assert all(kept.time_ms.hi <= kept.limit_ms for seat in device.tenants for kept in seat.kept)


def test_the_cheaper_kind_is_used_where_it_suffices():
    made = plan([tenant("slow", 2, 500), tenant("fast", 40, 40)], [Work(10, gib=15), Work(10, gib=70)], [BIG, SMALL])
    assert {device.kind: [seat.tenant for seat in device.tenants] for device in made.devices} == {
        "big": ["fast"],
        "small": ["slow"],
    }


def test_memory_is_a_separate_limit():
    made = plan([tenant("a", 1, 1000), tenant("b", 1, 1000)], [Work(1, gib=50), Work(1, gib=50)])
    assert len(made.devices) == 2
    assert made.binding == "memory of big"
    assert "100.0 GiB of 80.0" in made.cheaper


def test_near_and_apart_are_respected():
    works = [Work(5)] * 3
    made = plan(
        [tenant("a", 5, 200, apart=frozenset("b")), tenant("b", 5, 200), tenant("c", 5, 200, near=frozenset("b"))],
        works,
    )
    assert sorted(on(made)) == [["a"], ["b", "c"]]


def test_replicas_that_stay_apart_get_devices_of_their_own():
    made = plan([tenant("a", 5, 200, replicas=2, apart=frozenset("a"))], [Work(5)])
    assert [[seat.name for seat in device.tenants] for device in made.devices] == [["a-0"], ["a-1"]]
    assert [seat.rate_rps for device in made.devices for seat in device.tenants] == [2.5, 2.5]


def test_contradictory_constraints_are_refused_by_name():
    tenants = [tenant("a", 5, near=frozenset("b")), tenant("b", 5, apart=frozenset("a"))]
    with pytest.raises(CotenantError, match="b must be near a and apart from a"):
        plan(tenants, [Work(5)] * 2)


def test_a_rate_that_one_device_cannot_serve_gets_replicas():
    made = plan([tenant("a", 250, 100)], [Work(10)])
    seats = [seat for device in made.devices for seat in device.tenants]
    assert [seat.replicas for seat in seats] == [len(seats)] * len(seats)
    assert len(seats) >= 3
    assert sum(seat.rate_rps for seat in seats) == pytest.approx(250)


def test_an_objective_below_the_floor_names_tenant_floor_and_device():
    with pytest.raises(
        CotenantError, match=r"a can't meet its objectives even alone on big: p99 of a up to 11.0 ms > 5 ms"
    ):
        plan([tenant("a", 1, 5)], [Work(10)])


def test_too_few_replicas_are_refused_by_objective_and_amount():
    with pytest.raises(
        CotenantError,
        match=r"a can't serve 90/s with 1 replica on big: p99 of a up to 1,100 ms > 100 ms \(estimate 100",
    ):
        plan([tenant("a", 90, 100, replicas=1)], [Work(10)])


def test_a_larger_batch_is_taken_where_it_saves_a_device():
    one = plan([tenant("a", 120, 400)], [Work(10)])
    batched = plan([tenant("a", 120, 400, batches=(1, 2, 4, 8))], [Work(10)])
    assert len(one.devices) == 2
    assert len(batched.devices) == 1
    assert batched.devices[0].tenants[0].at_once > 1


def test_a_small_objective_keeps_the_batch_small():
    made = plan([tenant("a", 30, 17, batches=(1, 2, 4, 8))], [Work(10)])
    assert made.devices[0].tenants[0].at_once == 1


def test_the_stated_room_for_growth_is_exact():
    made = plan([tenant("a", 20, 40), tenant("b", 10, 200)], [Work(10), Work(10)])
    seat = next(seat for device in made.devices for seat in device.tenants if seat.tenant == "a")
    assert seat.holds_to is not None
    assert seat.holds_to > 1
    still = plan([tenant("a", 20 * seat.holds_to, 40), tenant("b", 10, 200)], [Work(10), Work(10)])
    assert len(still.devices) == len(made.devices)


def test_all_replicas_of_a_tenant_on_a_device_grow_together():
    one = replace(BIG, available=1, ways=("processes",))
    works, other = [Work(10)] * 2, tenant("b", 5, 200)
    made = plan([tenant("a", 20, 40, replicas=2), other], works, [one])
    seats = [seat for seat in made.devices[0].tenants if seat.tenant == "a"]
    assert [seat.rate_rps for seat in seats] == [10, 10]
    (holds,) = {seat.holds_to for seat in seats}
    assert plan([tenant("a", 20 * holds, 40, replicas=2), other], works, [one]).keeps_all
    assert not plan([tenant("a", 22 * holds, 40, replicas=2), other], works, [one]).keeps_all


def test_a_tenant_that_never_gets_an_answer_is_late():
    never = np.full((1, 1), np.inf)
    ends, stretch = Range(*[never[..., None]] * 3), Range(never, never, never)
    none = np.zeros(1)
    predicted = PredictedMix(ends, stretch, np.zeros((1, 1)), none, none, none, ("simulated",))
    assert Requirements([tenant("a", 20, 40)]).late(np.zeros((1, 1), np.int64), predicted).all()


def test_an_alternative_refused_only_by_its_interval_is_measured_next():
    tenants = [tenant("a", 20, 22), tenant("b", 20, 100)]
    kinds = [replace(BIG, ways=("processes",))]
    wide = make_plan(tenants, kinds, toy([Work(10, press=0.3)] * 2, margin=0.4), clock=clock(), ask=Ask(seconds=5))
    narrow = make_plan(tenants, kinds, toy([Work(10, press=0.3)] * 2, margin=0.01), clock=clock(), ask=Ask(seconds=5))
    assert len(wide.devices) == 2
    assert len(narrow.devices) == 1
    assert wide.measure is not None
    assert set(wide.measure.tenants) == {"a", "b"}
    assert "could save $2.00/h" in wide.measure.would


def test_a_tenant_that_may_be_served_by_its_estimate_is_measured_at_the_rate_of_the_fewest_replicas():
    """Alone it takes 10 ms, 14 ms at most, and can't be sure of 12 ms however many replicas it has."""
    with pytest.raises(Impossible) as caught:
        make_plan([tenant("a", 5, 12)], [BIG], toy([Work(10)], margin=0.4), clock=clock(), ask=Ask(seconds=5))
    measure = caught.value.measure
    assert (measure.tenants, measure.sharing, measure.replicas) == (("a",), "alone", 1)
    with pytest.raises(Impossible) as caught:
        make_plan([tenant("a", 5, 9)], [BIG], toy([Work(10)], margin=0.4), clock=clock(), ask=Ask(seconds=5))
    assert caught.value.measure is None


def test_a_job_runs_beside_a_tenant_or_takes_whole_devices():
    job = ServingTenant("train", 0.0, job=BatchJob(gpus=2, seconds=3600, stretch=1.0 + 1e-9))
    made = plan([tenant("a", 5, 200), job], [Work(5), Work(100)])
    (device,) = [device for device in made.devices if device.tenants[0].tenant == "train"]
    assert device.devices == 2
    assert device.price_per_h == 4.0
    assert made.cost_per_h == 6.0


def test_the_plan_avoids_mixes_the_second_predictor_refuses():
    tenants = [tenant("a", 20, 100), tenant("b", 20, 100)]
    rough, closer = toy([Work(10)] * 2), toy([Work(10, press=9.0)] * 2)
    made = make_plan(tenants, [BIG], rough, closer=closer, clock=clock(), ask=Ask(seconds=5))
    assert sorted(on(made)) == [["a"], ["b"]]


def test_a_job_shows_when_it_ends():
    from cotenant.reporting.results.planned import seat_table

    job = ServingTenant("train", 0.0, job=BatchJob(gpus=1, seconds=3600, stretch=4.0))
    made = plan([tenant("a", 5, 200), job], [Work(5), Work(1)])
    (device,) = [device for device in made.devices if any(seat.tenant == "train" for seat in device.tenants)]
    (row,) = [row for row in seat_table(device).rows if row[0] == "train"]
    assert "ends after" in row
    assert "4.00 h" in row
    seat = next(seat for seat in device.tenants if seat.tenant == "train")
    assert seat.due_s == 4 * 3600
    assert seat.ends_s.ends == pytest.approx([3600 * end for end in seat.slowdown.ends])


def out_of_time(tenants, kind):
    """A plan for which time is up as soon as the second predictor has been asked once; and what was said."""
    refusing, now, said = toy([Work(10, press=9.0)] * len(tenants)), [0.0], []

    def closer(mixes):
        now[0] = 10.0
        return refusing(mixes)

    rough = toy([Work(10)] * len(tenants))
    made = make_plan(
        tenants, [kind], rough, closer=closer, clock=lambda: now[0], ask=Ask(seconds=5), progress=said.append
    )
    return made, said


def test_nobody_is_left_out_of_a_full_device_before_the_second_predictor_was_asked():
    """The first predictor's range is so wide that two of three are left out; the second knows that all fit."""
    tenants = [tenant(name, 20, 40) for name in "abc"]
    rough, closer = toy([Work(10)] * 3, margin=0.6), toy([Work(10)] * 3, margin=0.05)
    one = replace(BIG, available=1)
    refused = make_plan(tenants, [one], rough, clock=clock(), ask=Ask(seconds=5))
    assert refused.left_out, "else this test says nothing"
    made = make_plan(tenants, [one], rough, closer=closer, clock=clock(), ask=Ask(seconds=5))
    assert on(made) == [["a", "b", "c"]]
    assert made.keeps_all


def test_a_mix_that_is_refused_when_time_is_up_is_taken_apart():
    made, said = out_of_time([tenant(name, 20, 100) for name in "abc"], BIG)
    assert sorted(on(made)) == [["a"], ["b"], ["c"]]
    assert made.keeps_all
    assert said == ["a first plan: 1 device, $2.00/h"]


def test_without_devices_for_what_is_refused_it_is_left_out():
    made, _ = out_of_time([tenant("a", 20, 100), tenant("b", 20, 100)], replace(BIG, available=1))
    assert len(made.left_out) == 1
    assert not made.keeps_all


@pytest.mark.parametrize("after", [40, 60, 90])
def test_an_interrupt_returns_the_best_plan_so_far(after):
    random = np.random.default_rng(5)
    works = [Work(float(random.uniform(2, 15)), gib=15) for _ in range(14)]
    predict, calls = toy(works), itertools.count()

    def interrupted(mixes):
        if next(calls) == after:
            raise KeyboardInterrupt
        return predict(mixes)

    tenants = [tenant(f"t{n}", 8.0, 300.0) for n in range(14)]
    made = make_plan(tenants, [BIG], interrupted, clock=clock(), ask=Ask(seconds=5))
    assert made.keeps_all
    assert made.proof == "none: interrupted"
    assert next(calls) < after + 30


def test_no_phase_goes_on_when_time_is_up():
    random = np.random.default_rng(5)
    works = [Work(float(random.uniform(2, 15)), gib=15) for _ in range(30)]
    tenants = [tenant(f"t{n}", 8.0, 300.0) for n in range(30)]
    predict, now = toy(works), [0.0]

    def slow(mixes):
        now[0] += 0.1 + 0.001 * len(mixes.tenants)
        return predict(mixes)

    kind = replace(BIG, ways=("processes", "mps", "mig"), mig=A100, available=30)
    made = make_plan(tenants, [kind], slow, closer=slow, clock=lambda: now[0], ask=Ask(seconds=20))
    assert made.keeps_all
    assert now[0] < 24


def test_a_tight_mix_gets_the_way_to_share_with_more_headroom():
    def predictor(press):
        slow, fast = toy([Work(10, press=press)] * 2), toy([Work(10, press=0.0)] * 2)
        return lambda mixes: (slow if mixes.sharing == "processes" else fast)(mixes)

    tenants = [tenant("a", 20, 30), tenant("b", 20, 30)]
    made = make_plan(tenants, [BIG], predictor(0.0), closer=predictor(1.5), clock=clock(), ask=Ask(seconds=5))
    (device,) = made.devices
    assert device.sharing == "mps"


def test_a_group_is_judged_as_the_plan_lays_it_out_even_where_the_order_of_seats_matters():
    works = [Work(10.0, press=0.1 * number) for number in range(4)]
    predict = toy(works)

    def uneven(mixes):
        found = predict(mixes)
        factor = (1 + 0.5 * np.arange(mixes.tenants.shape[1]))[None, :, None]
        ends = (found.latency_ms.lower, found.latency_ms.estimate, found.latency_ms.upper)
        return replace(found, latency_ms=type(found.latency_ms)(*(end * factor for end in ends)))

    random = np.random.default_rng(2)
    for limit in np.linspace(20, 80, 13):
        tenants = [tenant(f"t{n}", float(random.uniform(5, 20)), float(limit)) for n in range(4)]
        made = make_plan(tenants, [BIG], uneven, clock=clock(), ask=Ask(seconds=5))
        assert all(kept.headroom >= 0 for device in made.devices for seat in device.tenants for kept in seat.kept)


def test_a_tenant_of_which_nothing_can_be_predicted_is_refused():
    def unknown(mixes):
        found = toy([Work(10)])(mixes)
        never = np.full_like(found.latency_ms.upper, np.inf)
        return replace(found, latency_ms=type(found.latency_ms)(never, never, never), busy=np.full(len(never), np.nan))

    with pytest.raises(CotenantError, match="can't keep up"):
        make_plan([tenant("a", 20, 100)], [BIG], unknown, clock=clock(), ask=Ask(seconds=5))


def test_headroom_is_worth_the_last_percent_of_a_device():
    def roomy(mixes):
        found = toy([Work(10)])(mixes)
        size = mixes.batch[:, 0]
        factor = np.select([size == 1, size == 2, size == 4], [3.0, 1.0, 0.5])[:, None, None]
        latency = type(found.latency_ms)(*(factor * 20.0 for _ in range(3)))
        busy = np.select([size == 1, size == 2, size == 4], [0.30, 0.31, 0.36])
        return replace(found, latency_ms=latency, busy=busy)

    made = make_plan([tenant("a", 20, 100, batches=(1, 2, 4))], [BIG], roomy, clock=clock(), ask=Ask(seconds=5))
    assert made.devices[0].tenants[0].at_once == 2


def test_mig_gives_every_tenant_an_instance_and_splits_a_rate_over_several():
    kind = replace(BIG, ways=("mig",), mig=A100, available=3)
    works = [Work(10, wide=1 / 7), Work(10, wide=3 / 7)]
    made = plan([tenant("a", 120, 100, isolation="mig"), tenant("b", 40, 30, isolation="mig")], works, [kind])
    assert len(made.devices) == 1
    shares = sorted((seat.tenant, seat.share) for seat in made.devices[0].tenants)
    assert shares == [("a", "1g"), ("a", "1g"), ("b", "3g")]
    assert A100.places([share for _, share in shares]) is not None


def test_more_tenants_than_devices_leaves_some_out_and_names_them():
    made = plan([tenant(name, 80, 100) for name in "abc"], [Work(10)] * 3, [replace(BIG, available=2)])
    assert len(made.left_out) == 1
    assert len(made.devices) == 2
    assert not made.keeps_all


def test_a_plan_document_is_enough_to_carry_it_out():
    made = plan([tenant("a", 20, 100), tenant("b", 20, 100, priority=2)], [Work(10), Work(10)])
    names = {seat.tenant for device in made.devices for seat in device.tenants}
    document = document_of(made, {name: {"workload": "x"} for name in names}).to_data()
    (device,) = document["devices"]
    assert device["kind"] == "big"
    assert device["basis"] == "simulated"
    assert device["tenants"]["b"]["priority"] == 2
    assert device["tenants"]["a"]["expected"]["p99"]["upper_ms"] <= 100


def test_the_page_of_a_plan_shows_placements_without_scripts():
    from cotenant.reporting.results.planned import plan_page

    made = plan([tenant("a<b>", 20, 100), tenant("b", 20, 100)], [Work(10), Work(10)])
    text = plan_page(made, source="tenants.yaml")
    assert "a&lt;b&gt;" in text
    assert "a<b>" not in text
    assert text.count("<script") == 1, "only the one that copies commands"
    assert "no plan is better" in text
    assert text.count('class="bullet kept"') == 2


def test_copies_on_one_device_are_grouped():
    from cotenant.reporting.results.planned import plan_page

    made = plan([tenant("embed", 5, 200, replicas=3), tenant("chat", 5, 200)], [Work(5), Work(5)])
    (device,) = made.devices
    assert len(device.tenants) == 4
    text = plan_page(made, source="tenants.yaml")
    assert text.count('<th scope="row">embed x3</th>') == 1
    assert "embed x3 + chat under" in text


def test_a_job_for_several_devices_never_gets_a_mig_instance():
    kind = replace(BIG, ways=("processes", "mig"), mig=A100)
    job = ServingTenant("train", 0.0, job=BatchJob(gpus=2, seconds=3600, stretch=1.0 + 1e-9))
    made = plan([tenant("a", 5, 200, isolation="mig"), job], [Work(5), Work(100)], [kind])
    assert {device.sharing: device.devices for device in made.devices} == {"mig": 1, "alone": 2}


def test_a_model_split_over_devices_has_them_to_itself_and_pays_for_each():
    big = tenant("big", 5, 200, spans={"big": 2})
    made = plan([big, tenant("a", 5, 200)], [Work(10), Work(10)])
    split = next(device for device in made.devices if device.devices == 2)
    assert [seat.tenant for seat in split.tenants] == ["big"]
    assert (split.price_per_h, made.cost_per_h) == (4.0, 6.0)
    assert split.name == "big#0 to big#1"
    assert split.power_w > 200
    document = document_of(made, {"big": {"workload": "x"}, "a": {"workload": "y"}}).to_data()
    runs = {name: seat["runs"] for one in document["devices"] for name, seat in one["tenants"].items()}
    assert runs == {"big": {"workload": "x", "parallel": 2}, "a": {"workload": "y"}}


def test_a_model_split_over_more_devices_than_there_are_is_impossible():
    with pytest.raises(CotenantError, match="big"):
        plan([tenant("big", 5, 200, spans={"big": 16})], [Work(10)])


def test_where_not_all_fit_some_tenants_are_served_whole_rather_than_replicas_of_all():
    wanted = [tenant("wide", 300, 100), tenant("a", 20, 100), tenant("b", 20, 100)]
    made = plan(wanted, [Work(10)] * 3, [replace(BIG, available=2)])
    assert made.left_out == ("wide",)
    assert on(made) == [["a", "b"]]
    assert "has room for 2 of 3 tenants" in answer_of(made)


def test_a_tenant_whose_replicas_take_every_device_gives_way_to_several_others_and_the_reason_counts_them():
    """`wide` has the objective that only one device each of three can keep; the others fit on one."""
    wanted = [tenant("wide", 210, 30), tenant("a", 20, 100), tenant("b", 20, 100)]
    works, said = [Work(10, press=9.0), Work(10), Work(10)], []
    made = make_plan(
        wanted, [replace(BIG, available=4)], toy(works), clock=clock(), ask=Ask(seconds=5), progress=said.append
    )
    assert made.left_out == ("wide",)
    assert on(made) == [["a", "b"]]
    (refusal,) = made.refusals
    assert refusal.reason.startswith("needs 4 replicas for 210/s, with 3 devices free; a replica beside a + b on big")
    assert said[0].endswith("2 tenants left out"), "tenants, not replicas"


def test_taking_a_refused_mix_apart_asks_less_once_time_is_up():
    tenants = [tenant(f"t{number}", 4, 100) for number in range(12)]
    asked = []
    for hurry in (False, True):
        now, calls = [0.0], []
        refusing = toy([Work(10, press=9.0)] * 12)

        def closer(mixes, now=now, calls=calls, refusing=refusing, hurry=hurry):
            now[0] = 10.0 if hurry else 0.0
            calls.append(len(mixes.tenants))
            return refusing(mixes)

        rough = toy([Work(10)] * 12)
        ask = Ask(seconds=5, explained=False)
        made = make_plan(
            tenants, [replace(BIG, available=12)], rough, closer=closer, clock=lambda now=now: now[0], ask=ask
        )
        assert made.keeps_all
        asked.append(len(calls))
    assert asked[1] < asked[0] / 2
