"""Invariants for any traffic: the simulator asserts that no chunk starts while another runs and no request is answered
twice; these tests drive it with arbitrary arrivals, costs and delays."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.serving.baselines import EarliestDeadline, FirstCome
from cotenant.scheduling import (
    Cancelled,
    Contract,
    DeviceScheduler,
    Fairness,
    Settings,
    Shed,
    TenantAdded,
    TenantPaused,
    TenantRemoved,
    TenantResumed,
    Tick,
)
from cotenant.scheduling.simulation import Arrival, SimulatedDevice, poisson, simulate

from .worker import Worker, decoder, encoder

COSTS = {
    "light": encoder(each_s=0.005, curve=(1.0, 1.6, 2.3), spread=0.1),
    "cut": encoder(chunks=5, each_s=0.004, curve=(1.0, 1.6), spread=0.1),
    "decoder": decoder(spread=0.1),
}
OBJECTIVES = {"light": 0.03, "cut": 0.08, "decoder": 0.12}
POLICIES = {
    "shares": lambda: (Settings(), None),
    "equal": lambda: (Settings(fairness=Fairness.EQUAL), None),
    "two slots": lambda: (Settings(slots=2), None),
    "no queue": lambda: (Settings(queue_ahead=False), None),
    "deadlines": lambda: (Settings(), EarliestDeadline(chunks=True)),
    "whole": lambda: (Settings(), EarliestDeadline(chunks=False)),
    "first come": lambda: (Settings(), FirstCome()),
}

CHANGES = {
    "pause": TenantPaused,
    "drain": lambda now, name: TenantPaused(now, name, drain=True),
    "resume": TenantResumed,
    "remove": TenantRemoved,
}

arrivals = st.lists(
    st.builds(
        Arrival,
        time=st.floats(0, 0.5),
        tenant=st.sampled_from(sorted(COSTS)),
        deadline=st.none(),
        scale=st.floats(0.2, 3),
        steps=st.one_of(st.none(), st.integers(1, 30)),
        priority=st.integers(-1, 1),
    ),
    max_size=60,
).map(lambda requests: sorted(requests, key=lambda request: request.time))


def make(policy):
    chosen, order = POLICIES[policy]()
    return DeviceScheduler([(Contract(name, OBJECTIVES[name]), costs) for name, costs in COSTS.items()], chosen, order)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(arrivals, st.sampled_from(sorted(POLICIES)), st.sampled_from([0.0, 0.0003, 0.004]), st.integers(0, 5))
def test_every_request_is_answered_exactly_once(requests, policy, delay_s, seed):
    scheduler = make(policy)
    device = SimulatedDevice(COSTS, noise=0.2, seed=seed)
    result = simulate(requests, scheduler, device, delay_s=delay_s)
    assert scheduler.unanswered == 0
    assert all(outcome.done is not None or outcome.why is not None for outcome in result.outcomes)
    assert all(standing.backlog_s < 1e-9 for standing in scheduler.standings(1.0))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(arrivals, st.sampled_from(sorted(POLICIES)), st.integers(0, 5))
def test_the_same_events_give_the_same_instructions(requests, policy, seed):
    first, second = (
        simulate(requests, make(policy), SimulatedDevice(COSTS, seed=seed), delay_s=0.0005) for _ in range(2)
    )
    assert first == second


@settings(max_examples=60, deadline=None, derandomize=True)
@given(arrivals, st.sampled_from(["shares", "equal", "deadlines", "first come"]), st.randoms(use_true_random=False))
def test_the_device_never_idles_while_work_waits_and_versions_rise(requests, policy, chance):
    worker = Worker(make(policy))
    for number, request in enumerate(requests):
        while worker.running and worker.ends_at <= request.time:
            worker.end_chunk()
            assert worker.running or worker.scheduler.unanswered == 0
        worker.arrive(request.time, number, request.tenant, scale=request.scale, steps=request.steps)
        if chance.random() < 0.2:
            worker.send(Cancelled(request.time, chance.randrange(number + 1)))
        assert worker.running or worker.scheduler.unanswered == 0
    worker.run_until_idle()
    assert worker.scheduler.unanswered == 0
    assert len(worker.answers) == len(requests)
    assert [chunk.version for chunk in worker.ran] == sorted({chunk.version for chunk in worker.ran})


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    st.sampled_from(sorted(COSTS)),
    st.sampled_from(sorted(COSTS)),
    st.floats(1.0, 6.0),
    st.integers(0, 1000),
)
def test_no_flood_starves_a_tenant_that_keeps_to_its_share(flooding, keeping, flood, seed):
    if flooding == keeping:
        return
    rates = {flooding: flood / COSTS[flooding].total_s, keeping: 0.15 / COSTS[keeping].total_s}
    sent = poisson(rates, 1.5, seed)
    result = simulate(sent, make("shares"), SimulatedDevice(COSTS, noise=0.05, seed=seed))
    kept = [outcome for outcome in result.outcomes if outcome.tenant == keeping]
    assert sum(not outcome.met for outcome in kept) <= 2 + 0.1 * len(kept)


OPERATIONS = ("arrive", "end", "end early", "cancel", "lose", "pause", "drain", "resume", "remove", "add", "tick")


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 10**6)), max_size=80),
    st.sampled_from(["shares", "equal", "deadlines", "first come", "no queue"]),
)
def test_whatever_happens_to_tenants_and_workers_every_request_is_answered_once(operations, policy):
    scheduler = make(policy)
    worker = Worker(scheduler)
    names, now, sent = sorted(COSTS), 0.0, 0
    for kind, number in operations:
        now = max(now + (number % 7) * 1e-3, worker.began)
        name = names[number % len(names)]
        known = name in {standing.tenant for standing in scheduler.standings(now)}
        if kind == "arrive":
            worker.arrive(now, sent, name, steps=1 + number % 20)
            sent += 1
        elif kind == "cancel" and sent:
            worker.send(Cancelled(now, number % sent))
        elif kind == "lose" and worker.running:
            worker.lose_chunk(now)
        elif kind.startswith("end") and worker.running:
            early = worker.running.requests[:1] if kind == "end early" and worker.running.steps else ()
            now = max(now, worker.began + 0.5 * worker.running.predicted_s)
            worker.end_chunk(took=0.5, finished=early)
        elif kind == "add":
            worker.send(TenantAdded(now, Contract(name, OBJECTIVES[name]), COSTS[name]))
        elif kind == "tick":
            worker.send(Tick(now))
        elif known and kind in CHANGES:
            worker.send(CHANGES[kind](now, name))
    worker.run_until_idle()
    assert scheduler.unanswered == 0
    assert sorted(worker.answers) == list(range(sent))
    assert all(abs(standing.backlog_s) < 1e-9 for standing in scheduler.standings(now))


def test_a_flood_keeps_the_queue_bounded():
    scheduler = make("shares")
    worker = Worker(scheduler)
    chance = random.Random(1)
    for number in range(2000):
        worker.arrive(0.02 * chance.random() if number == 0 else 0.02, number, "light")
    assert scheduler.unanswered <= 40
    refusals = [end for end in worker.answers.values() if isinstance(end, Shed)]
    assert all(0 < end.retry_after_s <= scheduler.settings.longest_retry_s for end in refusals)
