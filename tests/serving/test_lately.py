"""The last minutes of a tenant: true to the window at any rate, with bounded memory."""

import random

import pytest

from cotenant.serving.measures import SLOT_S, SLOTS, Lately


def filled(rate: int, seconds: int, latency=lambda: 0.02):
    lately = Lately()
    for number in range(rate * seconds):
        lately.add(number / rate, latency(), 0.001, met=True, why=None)
    return lately


def test_the_rate_is_that_of_the_window_however_many_requests_there_were():
    lately = filled(rate=500, seconds=100)
    for length in (60.0, 900.0):
        window = lately.window(99.999, length)
        assert window.requests / min(window.seconds, 100) == pytest.approx(500, rel=0.01)
        assert window.device_s / min(window.seconds, 100) == pytest.approx(0.5, rel=0.01)


def test_what_is_older_than_the_window_does_not_count():
    lately = filled(rate=1, seconds=30)
    assert lately.window(30.0 + 60.0, 60.0).requests == 0
    assert lately.window(30.0 + 60.0, 900.0).requests == 30
    assert lately.window(30.0 + 900.0, 900.0).attainment is None


def test_quantiles_are_exact_to_two_percent():
    draw = random.Random(1)
    times = [draw.lognormvariate(-4, 1) for _ in range(5000)]
    lately = filled(rate=100, seconds=50, latency=iter(times).__next__)
    window = lately.window(50.0, 900.0)
    times.sort()
    for share, found in ((0.5, window.p50_ms), (0.9, window.p90_ms), (0.99, window.p99_ms)):
        assert found == pytest.approx(1e3 * times[int(share * len(times))], rel=0.021)


def test_no_p99_from_fewer_than_299_requests():
    assert filled(rate=10, seconds=29).window(29.0, 900.0).p99_ms is None
    assert filled(rate=10, seconds=30).window(30.0, 900.0).p99_ms is not None


def test_refused_requests_count_as_not_in_time_and_have_no_latency():
    lately = Lately()
    lately.add(1.0, 0.0, 0.0, met=False, why="no room")
    lately.add(2.0, 0.02, 0.01, met=True, why=None)
    window = lately.window(3.0, 60.0)
    assert (window.attainment, window.shed) == (0.5, {"no room": 1})
    assert window.p50_ms == pytest.approx(20, rel=0.021)
    assert lately.counts(3.0)[-1] == (2, 1)


def test_memory_is_bounded_and_gaps_are_empty_slots():
    lately = filled(rate=2, seconds=3000)
    assert len(lately._slots) == SLOTS
    counts = lately.counts(2999.9 + 5 * SLOT_S)
    assert len(counts) == SLOTS
    assert counts[-5:] == [(0, 0)] * 5
    assert counts[0] == (20, 20)
