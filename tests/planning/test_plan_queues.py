"""Queues of a mix: alone like any queue; beside others slowed down by the active ones."""

import numpy as np
import pytest

from cotenant.planning.mixes.queues import latencies


def alone(active):
    return [1.0, 1.0]


def halved(active):
    return [0.5, 0.5] if active == 3 else [1.0, 1.0]


def test_requests_of_one_tenant_wait_for_each_other():
    found = latencies([np.array([0.0, 0.1, 5.0])], [np.array([1.0, 1.0, 0.5])], alone)
    assert found[0] == pytest.approx([1.0, 1.9, 0.5])


def test_a_neighbour_slows_only_while_it_is_active():
    found = latencies([np.array([0.0]), np.array([0.5])], [np.array([1.0]), np.array([0.2])], halved)
    # Half is done at 0.5; both run at half speed until the short one ends at 0.9; 0.3 remain at full speed.
    assert found[1] == pytest.approx([0.4])
    assert found[0] == pytest.approx([1.2])


def test_a_tenant_without_requests_has_no_latencies():
    found = latencies([np.array([1.0]), np.empty(0)], [np.array([0.25]), np.empty(0)], alone)
    assert found[0] == pytest.approx([0.25])
    assert found[1].size == 0


def test_a_single_queue_agrees_with_the_closed_form_of_its_mean_wait():
    random = np.random.default_rng(3)
    due = np.cumsum(random.exponential(1 / 0.7, 20_000))
    found = latencies([due], [np.ones(due.size)], lambda active: [1.0])[0]
    # Pollaczek and Khinchine: constant service of 1 at a load of 0.7.
    assert found.mean() == pytest.approx(1 + 0.7 / (2 * 0.3), rel=0.1)
