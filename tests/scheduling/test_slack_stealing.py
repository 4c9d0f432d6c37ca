"""Plans with gangs, against plain rules, and what is chosen."""

import math
import random

import pytest

from cotenant.scheduling import Fairness, Settings
from cotenant.scheduling.slack_stealing import (
    AheadOfIt,
    Rehearsal,
    SlackStealing,
    _gang,
    _slack_order,
    demands,
    fill_slack,
    keep_feasible,
)

from .worker import decoder, encoder, job, roster

# --- gangs


def stepped(jobs, size):  # noqa: C901 - in one piece, to be read from top to bottom
    """Planned times of jobs, by carrying out every step of the gangs."""
    gangs = {}
    for work in jobs:
        if work.steps:
            gang = gangs.setdefault(id(work.estimate), [])
            if len(gang) < min(size, work.estimate.costs.step_curve.largest):
                gang.append(work)
    ends = {}
    for gang in gangs.values():
        if size < 2 or len(gang) < 2:
            continue
        costs = gang[0].estimate.costs
        clock, left = sum(work.prefill_s for work in gang), {id(work): work.steps for work in gang}
        while left:
            clock += costs.step.p50_s * gang[0].estimate.speed.factor * costs.step_curve.factors[len(left) - 1]
            for work in gang:
                if id(work) in left:
                    left[id(work)] -= 1
                    if not left[id(work)]:
                        del left[id(work)]
                        ends[id(work)] = clock + work.plan_s - work.rest_s
    times, reached = [], {}
    for work in jobs:
        if id(work) in ends:
            before = reached.get(id(work.estimate), 0.0)
            times.append(max(0.0, ends[id(work)] - before))
            reached[id(work.estimate)] = max(before, ends[id(work)])
        else:
            times.append(work.plan_s)
    return times


def test_the_members_of_a_gang_add_what_they_lengthen_it_by():
    (tenant,) = roster(("a", 9.0, decoder(0.1, 0.01, 10, (1.0, 1.2)))).tenants.values()
    long, short = job(tenant, 1, steps=10, prefilled=True), job(tenant, 2, steps=4)
    assert demands([long, short], 2) == pytest.approx([0.1 + 4 * 0.012 + 6 * 0.01, 0.0])
    assert demands([short, long], 2) == pytest.approx([0.1 + 4 * 0.012, 6 * 0.01])
    assert demands([long, short], 1) == pytest.approx([0.1, 0.14])


def random_jobs(dice, slots=1):
    spread = dice.choice([0.0, 0.3])
    tenants = roster(
        ("a", 9.0, decoder(0.1, 0.02, 5, (1.0, 1.2, 1.3), spread)),
        ("b", 9.0, decoder(0.05, 0.03, 5, (1.0, 1.5), spread)),
        ("c", 9.0, encoder(2, 0.05, spread=spread)),
        slots=slots,
    )
    tenants.speed.level = dice.choice([0.0, 0.2])
    tenants.speed._derive()
    tight = dice.choice([0.6, 1.2, 2.5])
    jobs = [
        job(
            tenants.named(dice.choice("aabbc")),
            dice.uniform(0.1, tight),
            steps=dice.randrange(1, 9),
            prefilled=dice.random() < 0.5,
            order=number,
            conforming=dice.random() < 0.6,
            priority=dice.choice([0, 0, 1]),
        )
        for number in range(dice.randrange(1, 8))
    ]
    return tenants, sorted(jobs, key=lambda work: work.due)


@pytest.mark.parametrize("seed", range(40))
def test_planned_times_are_those_of_carrying_out_every_step(seed):
    _, jobs = random_jobs(random.Random(seed))
    for size in (1, 2, 3, 4):
        assert demands(jobs, size) == pytest.approx(stepped(jobs, size))


def late(jobs, ahead):
    end = ahead.begin
    for index, cost in enumerate(stepped(jobs, ahead.gang)):
        end += cost / ahead.slots
        if end > jobs[index].planned_due:
            return index
    return None


