"""The same tenants get the same numbers from every verb, or numbers whose printed ranges overlap."""

import pytest

from tests.agreement.answers import FILES, disagreements, known

QUICK = ("pair-t4", "mps-shares", "keys-of-every-verb", "cpu-pair")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in FILES])
def test_verbs_contradict_each_other_only_where_it_is_known(name):
    """A new contradiction is a defect; one that is gone is deleted from known.txt, which never grows."""
    assert disagreements(FILES[name]) == known()[name]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("name", ["at-once", "group-of-three", "mps-shares", "pair-encoders", "pair-t4"])
def test_verbs_agree_whatever_the_seed(name, seed):
    assert disagreements(FILES[name], seed) == known()[name]
