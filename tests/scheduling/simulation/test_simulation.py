import math

import pytest

from benchmarks.serving import overloaded as three
from benchmarks.serving.baselines import EarliestDeadline, FirstCome, clairvoyant_bound
from cotenant.errors import SchedulingError
from cotenant.scheduling import Contract, DeviceScheduler, Fairness, Settings
from cotenant.scheduling.simulation import (
    Arrival,
    SimulatedDevice,
    SpeedModes,
    SpeedTrace,
    poisson,
    simulate,
)
from tests.scheduling.worker import encoder

SEEDS = (31, 32)
SECONDS = 12.0


def served(load, policy=None, seeds=SEEDS, **settings):
    """Mean attainment by tenant and mean goodput on the reference tenants."""
    results = []
    for seed in seeds:
        scheduler = DeviceScheduler(three.contracts(), Settings(**settings), policy)
        device = SimulatedDevice(three.COSTS, seed=seed)
        results.append(simulate(three.arrivals(load, seed, SECONDS), scheduler, device))
    parts = [result.attainment() for result in results]
    attained = {name: sum(part[name] for part in parts) / len(parts) for name in three.COSTS}
    return attained, sum(result.goodput(three.WORTH_S, SECONDS) for result in results) / len(results)


def test_at_moderate_load_every_tenant_keeps_its_objective():
    attained, _ = served("S1")
    assert min(attained.values()) >= 0.97


def test_tenants_within_their_share_are_kept_beside_a_flood_that_starves_them_under_plain_deadlines():
    attained, goodput = served("S2")
    plain, plain_goodput = served("S2", EarliestDeadline(chunks=False))
    assert attained["bert"] >= 0.98
    assert attained["gpt"] >= 0.94
    assert plain["gpt"] < 0.7
    assert goodput > plain_goodput


def test_equal_fairness_lifts_the_worst_tenant_under_overload():
    shares, goodput = served("S3")
    equal, _ = served("S3", fairness=Fairness.EQUAL)
    _, first_come = served("S3", FirstCome())
    assert min(equal.values()) > max(0.74, min(shares.values()))
    assert goodput > 4 * first_come


def test_the_bound_is_above_the_scheduler_and_not_far():
    arrivals = three.arrivals("S3", 33, 6.0)
    bound = clairvoyant_bound(arrivals, three.contracts(), three.WORTH_S, duration_s=6.0)
    batched = clairvoyant_bound(arrivals, three.contracts(), three.WORTH_S, duration_s=6.0, batching=True)
    result = simulate(arrivals, DeviceScheduler(three.contracts()), SimulatedDevice(three.COSTS, seed=33))
    assert batched.goodput >= bound.goodput
    assert 0.8 * bound.goodput < result.goodput(three.WORTH_S, 6.0) <= batched.goodput


def test_the_bound_of_a_small_case_matches_a_hand_calculation():
    tenants = [(Contract("a", 0.015), encoder())]
    bound = clairvoyant_bound([Arrival(0.0, "a"), Arrival(0.0, "a")], tenants, {"a": 0.01}, duration_s=1.0)
    assert bound.attainment == {"a": pytest.approx(0.75)}
    assert bound.goodput == pytest.approx(0.015)


def test_a_device_that_changes_its_speed_is_followed():
    tenants = [(Contract("a", 0.05), encoder(chunks=4, each_s=0.0025))]
    device = SimulatedDevice({"a": tenants[0][1]}, noise=0.05, modes=SpeedModes((2.0,)), seed=1)
    scheduler = DeviceScheduler(tenants)
    result = simulate(poisson({"a": 40.0}, 5.0, seed=1), scheduler, device)
    assert scheduler.speed == pytest.approx(2.0, rel=0.15)
    assert result.attainment()["a"] > 0.6


def test_a_recorded_speed_is_replayed():
    costs = encoder(chunks=1, each_s=0.01)
    device = SimulatedDevice({"a": costs}, noise=0.0, trace=SpeedTrace([0.0, 1.0], [1.0, 3.0]))
    arrivals = [Arrival(0.5, "a"), Arrival(1.5, "a")]
    result = simulate(arrivals, DeviceScheduler([(Contract("a", 0.5), costs)]), device)
    assert [outcome.latency_s for outcome in result.outcomes] == pytest.approx([0.01, 0.03])


def test_a_chunk_takes_longer_by_the_part_of_it_that_ran_slowly():
    trace = SpeedTrace([0.0, 1.0, 1.5], [1.0, math.inf, 2.0])
    assert trace.end(0.5, 0.4) == pytest.approx(0.9)
    assert trace.end(0.5, 0.5) == pytest.approx(1.0)
    assert trace.end(0.9, 0.2) == pytest.approx(1.7)
    assert trace.work_s(2.0) == pytest.approx(1.25)
    with pytest.raises(SchedulingError, match="for ever"):
        SpeedTrace([0.0, 1.0], [1.0, math.inf])


def test_the_bound_knows_what_the_device_could_do():
    tenants = [(Contract("a", 0.02), encoder())]
    arrivals = [Arrival(0.0, "a")]
    slow = SpeedTrace([0.0], [4.0])
    bound = clairvoyant_bound(arrivals, tenants, {"a": 0.01}, duration_s=1.0, trace=slow)
    assert bound.attainment == {"a": pytest.approx(0.5)}


@pytest.mark.parametrize("factor", [3.0, 4.0])
def test_a_core_that_is_stolen_in_bursts_serves_what_it_could(factor):
    """A neighbour takes a tenth of the core: bursts must neither idle the device nor cost the well-behaved tenants."""
    parts, idle, attained = [], [], []
    for seed in (31, 32, 33):
        trace = SpeedTrace.bursts(0.6, 0.1, factor, 12.0, seed)
        arrivals = three.arrivals("S2", seed, 10.0)
        device = SimulatedDevice(three.COSTS, trace=trace, seed=seed)
        result = simulate(arrivals, DeviceScheduler(three.contracts()), device)
        bound = clairvoyant_bound(arrivals, three.contracts(), three.WORTH_S, duration_s=10.0, trace=trace)
        parts.append(result.goodput(three.WORTH_S, 10.0) / bound.goodput)
        idle.append(1 - result.busy_s / result.duration_s)
        attained.append(result.attainment()["gpt"])
    assert sum(parts) / 3 > 0.88
    assert sum(idle) / 3 < 0.1
    assert sum(attained) / 3 > 0.7


def test_the_queue_hides_message_delays():
    scheduler = DeviceScheduler(three.contracts())
    arrivals = three.arrivals("S3", 34, 5.0)
    result = simulate(arrivals, scheduler, SimulatedDevice(three.COSTS, seed=34), delay_s=0.0003)
    assert result.replaced > 0
    assert result.late > 0
    assert scheduler.unanswered == 0
