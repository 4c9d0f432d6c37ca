"""An estimate with its interval, and what stands where there is none."""

import pytest

from cotenant.tenancy.interval import Estimate, Missing


@pytest.mark.parametrize(
    ("est", "lo", "hi", "half"),
    [
        (10.0, 9.0, 12.0, 0.15),
        (-10.0, -12.0, -9.0, 0.15),
        (0.0, -1.0, 1.0, None),
        (1.0, None, 2.0, None),
        (1.0, 0.5, None, None),
    ],
)
def test_half_an_interval_is_a_share_of_the_estimate(est, lo, hi, half):
    assert Estimate(est, lo, hi, 3, "").relative_half_width == (None if half is None else pytest.approx(half))


def test_what_is_missing_says_why():
    assert Missing("none", 3).to_json() == {"est": None, "lo": None, "hi": None, "n": 3, "reason": "none"}
    assert Missing("few", 3, 29).to_json()["needs_n"] == 29
    row = {"est": 1.0, "lo": 0.5, "hi": 2.0, "n": 9, "method": "t"}
    assert Estimate(1.0, 0.5, 2.0, 9, "t").to_json() == row
    assert Estimate(1.0, 0.5, 2.0, 9, "t", 29, "few").to_json() == row | {"needs_n": 29, "reason": "few"}