def plainly_kept(jobs, ahead):
    jobs = list(jobs)
    while (index := late(jobs, ahead)) is not None:
        worst = None
        for work in jobs[: index + 1]:
            rank = (
                work.tenant.floods,
                not work.begun,
                work.tenant.attained,
                -work.members[0].priority,
                work.plan_s / work.tenant.spaced_s,
            )
            if worst is None or rank >= worst[0]:
                worst = rank, work
        jobs.remove(worst[1])
    return jobs


def plainly_filled(jobs, others, ahead, limit):
    """Each is put behind those due by then, if everybody is in time or, with gangs of decoders, not delayed by it."""
    limits = [limit(work) for work in jobs]
    for work in others:
        at = sum(other.planned_due <= work.planned_due for other in jobs)
        more, bounds = [*jobs[:at], work, *jobs[at:]], [*limits[:at], work.planned_due, *limits[at:]]
        ends = [ahead.begin + sum(stepped(more, ahead.gang)[: place + 1]) / ahead.slots for place in range(len(more))]
        was = [ahead.begin + sum(stepped(jobs, ahead.gang)[: place + 1]) / ahead.slots for place in range(len(jobs))]
        was.insert(at, -math.inf)
        ganging = ahead.gang > 1 and work.steps > 0
        fits = all(
            end <= bound or (ganging and end <= before + 1e-12)
            for end, bound, before in zip(ends, bounds, was, strict=True)
        )
        if ahead.gang < 2:
            fits = fits and ahead.begin + work.rest_s <= work.planned_due
        if not ganging:  # it and those behind it count; those ahead are as they were
            fits = all(end <= bound for end, bound in zip(ends[at:], bounds[at:], strict=True)) and (
                ahead.gang > 1 or ahead.begin + work.rest_s <= work.planned_due
            )
        if fits:
            jobs, limits = more, bounds
    return jobs


@pytest.mark.parametrize("seed", range(60))
def test_plans_are_those_of_the_plain_rules(seed):
    dice = random.Random(seed)
    slots = dice.choice([1, 1, 2])
    _, jobs = random_jobs(dice, slots)
    conforming = [work for work in jobs if work.conforming]
    others = [work for work in jobs if not work.conforming]
    begin = dice.choice([0.0, 0.05])
    for gang in (1, 2, 3):
        ahead = AheadOfIt(begin, slots, gang)
        kept, costs = keep_feasible(conforming, ahead)
        assert kept == plainly_kept(conforming, ahead)
        assert costs == pytest.approx(stepped(kept, gang))
        expected = plainly_filled(kept, others, ahead, lambda work: work.planned_due - 0.05)
        filled, costs = fill_slack(list(kept), list(costs), others, ahead, lambda work: work.planned_due - 0.05)
        assert filled == expected
        assert costs == pytest.approx(stepped(filled, gang))


@pytest.mark.parametrize("seed", range(40))
def test_the_plan_of_the_largest_worth_wins_and_of_equals_that_of_the_largest_gangs(seed):
    dice = random.Random(seed)
    settings = Settings()
    tenants, jobs = random_jobs(dice)
    policy = SlackStealing(settings, tenants)
    largest = [work.estimate.costs.step_curve.largest for work in jobs if work.steps]
    most = min(len(largest), max(largest)) if largest else 1
    others = sorted((work for work in jobs if not work.conforming), key=_slack_order)
    plans = [policy._plan([work for work in jobs if work.conforming], others, gang, 0.0) for gang in range(1, most + 1)]

    def worth(plan):
        return sum(work.tenant.spaced_s * (4 if work.conforming else 1) for work in plan.jobs)

    best = max(plans, key=lambda plan: (round(worth(plan), 9), plan.gang))
    found = policy._best_plan(jobs, 0.0)
    assert (found.jobs, found.gang) == (best.jobs, best.gang)


