"""Formatting of numbers."""

import pytest

from cotenant.tenancy.interval import Estimate
from cotenant.text import duration, figure, in_time, listed, milliseconds, percent, ratio, size, with_interval


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1.2345, "1.23"), (12.345, "12.3"), (1234.5, "1,234"), (0.012345, "0.0123"), (float("inf"), "∞")],
)
def test_three_significant_digits(value, text):
    assert figure(value) == text


def test_rounding_up_keeps_the_digits():
    assert figure(9.999) == "10.0"
    assert figure(0.9996) == "1.00"


def test_the_interval_follows_the_estimate():
    assert with_interval(Estimate(1.62, 1.58, 1.671, 8, "bootstrap"), ratio) == "1.62 [1.58, 1.67]"
    assert with_interval(Estimate(1.62, None, None, 1, "one block"), ratio) == "1.62 [?]"


def test_durations_and_sizes_have_units():
    assert [duration(s) for s in (0.4, 59, 60, 95, 7800)] == ["400 ms", "59 s", "1 min", "1 min 35 s", "2 h 10 min"]
    assert size(1536 * 1024**2) == "1.50 GiB"
    assert percent(0.0312) == "3.1 %"


@pytest.mark.parametrize(
    ("value", "text"),
    [(30.0, "30 ms"), (2.5, "2.5 ms"), (13.2049, "13.2 ms"), (1670.4, "1,670 ms"), (3000.0, "3 s"), (0.0, "0 ms")],
)
def test_latencies_read_as_people_write_them(value, text):
    assert milliseconds(value) == text


def test_names_are_listed_with_one_and():
    assert [listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.5, "50 %"),
        (0.946, "94.6 %"),
        (0.95, "95 %"),
        (0.987, "98.7 %"),
        (0.99, "99 %"),
        (0.99996, "99.99 %"),
        (1, "100 %"),
    ],
)
def test_a_share_in_time_never_reads_as_more_than_it_is(share, said):
    assert in_time(share) == said
