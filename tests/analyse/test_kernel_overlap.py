"""Kernels by tenant and overlap: interval arithmetic that can be checked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.analyse.kernel_overlap import (
    OverlapWindow,
    binned,
    excerpt_of,
    kernels_by_tenant,
    merged,
    overlaps,
    profile_of,
    window_of,
)


def table(*rows):
    tenants, names, devices, starts, durations = zip(*rows, strict=True)
    return {
        "tenant": np.array(tenants, dtype=object),
        "name": np.array(names, dtype=object),
        "device": np.array(devices, dtype=object),
        "start_ns": np.array(starts, np.int64),
        "duration_ns": np.array(durations, np.int64),
    }


A_AND_B = table(
    ("a", "gemm", "GPU 0", 0, 40),
    ("a", "gemm", "GPU 0", 50, 20),
    ("a", "relu", "GPU 0", 80, 10),
    ("b", "conv", "GPU 0", 30, 30),
    ("b", "[CUDA memcpy HtoD]", "GPU 0", 70, 30),
)
WINDOW = OverlapWindow(0, 100)


def test_kernels_that_take_most_time_come_first():
    first, second = kernels_by_tenant(A_AND_B, WINDOW)
    assert (first.tenant, first.launches, first.running_share) == ("a", 3, 0.7)
    assert [(one.name, one.launches, one.total_ms, one.share) for one in first.top] == [
        ("gemm", 2, pytest.approx(60e-6), pytest.approx(6 / 7)),
        ("relu", 1, pytest.approx(10e-6), pytest.approx(1 / 7)),
    ]
    assert (second.running_share, second.copying_share) == (0.3, 0.3)


def test_overlap_is_the_time_in_which_both_run_and_copies_do_not_count():
    [both] = overlaps(A_AND_B, WINDOW)
    # 30-40 and 50-60; the copy beside a's relu is not a kernel.
    assert both.share == pytest.approx(0.2)
    assert both.share_of_one == pytest.approx(20 / 70)
    assert both.share_of_other == pytest.approx(20 / 30)


def test_kernels_on_two_devices_never_overlap():
    apart = table(("a", "gemm", "GPU 0", 0, 100), ("b", "gemm", "GPU 1", 0, 100))
    [both] = overlaps(apart, WINDOW)
    assert both.share == 0


def test_only_the_part_within_the_window_counts():
    long = table(("a", "gemm", "GPU 0", -50, 100), ("a", "late", "GPU 0", 200, 10))
    [tenant] = kernels_by_tenant(long, WINDOW)
    assert (tenant.launches, tenant.running_share) == (1, 0.5)


def test_kernels_beyond_the_top_are_counted():
    many = table(*[("a", f"k{n}", "GPU 0", n * 10, 10 - n) for n in range(8)])
    [tenant] = kernels_by_tenant(many, WINDOW, top=3)
    assert [one.name for one in tenant.top] == ["k0", "k1", "k2"]
    assert tenant.others == 5


def test_streams_of_one_tenant_are_not_added_up():
    streams = table(("a", "x", "GPU 0", 0, 50), ("a", "y", "GPU 0", 10, 50))
    assert kernels_by_tenant(streams, WINDOW)[0].running_share == pytest.approx(0.6)
    assert window_of(streams) == OverlapWindow(0, 60)


def test_a_timeline_is_means_over_equal_parts():
    parts = binned(np.array([5, 15, 16, 95]), np.array([1.0, 2.0, 4.0, 8.0]), WINDOW, 10)
    assert parts[[0, 1, 9]].tolist() == [1, 3, 8]
    assert np.isnan(parts[2])


def test_counters_without_kernels_are_a_profile_too():
    t = np.arange(0, 100, 10)
    profile = profile_of({}, [("GPU 0", "sm_active", "share", t, np.full(10, 0.5))], mix="m", sharing="mps")
    assert profile.tenants == ()
    assert profile.activity[0].mean == pytest.approx(0.5)


intervals = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 30)), min_size=1, max_size=20)


@given(intervals, intervals)
def test_overlap_agrees_with_counting_moments(one, other):
    kernels = table(*[("a", "k", "d", s, d) for s, d in one], *[("b", "k", "d", s, d) for s, d in other])
    moments = [{t for s, d in each for t in range(s, s + d)} for each in (one, other)]
    window = OverlapWindow(0, 240)
    [both] = overlaps(kernels, window)
    assert both.share == pytest.approx(len(moments[0] & moments[1]) / 240)
    by_name = {tenant.tenant: tenant for tenant in kernels_by_tenant(kernels, window)}
    assert by_name["a"].running_share == pytest.approx(len(moments[0]) / 240)


@given(intervals)
def test_merged_intervals_are_apart_and_in_order(rows):
    starts, ends = merged(np.array([s for s, _ in rows]), np.array([s + d for s, d in rows]))
    assert (starts < ends).all()
    assert (starts[1:] > ends[:-1]).all()


def test_an_excerpt_is_the_middle_at_a_visible_resolution():
    many = table(*[("a", "k", "d", n * 1000, 500) for n in range(1000)])
    excerpt = excerpt_of(many, OverlapWindow(0, 1_000_000), most=100)
    assert excerpt.start_s == pytest.approx(450e-6)
    assert excerpt.length_ms == pytest.approx(0.1)
    assert len(excerpt.launches) == 100
    assert excerpt.launches[0].start_us == 0
    assert excerpt.launches[0].duration_us == 0.5


def test_a_third_tenants_device_is_not_theirs():
    three = table(("a", "k", "GPU 0", 0, 60), ("b", "k", "GPU 0", 40, 60), ("c", "k", "GPU 1", 0, 50))
    found = {(pair.one, pair.other): pair for pair in overlaps(three, WINDOW)}
    assert found["a", "b"].share == pytest.approx(0.2)
    assert found["a", "c"].share == 0.0
    both = table(("a", "k", "GPU 0", 0, 60), ("a", "k", "GPU 1", 0, 60), ("b", "k", "GPU 1", 30, 40))
    (pair,) = overlaps(both, WINDOW)
    assert (pair.share, pair.share_of_one, pair.share_of_other) == (
        pytest.approx(30 / 200),
        pytest.approx(30 / 120),
        pytest.approx(30 / 40),
    )
    without = {column: values for column, values in both.items() if column != "device"}
    assert overlaps(without, WINDOW)[0].share_of_other == pytest.approx(30 / 40)


def test_a_profile_has_kernels_counters_and_an_excerpt():
    times = np.arange(0, 200, 5)
    readings = [
        ("GPU 0", "sm", "%", times, np.where(times < 50, 10.0, 30.0)),
        ("GPU 0", "old", "%", times - 900, times * 1.0),
    ]
    found = profile_of(A_AND_B, readings, mix="a+b", sharing="mps", window=WINDOW, top=1)
    assert (found.mix, found.sharing, found.window_s, found.kernels) == ("a+b", "mps", pytest.approx(100e-9), 5)
    assert [(tenant.tenant, len(tenant.top), tenant.others) for tenant in found.tenants] == [("a", 1, 1), ("b", 1, 1)]
    assert found.tenants[0].top[0].mean_us == pytest.approx(0.03)
    (activity,) = found.activity
    assert (activity.sensor, activity.highest, len(activity.timeline)) == ("sm", 30.0, 40)
    assert activity.mean == pytest.approx(20.0)
    assert found.excerpt.length_ms == pytest.approx(100e-6)
    late = profile_of(A_AND_B, [], mix="m", sharing="s", window=OverlapWindow(75, 100))
    assert late.kernels == 2
    assert profile_of(A_AND_B, [], mix="m", sharing="s").window_s == pytest.approx(100e-9)
    only = profile_of({}, readings[:1], mix="m", sharing="s")
    assert (only.window_s, only.kernels, only.tenants, only.excerpt) == (pytest.approx(195e-9), 0, (), None)


def test_the_excerpt_is_centred_and_its_launches_are_clipped_and_in_order():
    rows = [("a", f"k{number}", "GPU 0", 10 * number, 8) for number in range(100)]
    found = excerpt_of(table(*rows[::-1]), OverlapWindow(0, 1000), most=10)
    assert (found.start_s, found.length_ms) == (pytest.approx(450e-9), pytest.approx(100e-6))
    assert [launch.name for launch in found.launches] == [f"k{number}" for number in range(45, 55)]
    assert [launch.start_us for launch in found.launches[:2]] == pytest.approx([0.0, 0.01])
    assert {round(launch.duration_us, 6) for launch in found.launches} == {0.008}
    burst = table(*[("a", "k", "GPU 0", 500, 10)] * 90, *rows[:10])
    assert len(excerpt_of(burst, OverlapWindow(0, 1000), most=10).launches) == 20
    assert excerpt_of(table(("a", "k", "GPU 0", 0, 5)), OverlapWindow(50, 60)).launches == ()
