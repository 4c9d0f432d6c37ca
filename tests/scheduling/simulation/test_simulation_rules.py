"""The parts of the simulation by hand or against plain references: lines, quantiles, the bound, device and worker."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import t

from benchmarks.serving.baselines import FirstCome, _chord, clairvoyant_bound
from cotenant.scheduling import (
    Arrived,
    BatchCurve,
    Contract,
    DeviceScheduler,
    Settings,
    TenantCosts,
    Why,
    chunk_cost,
)
from cotenant.scheduling.instructions import Chunk
from cotenant.scheduling.simulation import (
    Arrival,
    SimulatedDevice,
    SpeedModes,
    SpeedTrace,
    poisson,
    simulate,
)
from cotenant.scheduling.simulation.lines import Line, Replications, latencies, requests_at, tail_of
from cotenant.scheduling.simulation.simulator import SimulatedRequest, SimulatedResult
from tests.scheduling.worker import Worker, decoder, encoder, scheduler

# --- lines


def plainly_served(lines, speeds):  # noqa: C901 - in one piece, to be read from top to bottom
    """Ends of all requests: one worker per line, each event looked for among all that could come next."""
    workers = [
        {"waiting": [], "busy": [], "left": 0.0, "batches": 0, "coming": [*enumerate(line.due_s)]} for line in lines
    ]
    ends = [[math.nan] * len(line.due_s) for line in lines]
    now = 0.0
    while True:
        mask = sum(1 << number for number, worker in enumerate(workers) if worker["busy"])
        speed = speeds[mask] if speeds is not None else [1.0] * len(lines)
        ending = [(now + w["left"] / speed[n], n) for n, w in enumerate(workers) if w["busy"]]
        arriving = [w["coming"][0][1] for w in workers if w["coming"]]
        if not ending and not arriving:
            return ends
        arrival = min(arriving, default=math.inf)
        until = min(arrival, min(ending)[0]) if ending else arrival
        for number, worker in enumerate(workers):
            if worker["busy"]:
                worker["left"] -= (until - now) * speed[number]
        now = until
        for number, worker in enumerate(workers):
            was_idle = not worker["busy"]
            if arrival <= until:
                while worker["coming"] and worker["coming"][0][1] <= now:
                    worker["waiting"].append(worker["coming"].pop(0)[0])
            elif number == min(ending)[1]:
                for request in worker["busy"]:
                    ends[number][request] = now
                worker["busy"] = []
            if not worker["busy"] and worker["waiting"]:
                line = lines[number]
                most = len(line.growth)
                worker["busy"], worker["waiting"] = worker["waiting"][:most], worker["waiting"][most:]
                times = line.after_pause_s if was_idle and line.after_pause_s is not None else line.work_s
                worker["left"] = times[worker["batches"] % len(times)] * line.growth[len(worker["busy"]) - 1]
                worker["batches"] += 1


@pytest.mark.parametrize("seed", range(12))
def test_lines_are_served_as_by_a_plain_simulation(seed):
    dice = np.random.default_rng(seed)
    count = int(dice.integers(1, 4))
    lines = [
        Line(
            np.sort(dice.uniform(0, 20, int(dice.integers(0, 25)))),
            dice.uniform(0.1, 1.0, int(dice.integers(1, 5))),
            dice.uniform(0.1, 1.5, int(dice.integers(1, 5))) if dice.random() < 0.5 else None,
            [1.0, 1.4, 1.7][: int(dice.integers(1, 4))],
        )
        for _ in range(count)
    ]
    speeds = dice.uniform(0.3, 1.0, (1 << count, count)) if seed % 3 else None
    for found, line, ends in zip(latencies(lines, speeds), lines, plainly_served(lines, speeds), strict=True):
        assert line.due_s + found == pytest.approx(np.array(ends))


def test_lines_without_requests_take_no_part():
    nothing = Line(np.empty(0), np.empty(0))
    found = latencies([nothing, Line(np.array([1.0, 1.5]), np.array([1.0]), np.array([2.0])), nothing])
    assert [times.tolist() for times in found] == [[], [2.0, 2.5], []]


def test_a_quantile_has_a_jackknife_interval():
    dice = np.random.default_rng(5)
    parts = tuple(dice.exponential(1.0, size) for size in (300, 400, 500, 350))
    low, estimate, high = Replications(parts).quantile(0.95)
    every = np.concatenate(parts)
    assert estimate == pytest.approx(np.quantile(every, 0.95))
    logs = []
    for left_out in range(4):
        rest = np.sort(np.concatenate([part for number, part in enumerate(parts) if number != left_out]))
        logs.append(math.log(rest[rest.size - 1 - int(0.05 * rest.size)]))
    error = math.sqrt(3 / 4 * sum((value - np.mean(logs)) ** 2 for value in logs))
    half = t.ppf(0.955, 3) * error
    assert (low, high) == (pytest.approx(estimate * math.exp(-half)), pytest.approx(estimate * math.exp(half)))
    assert Replications(parts[:1]).quantile(0.5) == (pytest.approx(np.quantile(parts[0], 0.5)),) * 3
    assert Replications((parts[0], np.array([1.0, np.inf]))).quantile(0.5) == (math.inf,) * 3
    low, estimate, high = Replications(parts[:2]).quantile(0.2)
    assert low < estimate < high
    assert Replications((np.array([1.0, 2.0]), np.array([2.0, 3.0, 4.0]))).within(2.0) == pytest.approx((1 + 1 / 3) / 2)


def test_how_many_requests_a_replication_has():
    expected = {0.0: 3000, 0.5: 3000, 0.8: 10_000, 0.9: 40_000, 1.0: 40_000, 2.0: 40_000}
    assert {load: requests_at(load) for load in expected} == expected


def test_replications_differ_by_seed_and_leave_out_their_beginning():
    asked = []

    def due(seed):
        asked.append(seed)
        return np.arange(16.0) * 10 if seed != 8 else np.empty(0)

    found = tail_of(due, lambda seed: np.array([float(seed)]), (1.0,), seed=7, replications=3)
    assert asked == [7, 8, 9]
    assert [times.tolist() for times in found.latencies_s] == [[7.0] * 14, [9.0] * 14]
    together = tail_of(lambda _: np.array([0.0, 1.0, 2.0]), lambda _: np.array([4.0]), (1.0, 1.5), replications=1)
    assert together.latencies_s[0].tolist() == [4.0, 9.0, 8.0]
    assert len(tail_of(lambda _: np.array([0.0]), lambda _: np.ones(1)).latencies_s) == 20


# --- the bound


def bound(arrivals, tenants, worth=None, **more):
    worth = worth or {contract.tenant: 1.0 for contract, _ in tenants}
    return clairvoyant_bound(arrivals, tenants, worth, duration_s=2.0, **more)


def test_the_bound_serves_the_more_valuable_and_every_part_of_time_once():
    tenants = [(Contract("a", 1.0), encoder(2, 0.5)), (Contract("b", 2.0), encoder(1, 1.0))]
    found = bound([Arrival(0.0, "a"), Arrival(0.0, "a"), Arrival(0.0, "b")], tenants, {"a": 1.0, "b": 3.0})
    assert found.attainment == pytest.approx({"a": 0.5, "b": 1.0})
    assert (found.goodput, found.basis) == (pytest.approx(2.0), "LP, no batching")
    found = bound([Arrival(0.0, "a"), Arrival(0.5, "b", 1.5)], tenants, {"a": 1.0, "b": 3.0})
    assert found.attainment == pytest.approx({"a": 0.5, "b": 1.0})
    twice = bound([Arrival(0.0, "a"), Arrival(0.0, "a"), Arrival(0.0, "a")], tenants, slots=2)
    assert twice.attainment == pytest.approx({"a": 2 / 3})
    sized = bound([Arrival(0.0, "a", scale=1.6)], tenants)
    assert sized.attainment == pytest.approx({"a": 1 / 1.6})


def test_the_bound_counts_the_steps_of_decoders():
    contract = Contract("d", 1.0, hard=False, per_step_s=0.05)
    tenants = [(contract, decoder(0.5, 0.25, 4, (1.0,)))]
    assert bound([Arrival(0.0, "d")], tenants).attainment == pytest.approx({"d": 1.2 / 1.5})
    assert bound([Arrival(0.0, "d", steps=8)], tenants).attainment == pytest.approx({"d": 1.4 / 2.5})
    assert bound([Arrival(0.0, "d", 0.75, scale=2.0)], tenants).attainment == pytest.approx({"d": 0.75 / 2.0})


def test_batches_cost_at_least_the_chord_of_their_curve_and_have_a_largest_size():
    costs = encoder(1, 1.0, (1.0, 1.5))
    tenants = [(Contract("a", 1.5), costs)]
    together = [bound([Arrival(0.0, "a")] * count, tenants, batching=True) for count in (1, 2, 3, 4)]
    # half of a request's time for each part, half for the run, which is at least half as long as its parts together
    assert [found.attainment["a"] for found in together] == pytest.approx([1.0, 1.0, 2 / 3, 1 / 2])
    assert together[0].basis == "LP, batching relaxed"
    shorter = [(Contract("a", 1.2), costs)]
    assert bound([Arrival(0.0, "a")] * 2, shorter, batching=True).attainment["a"] == pytest.approx(1.2 / 1.5)
    assert bound([Arrival(0.0, "a")] * 2, shorter).attainment["a"] == pytest.approx(0.6)
    apart = bound([Arrival(0.0, "a", 1.0), Arrival(1.0, "a", 1.6)], tenants, batching=True)
    assert apart.attainment["a"] == pytest.approx(1.6 / 2), "none runs with a request that comes later"
    mixed = [*tenants, (Contract("b", 1.5), encoder(1, 1.0))]
    found = bound([Arrival(0.0, "a"), Arrival(0.0, "a"), Arrival(0.0, "b")], mixed, {"a": 1.0, "b": 0.1}, batching=True)
    assert found.attainment == pytest.approx({"a": 1.0, "b": 0.0}, abs=1e-9)


def test_the_chord_weighs_chunks_and_steps():
    assert _chord(encoder(1, 1.0)) == 1.0
    assert _chord(encoder(2, 1.0, (1.0, 1.5, 1.8))) == pytest.approx(0.4)
    costs = TenantCosts(
        (chunk_cost(1.0), chunk_cost(2.0)), BatchCurve((1.0, 1.6)), chunk_cost(0.5), BatchCurve((1.0, 1.1, 1.2)), 2
    )
    assert _chord(costs) == pytest.approx((3 * 0.6 + 1 * 0.1) / 4)


# --- device


def device_time(device, *, began=0.0, idle_s=0.0, stage=0, steps=0, batch=1, scale=1.0):
    return device.chunk_s(Chunk(1, 0, "a", (1,), stage, steps, 0.0), batch, scale, began, idle_s)


def test_the_time_of_a_chunk():
    costs = TenantCosts(
        (chunk_cost(1.0, cold=2.0), chunk_cost(3.0)), BatchCurve((1.0, 1.5)), chunk_cost(0.1), BatchCurve((1.0, 1.2)), 4
    )
    device = SimulatedDevice({"a": costs}, noise=0.0)
    assert [device_time(device, idle_s=idle) for idle in (0.0, 0.001, 0.0011)] == [1.0, 1.0, 2.0]
    assert device_time(device, stage=1, batch=2, scale=2.0) == pytest.approx(9.0)
    assert device_time(device, steps=4, batch=2, scale=2.0) == pytest.approx(0.48)
    noisy = [device_time(SimulatedDevice({"a": costs}, noise=0.2, seed=seed)) for seed in range(200)]
    assert np.std(np.log(noisy)) == pytest.approx(0.2, rel=0.15)
    traced = SimulatedDevice({"a": costs}, noise=0.0, trace=SpeedTrace([0.0, 5.0], [1.0, 2.0]))
    assert device_time(traced, began=4.5) == pytest.approx(1.5)


def test_modes_change_after_times_of_their_mean():
    device = SimulatedDevice({"a": encoder(1, 1.0)}, noise=0.0, modes=SpeedModes((1.0, 3.0), 2.0), seed=3)
    times = [device_time(device, began=0.1 * tick) for tick in range(20_000)]
    assert set(times) == {1.0, 3.0}
    changes = sum(before != after for before, after in pairwise(times))
    assert 2000 / changes == pytest.approx(2.0, rel=0.1)
    steady = SimulatedDevice({"a": encoder(1, 1.0)}, noise=0.0, modes=SpeedModes((2.0,), 1.0))
    assert device_time(steady, began=50.0) == 2.0


def test_bursts_have_their_mean_lengths():
    trace = SpeedTrace.bursts(0.6, 0.1, 4.0, 2000.0, 1)
    assert trace.work_s(2000.0) / 2000 == pytest.approx((0.6 + 0.1 / 4) / 0.7, rel=0.01)
    assert trace.work_s(-1.0) == pytest.approx(-1.0)
    assert trace.end(-1.0, 0.5) == pytest.approx(-0.5)
    numbers = random.Random(1)
    calm = numbers.expovariate(1 / 0.6)
    slow = numbers.expovariate(1 / 0.1)
    assert trace.work_s(calm + slow) == pytest.approx(calm + slow / 4)


def test_poisson_arrivals_have_their_rates_in_order():
    found = poisson({"a": 20.0, "none": 0.0, "b": 5.0}, 200.0, 1)
    times = [arrival.time for arrival in found]
    assert times == sorted(times)
    assert 0 < times[0] < times[-1] < 200.0
    count = sum(arrival.tenant == "a" for arrival in found)
    assert count == pytest.approx(4000, rel=0.05)
    assert len(found) - count == pytest.approx(1000, rel=0.1)
    gaps = np.diff([arrival.time for arrival in found if arrival.tenant == "a"])
    assert np.std(gaps) == pytest.approx(1 / 20, rel=0.1)
    assert found[0][2:] == (None, 1.0, None, 0)


# --- worker and messages


def run(arrivals, tenants, *, delay_s=0.0, costs=None, **settings):
    core = DeviceScheduler(tenants, Settings(**settings), FirstCome())
    true = costs or {contract.tenant: cost for contract, cost in tenants}
    return simulate(arrivals, core, SimulatedDevice(true, noise=0.0), delay_s=delay_s)


def test_messages_take_time_to_the_worker_and_back():
    tenants = [(Contract("a", 9.0), encoder(2, 1.0))]
    plain = run([Arrival(0.0, "a")], tenants)
    assert (plain.outcomes[0].done, plain.duration_s, plain.busy_s, plain.chunks) == (2.0, 2.0, 2.0, 2)
    delayed = run([Arrival(0.0, "a")], tenants, delay_s=0.25)
    # The first chunk starts at .25; the second was queued in time and follows at once; the end is known .25 later.
    assert (delayed.outcomes[0].done, delayed.duration_s, delayed.late, delayed.replaced) == (2.25, 2.5, 0, 0)
    slow = run([Arrival(0.0, "a")], tenants, delay_s=0.25, queue_ahead=False)
    assert slow.outcomes[0].done == pytest.approx(0.25 + 1.0 + 0.5 + 1.0)


def test_first_tokens_and_slots_of_a_simulation():
    tenants = [(Contract("d", 9.0), decoder(1.0, 0.5, 4, (1.0,)))]
    found = run([Arrival(0.0, "d"), Arrival(10.0, "d", steps=2)], tenants)
    assert [(outcome.first, outcome.done, outcome.latency_s) for outcome in found.outcomes] == [
        (1.0, 3.0, 3.0),
        (11.0, 12.0, pytest.approx(2.0)),
    ]
    side = run([Arrival(0.0, "a"), Arrival(0.0, "a")], [(Contract("a", 9.0), encoder(1, 1.0))], slots=2)
    assert ([outcome.done for outcome in side.outcomes], side.duration_s, side.busy_s) == ([1.0, 1.0], 1.0, 2.0)


def test_the_first_chunk_after_a_pause_is_spaced_and_sizes_are_the_largest_of_a_batch():
    costs = TenantCosts((chunk_cost(1.0, cold=2.0),))
    found = run([Arrival(0.0, "a"), Arrival(0.5, "a"), Arrival(10.0, "a", scale=3.0)], [(Contract("a", 99.0), costs)])
    assert [outcome.done for outcome in found.outcomes] == [2.0, 3.0, 16.0]


def test_statistics_of_a_simulation():
    def outcome(tenant, met):
        return SimulatedRequest(tenant, 1.0, 3.0 if met else None, met, None if met else Why.DEVICE_FULL, None)

    found = SimulatedResult(
        (outcome("a", True), outcome("a", False), outcome("a", True), outcome("b", False)), 9.0, 1.0, 1, 0, 0
    )
    assert found.attainment() == pytest.approx({"a": 2 / 3, "b": 0.0})
    assert found.goodput({"a": 0.3, "b": 5.0}, 4.0) == pytest.approx(0.15)
    assert found.outcomes[1].latency_s is None


# --- the scheduler's forecasts


def test_when_to_look_again_and_how_long_to_wait():
    core = scheduler(("a", 1.0, encoder(1, 0.1)), ("b", 2.0, encoder(1, 0.2)), queue_ahead=False)
    assert core.wake_at() is None
    assert core.predicted_wait_s("a", 0.0) == 0.0
    worker = Worker(core)
    worker.send(Arrived(0.0, 1, "a"))
    worker.send(Arrived(0.0, 2, "b"))
    worker.send(Arrived(0.01, 3, "a"))
    assert core.wake_at() == pytest.approx(1.01 - 0.1)
    assert core.predicted_wait_s("a", 0.02) == pytest.approx(0.08 + 0.1)
    assert core.predicted_wait_s("b", 0.02) == pytest.approx(0.08 + 0.3)
    assert core.unanswered == 3
    assert scheduler(("a", 1.0, encoder()), policy=FirstCome()).wake_at() is None
    assert core.cache_use is None
