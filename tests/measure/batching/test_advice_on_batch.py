"""Advice on the batch: the smallest that is as good as the best, always with a reason."""

from cotenant.analyse.batching import Impact, advise
from cotenant.measure.batching.impact import MOST_SIZES, sizes_up_to
from cotenant.tenancy.interval import Estimate


def impact(batch, items, ms, **stages):
    return Impact(batch, Estimate(items, items * 0.98, items * 1.02, 4, "t"), ms, stages or {"forward": ms})


SATURATING = [impact(1, 100, 10), impact(4, 300, 13), impact(16, 390, 41), impact(64, 400, 160)]


def test_a_device_that_is_full_gets_no_larger_batch():
    advice = advise(SATURATING)
    assert advice.batch == 16
    assert advice.reason.startswith("device-bound")


def test_a_latency_goal_takes_precedence_over_throughput():
    advice = advise(SATURATING, latency_goal_ms=20)
    assert advice.batch == 4
    assert advice.reason.startswith("latency goal")


def test_an_unreachable_goal_is_reported():
    advice = advise(SATURATING, latency_goal_ms=5)
    assert advice.batch is None
    assert "the quickest, 1, takes 10 ms" in advice.reason


def test_a_loader_that_cannot_keep_up_is_named():
    slow = [impact(size, 200 + size / 100, size * 5.0, load_data=size * 4.0, inference=size * 1.0) for size in (1, 8)]
    assert advise(slow).reason.startswith("loader-bound: 80 %")


def test_throughput_that_still_grows_is_reported():
    assert advise(SATURATING[:2]).reason.startswith("not yet saturated")


def test_sizes_are_powers_of_two_and_few():
    assert sizes_up_to(9) == (1, 2, 4, 8)
    assert sizes_up_to(10_000)[0] == 1
    assert sizes_up_to(10_000)[-1] == 8192
    assert len(sizes_up_to(10_000)) == MOST_SIZES
