"""Waiting for a point in time."""

import time

from cotenant.measure.pacing import MARGIN_MAX_NS, MARGIN_MIN_NS, sharpen_timer, spin_margin_ns, wait_until


def test_waiting_never_returns_early_and_returns_the_time():
    for delay_ns in (0, 50_000, 3_000_000):
        due = time.monotonic_ns() + delay_ns
        seen = wait_until(due, margin_ns=100_000)
        assert due <= seen <= time.monotonic_ns()


def test_a_time_that_has_passed_is_not_waited_for():
    due = time.monotonic_ns() - 10**9
    assert wait_until(due, margin_ns=100_000) > due


def test_the_spin_margin_is_what_this_machine_needs_within_bounds():
    sharpen_timer()
    assert MARGIN_MIN_NS <= spin_margin_ns() <= MARGIN_MAX_NS