def test_a_gang_waits_for_a_member_without_its_prefill_and_holds_no_strangers():
    tenants = roster(("a", 9.0, decoder()), ("b", 9.0, decoder()))
    a, b = tenants.named("a"), tenants.named("b")
    ready = [job(a, due, prefilled=True, order=due) for due in (1, 2, 3)]
    stranger, fresh = job(b, 1.5, prefilled=True), job(a, 2.5)
    assert _gang(Rehearsal([ready[0], stranger, ready[1], ready[2]], [], 2), ready[0]) == ready[:2]
    assert _gang(Rehearsal([ready[0], stranger, ready[1], ready[2]], [], 3), ready[0]) == ready
    assert _gang(Rehearsal([*ready[:2], fresh, ready[2]], [], 3), ready[0]) == [fresh]
    assert _gang(Rehearsal([*ready[:2], fresh, ready[2]], [], 2), ready[0]) == ready[:2]


def test_slack_goes_to_the_begun_then_the_urgent_then_the_short_for_their_worth():
    tenants = roster(("a", 9.0, encoder(2, 0.05)), ("b", 9.0, encoder(1, 0.3)))
    a, b = tenants.named("a"), tenants.named("b")
    begun, urgent = job(b, 5, prefilled=False), job(a, 4, priority=1)
    begun.begun = True
    large, plain, later = job(a, 1, scale=1.5), job(a, 2), job(b, 3)
    assert sorted([later, large, plain, urgent, begun], key=_slack_order) == [begun, urgent, plain, later, large]
    pair = job(a, 9)
    pair.members = pair.members * 2
    assert _slack_order(pair) == (True, 0, pytest.approx(0.5), 9)


# --- what is chosen


def chosen(jobs, tenants, begin=0.0, **settings):
    return SlackStealing(Settings(**settings), tenants).choose(jobs, begin)


def test_what_is_chosen_and_why():
    tenants = roster(("a", 9.0, encoder(1, 0.1)), ("b", 9.0, encoder(3, 0.1)))
    a, b = tenants.named("a"), tenants.named("b")
    only = job(a, 0.01)
    assert chosen([only], tenants) == ([only], "alone", 1)
    first, second = job(a, 1.0), job(b, 2.0)
    assert chosen([first, second], tenants) == ([first], "planned", 2)
    spare = job(a, 1.0, conforming=False)
    assert chosen([spare, second], tenants) == ([spare], "slack", 2)
    hopeless, half_done = job(a, 0.01), job(b, 0.02, prefilled=True)
    assert chosen([hopeless, half_done], tenants) == ([half_done], "nothing fits: best bet", 0)
    assert hopeless.rest_s < half_done.rest_s
    half_done.members = half_done.members * 2
    large = job(b, 0.03, scale=0.3)
    assert chosen([hopeless, half_done, large], tenants).jobs == [large]


def test_in_a_burst_plans_see_earlier_due_times():
    tenants = roster(("a", 9.0, encoder(1, 0.1)), ("b", 9.0, encoder(1, 0.1)))
    for number in range(3):
        tenants.speed.see(0.7, 1 + 0.1 * number, 0.1)
    jobs = [job(tenants.named("a"), 1.5), job(tenants.named("b"), 2.0)]
    chosen(jobs, tenants, 1.2)
    horizon = tenants.speed.horizon(1.2)
    assert [work.planned_due for work in jobs] == [horizon(1.5), horizon(2.0)]
    assert jobs[0].planned_due < 1.5


def batch(curve, dues, *, each_s=0.1, quantum_s=9.0, slots=1, begin=0.0, others=()):
    tenants = roster(("a", 9.0, encoder(1, each_s, curve)), ("z", 9.0, encoder(1, 0.1)), quantum_s=quantum_s)
    mates = [job(tenants.named("a"), due, order=number) for number, due in enumerate(dues)]
    strangers = [job(tenants.named("z"), due, order=50) for due in others]
    jobs = sorted([*mates, *strangers], key=lambda work: work.due)
    choice = chosen(jobs, tenants, begin, slots=slots, quantum_s=quantum_s)
    return [mates.index(work) for work in choice.jobs]


