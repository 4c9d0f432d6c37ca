"""Arrival schedules are absolute, seeded, and have the rate and burstiness they claim."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.errors import CotenantError
from cotenant.tenancy.load import Load, arrivals_ns
from cotenant.workloads.recorded_arrivals import read_trace


def gaps(load, *, horizon_s=2000.0, seed=7):
    return np.diff(arrivals_ns(load, seed=seed, horizon_s=horizon_s)) / 1e9


def test_the_same_seed_gives_the_same_schedule_and_another_seed_another_one():
    load = Load(kind="poisson", rate_rps=100)
    first, again, other = (arrivals_ns(load, seed=seed, horizon_s=5) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other[: first.size])


def test_a_longer_horizon_only_adds_to_the_schedule():
    load = Load(kind="gamma", rate_rps=50, cv=2)
    short, long = (arrivals_ns(load, seed=1, horizon_s=h) for h in (1, 1.0001))
    assert np.array_equal(short, long[: short.size])


def test_poisson_gaps_have_the_mean_and_spread_of_an_exponential():
    observed = gaps(Load(kind="poisson", rate_rps=50))
    assert np.mean(observed) == pytest.approx(1 / 50, rel=0.02)
    assert np.std(observed) / np.mean(observed) == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("cv", [0.3, 1.0, 3.0])
def test_gamma_gaps_have_the_stated_burstiness(cv):
    observed = gaps(Load(kind="gamma", rate_rps=50, cv=cv))
    assert np.mean(observed) == pytest.approx(1 / 50, rel=0.05)
    assert np.std(observed) / np.mean(observed) == pytest.approx(cv, rel=0.05)


@given(st.floats(0.1, 2000), st.floats(0.05, 3), st.integers(0, 2**60))
@settings(max_examples=60, deadline=None)
def test_every_schedule_is_in_order_and_inside_its_horizon(rate, horizon_s, seed):
    times = arrivals_ns(Load(kind="poisson", rate_rps=rate), seed=seed, horizon_s=horizon_s)
    assert np.all(np.diff(times) >= 0)
    assert times.size == 0 or (times[0] >= 0 and times[-1] < horizon_s * 1e9)


def test_a_trace_is_scaled_to_the_rate_and_repeats(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,what\n100,a\n101,b\n104,c\n")  # 1 per 2 s
    times = arrivals_ns(Load(kind="trace", path=str(path), rate_rps=1.0), seed=0, horizon_s=7)
    assert times / 1e9 == pytest.approx([0, 0.5, 2, 3, 3.5, 5, 6, 6.5])


def test_a_trace_without_a_rate_is_played_as_recorded(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("0\n1\n4\n")
    assert arrivals_ns(Load(kind="trace", path=str(path)), seed=0, horizon_s=5) / 1e9 == pytest.approx([0, 1, 4])


@pytest.mark.parametrize(("seed", "expected"), [(0, [0, 1, 4]), (1, [0, 3, 5]), (2, [0, 2, 3]), (4, [0, 3, 5])])
def test_the_seed_determines_where_in_a_trace_to_begin(tmp_path, seed, expected):
    path = tmp_path / "trace.csv"
    path.write_text("10\n11\n14\n")
    times = arrivals_ns(Load(kind="trace", path=str(path)), seed=seed, horizon_s=5.5)
    assert times / 1e9 == pytest.approx(expected)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "at least two arrival times"),
        ("1\n", "at least two arrival times"),
        ("3\n2\n", "in order"),
        ("arrival_s\n1\nrubbish\n", "no arrival time in line 3"),
        ("# recorded today\n\narrival_s\n1\nrubbish\n", "no arrival time in line 5"),
        (f'0\n"{"x" * 200_000}"\n', "can't be read"),
        ("1\n1\n", "not all the same"),
        ("1\nnan\n", "at least two arrival times"),
    ],
)
def test_an_invalid_trace_is_refused_in_a_sentence(tmp_path, content, complaint):
    path = tmp_path / "trace.csv"
    path.write_text(content)
    with pytest.raises(CotenantError, match=complaint):
        read_trace(path)


@pytest.mark.parametrize("content", ["\ufeffarrival_s\n1\n3\n", "name, arrival_s\na, 1\nb, 3\n", "# 2 of them\n1\n3\n"])
def test_traces_written_by_spreadsheets_are_read(tmp_path, content):
    path = tmp_path / "trace.csv"
    path.write_text(content, encoding="utf-8")
    assert list(read_trace(path).times_s) == [1, 3]


@pytest.mark.parametrize("load", ["poisson(1e12)", "gamma(1e12, 2)", "trace({path})", "trace({path}, 1e12)"])
def test_more_requests_than_a_trial_can_hold_are_refused_before_memory_is_taken(tmp_path, load):
    path = tmp_path / "trace.csv"
    path.write_text("0\n1e-12\n")
    with pytest.raises(CotenantError, match="requests in one trial; at most 10,000,000 are sent"):
        arrivals_ns(Load.model_validate(load.format(path=path)), seed=0, horizon_s=2)


@pytest.mark.parametrize(("cv", "named"), [(1, "poisson"), (2, "gamma")])
def test_random_arrivals_that_are_too_many_are_named_as_people_write_them(cv, named):
    with pytest.raises(CotenantError, match=rf"^{named}\(1"):
        arrivals_ns(Load(kind="gamma", rate_rps=1e12, cv=cv), seed=0, horizon_s=2)


def test_a_missing_or_binary_trace_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    for name in ("absent.csv", "binary.csv"):
        with pytest.raises(CotenantError, match="can't be read"):
            read_trace(tmp_path / name)
