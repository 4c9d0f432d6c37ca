import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.analyse.sharing.capacity import find_capacity


def server(capacity):
    return lambda rate: "met" if rate <= capacity else "missed"


@given(st.floats(1, 10_000), st.floats(1, 10_000))
def test_the_capacity_is_enclosed_as_closely_as_asked_wherever_the_search_starts(capacity, start):
    found = find_capacity(server(capacity), start_rps=start, precision=0.05, most_probes=60)
    assert found.precise
    assert found.met_rps <= capacity < found.missed_rps <= found.met_rps * 1.05


def test_the_search_is_short():
    assert len(find_capacity(server(100), start_rps=50).probes) <= 8


def test_a_server_that_never_meets_it():
    found = find_capacity(lambda rate: "missed", start_rps=100, most_probes=8)
    assert (found.met_rps, found.precise) == (None, False)
    assert found.missed_rps == 100 / 2**7


def test_a_server_without_limit():
    found = find_capacity(lambda rate: "met", start_rps=1, most_probes=8)
    assert (found.met_rps, found.missed_rps, found.precise) == (2**7, None, False)


def test_an_unstable_answer_is_asked_again():
    answers = iter(["met", "unstable", "met", "missed", "missed", "missed", "missed", "missed", "missed", "missed"])
    found = find_capacity(lambda rate: next(answers), start_rps=10)
    assert [probe.rate_rps for probe in found.probes[:4]] == [10, 20, 20, 40]
    assert found.met_rps >= 20


def test_a_rate_that_stays_unstable_is_not_promised():
    found = find_capacity(lambda rate: "met" if rate < 80 else "unstable", start_rps=10)
    assert found.met_rps < 80
    assert not found.precise


def test_the_budget_of_probes_is_kept():
    rng = np.random.default_rng(0)
    found = find_capacity(lambda rate: str(rng.choice(["met", "missed", "unstable"])), start_rps=10, most_probes=7)
    assert len(found.probes) <= 7


def test_a_start_that_is_none():
    with pytest.raises(ValueError, match="above 0"):
        find_capacity(server(1), start_rps=0)