def test_a_batch_grows_while_a_member_saves_a_fifth():
    assert batch((1.0, 1.8), [5, 6]) == [0, 1]
    assert batch((1.0, 1.81), [5, 6]) == [0]
    assert batch((1.0, 1.2, 2.1, 2.2), [5, 6, 7, 8]) == [0, 1]
    assert batch((1.0, 1.2), [5, 6, 7]) == [0, 1]
    assert batch((1.0,), [5, 6]) == [0]


def test_a_batch_is_no_longer_than_four_thirds_of_a_quantum():
    assert batch((1.0, 1.5), [5, 6], quantum_s=0.1126) == [0, 1]
    assert batch((1.0, 1.5), [5, 6], quantum_s=0.1124) == [0]


def test_a_batch_ends_in_time_for_its_members_and_for_the_rest_of_the_plan():
    assert batch((1.0, 1.5), [0.1501, 6]) == [0, 1]
    assert batch((1.0, 1.5), [0.1499, 6]) == [0]
    assert batch((1.0, 1.5), [0.2499, 6], begin=0.1) == [0]
    assert batch((1.0, 1.5), [0.2501, 6], begin=0.1) == [0, 1]
    assert batch((1.0, 1.5), [0.16, 6], others=[0.2501]) == [0, 1]
    assert batch((1.0, 1.5), [0.16, 6], others=[0.2499]) == [0]
    assert batch((1.0, 1.5), [0.1499, 6], slots=2) == [0], "a batch doesn't run on two slots"
    assert batch((1.0, 1.5), [0.16, 6], others=[0.17, 0.1751], slots=2) == [0, 1]
    assert batch((1.0, 1.5), [0.16, 6], others=[0.17, 0.1749], slots=2) == [0]


def test_a_batch_around_a_late_mate_takes_the_next_one():
    tenants = roster(("a", 9.0, encoder(1, 0.1, (1.0, 1.2, 1.3))))
    tenant = tenants.named("a")
    jobs = [job(tenant, 0.25), job(tenant, 0.26, scale=2.3), job(tenant, 5, order=2), job(tenant, 6, order=3)]
    jobs[2].begun = True
    found = SlackStealing(Settings(), tenants)._batch(Rehearsal([jobs[0]], [0.1], 1), jobs, jobs[0], 0.0)
    assert found == [jobs[0], jobs[3]], "a begun job can't join, the large one would make the first late"


def test_with_equal_attainment_every_request_conforms():
    tenants = roster(("a", 9.0, encoder()))
    tenant = tenants.named("a")
    equal, shares = (
        SlackStealing(Settings(fairness=fairness), tenants) for fairness in (Fairness.EQUAL, Fairness.SHARES)
    )
    assert equal.conforms(tenant, 1e9, 0.0)
    assert not shares.conforms(tenant, 1e9, 0.0)
    assert (equal.guarantees, shares.guarantees) == (False, True)


def test_the_reserve_before_a_limit_is_for_requests_that_are_due_earlier():
    tenants = roster(("a", 2.0, encoder(1, 0.1)), ("b", 1.0, encoder(1, 0.1)), quantum_s=0.1, slots=2)
    tenants.named("a").offer(0.4, 0.0)  # in memory of 2 s: .2 device-seconds per second
    limit = SlackStealing(Settings(slots=2), tenants)._limits(0.0)
    assert limit(job(tenants.named("b"), 2.0)) == pytest.approx(2.0 - 0.1)
    assert limit(job(tenants.named("b"), 5.0)) == pytest.approx(5.0 - 0.1 - 0.75 * 0.2 * 3.0)
