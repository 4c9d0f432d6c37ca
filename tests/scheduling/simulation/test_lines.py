"""Lines of a mix: alone like any queue; beside others slowed down by the busy ones; tails with honest intervals."""

import numpy as np
import pytest

from benchmarks.queues import QUEUES, coverage, exact_quantile
from benchmarks.serving.baselines import FirstCome
from cotenant.scheduling import BatchCurve, Contract, DeviceScheduler, Settings, TenantCosts, chunk_cost
from cotenant.scheduling.simulation import Arrival, SimulatedDevice, simulate
from cotenant.scheduling.simulation.lines import NEVER, Line, latencies, tail_of

HALVED = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.5, 0.5]])
"""Speeds by busy tenants: none, the first, the second, both."""


def test_requests_of_one_tenant_wait_for_each_other():
    found = latencies([Line(np.array([0.0, 0.1, 5.0]), np.array([1.0, 1.0, 0.5]))])
    assert found[0] == pytest.approx([1.0, 1.9, 0.5])


def test_a_neighbour_slows_only_while_it_is_active():
    found = latencies([Line(np.array([0.0]), np.array([1.0])), Line(np.array([0.5]), np.array([0.2]))], HALVED)
    # Half is done at 0.5; both run at half speed until the short one ends at 0.9; 0.3 remain at full speed.
    assert found[1] == pytest.approx([0.4])
    assert found[0] == pytest.approx([1.2])


def test_a_tenant_without_requests_has_no_latencies():
    found = latencies([Line(np.array([1.0]), np.array([0.25])), Line(np.empty(0), np.empty(0))])
    assert found[0] == pytest.approx([0.25])
    assert found[1].size == 0


def test_a_single_queue_agrees_with_the_closed_form_of_its_mean_wait():
    random = np.random.default_rng(3)
    due = np.cumsum(random.exponential(1 / 0.7, 20_000))
    found = latencies([Line(due, np.ones(due.size))])[0]
    # Pollaczek and Khinchine: constant service of 1 at a load of 0.7.
    assert found.mean() == pytest.approx(1 + 0.7 / (2 * 0.3), rel=0.1)


def test_requests_that_wait_are_served_together_and_none_waits_for_a_batch_to_fill():
    due = np.array([0.0, 0.1, 0.2, 0.3])
    found = latencies([Line(due, np.ones(4), growth=(1.0, 1.5))])[0]
    # One starts at once; the next two run together until 2.5; the last one follows alone.
    assert due + found == pytest.approx([1.0, 2.5, 2.5, 3.5])


def test_a_request_after_a_pause_takes_its_own_time():
    due = np.array([0.0, 0.1, 9.0])
    found = latencies([Line(due, np.ones(3), after_pause_s=np.full(3, 3.0))])[0]
    assert due + found == pytest.approx([3.0, 4.0, 12.0])


def scheduled(due, largest=1, policy=None):
    """The same requests through the scheduler that serves, which sheds none of them."""
    costs = TenantCosts(
        (chunk_cost(1.0),), BatchCurve(tuple(np.linspace(1.0, 2.0, largest)) if largest > 1 else (1.0,))
    )
    patient = Contract("t", 1e6, hard=False)
    scheduler = DeviceScheduler([(patient, costs)], Settings(backlog=1e9), policy)
    found = simulate([Arrival(float(time), "t") for time in due], scheduler, SimulatedDevice({"t": costs}, noise=0.0))
    return np.array([one.latency_s for one in found.outcomes])


@pytest.mark.parametrize(("largest", "policy"), [(1, None), (1, FirstCome()), (4, None)])
def test_a_line_is_what_the_scheduler_makes_of_a_single_tenant(largest, policy):
    due = np.cumsum(np.random.default_rng(2).exponential(1 / (0.6 * largest**0.5), 400))
    growth = np.linspace(1.0, 2.0, largest).tolist() if largest > 1 else (1.0,)
    (found,) = latencies([Line(due, np.ones(1), growth=growth)])
    assert scheduled(due, largest, policy) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("queue", QUEUES)
def test_the_exact_quantile_is_that_of_a_long_queue(queue):
    random = np.random.default_rng(4)
    due = np.cumsum(random.exponential(1 / 0.5, 2_000_000))
    (found,) = latencies([Line(due, QUEUES[queue].drawn(random, due.size))])
    assert exact_quantile(queue, 0.5) == pytest.approx(np.quantile(found[10_000:], 0.99), rel=0.02)


@pytest.mark.parametrize("load", [0.3, 0.9])
def test_the_exact_quantile_of_exponential_service_is_that_of_the_formula(load):
    assert exact_quantile("M/M/1", load) == pytest.approx(-np.log(0.01) / (1 - load), rel=1e-4)


@pytest.mark.parametrize("queue", QUEUES)
def test_the_interval_of_a_p99_holds_and_is_no_wider_than_its_error_demands(queue):
    found = [coverage(queue, load, seeds=200) for load in (0.3, 0.8)]
    assert np.mean([figures.holds for figures in found]) >= 0.85
    assert np.mean([figures.half_over_error for figures in found]) <= 2.6


def test_a_few_percent_more_service_time_is_far_more_waiting_where_the_load_is_high():
    def p99(service_s):
        def due(seed):
            return np.cumsum(np.random.default_rng(seed).exponential(1 / 0.85, 20_000))

        return tail_of(due, lambda _: np.array([service_s])).quantile(0.99)[1]

    assert p99(1.1) > 1.3 * p99(1.0)


def test_a_queue_that_grows_without_end_has_no_finite_quantile():
    assert NEVER.quantile(0.99) == (np.inf, np.inf, np.inf)
    assert NEVER.within(1.0) == 0.0
