"""Queues of a mix: alone like any queue; beside others slowed down by the active ones."""

import numpy as np
import pytest

from cotenant.planning.mixes.queues import Queue, latencies


def alone(active):
    return [1.0, 1.0]


def halved(active):
    return [0.5, 0.5] if active == 3 else [1.0, 1.0]


def test_requests_of_one_tenant_wait_for_each_other():
    found = latencies([Queue(np.array([0.0, 0.1, 5.0]), np.array([1.0, 1.0, 0.5]))], alone)
    assert found[0] == pytest.approx([1.0, 1.9, 0.5])


def test_a_neighbour_slows_only_while_it_is_active():
    found = latencies([Queue(np.array([0.0]), np.array([1.0])), Queue(np.array([0.5]), np.array([0.2]))], halved)
    # Half is done at 0.5; both run at half speed until the short one ends at 0.9; 0.3 remain at full speed.
    assert found[1] == pytest.approx([0.4])
    assert found[0] == pytest.approx([1.2])


def test_a_tenant_without_requests_has_no_latencies():
    found = latencies([Queue(np.array([1.0]), np.array([0.25])), Queue(np.empty(0), np.empty(0))], alone)
    assert found[0] == pytest.approx([0.25])
    assert found[1].size == 0


def test_a_single_queue_agrees_with_the_closed_form_of_its_mean_wait():
    random = np.random.default_rng(3)
    due = np.cumsum(random.exponential(1 / 0.7, 20_000))
    found = latencies([Queue(due, np.ones(due.size))], lambda active: [1.0])[0]
    # Pollaczek and Khinchine: constant service of 1 at a load of 0.7.
    assert found.mean() == pytest.approx(1 + 0.7 / (2 * 0.3), rel=0.1)


def test_requests_that_wait_are_served_together_and_none_waits_for_a_batch_to_fill():
    due = np.array([0.0, 0.1, 0.2, 0.3])
    found = latencies([Queue(due, np.ones(4), growth=(1.0, 1.5))], lambda active: [1.0])[0]
    # One starts at once; the next two run together until 2.5; the last one follows alone.
    assert due + found == pytest.approx([1.0, 2.5, 2.5, 3.5])


def test_a_request_after_a_pause_takes_its_own_time():
    due = np.array([0.0, 0.1, 9.0])
    found = latencies([Queue(due, np.ones(3), after_pause_s=np.full(3, 3.0))], lambda active: [1.0])[0]
    assert due + found == pytest.approx([3.0, 4.0, 12.0])
