"""Fixtures stay up while tenants use them: never set up or torn down under a running tenant."""

import pytest

from cotenant.errors import SharingUnavailable
from cotenant.measure.tenants.sequence import Fixtures


class Fixture:
    def __init__(self, name, told, *, alone=False, fails=False):
        self.name, self.alone, self._told, self._fails, self.up = name, alone, told, fails, False

    def __enter__(self):
        if self._fails:
            raise SharingUnavailable(f"{self.name} is unavailable")
        self.up = True
        self._told.append(f"+{self.name}")
        return self

    def __exit__(self, *exc):
        self.up = False
        self._told.append(f"-{self.name}")

    def stands(self):
        return self.up


@pytest.fixture
def told():
    return []


@pytest.fixture
def fixtures(told):
    return Fixtures(end_tenants=lambda: told.append("end tenants"))


def test_it_is_set_up_once_and_torn_down_after_its_tenants(fixtures, told):
    daemon = Fixture("daemon", told)
    for _ in range(3):
        fixtures.set_up(daemon)
    fixtures.set_up(None)  # tenants without a fixture may run beside a daemon
    assert told == ["+daemon"]
    fixtures.close()
    assert told == ["+daemon", "end tenants", "-daemon"]


def test_an_exclusive_fixture_is_set_up_after_all_others_are_gone(fixtures, told):
    daemon, partition = Fixture("daemon", told), Fixture("partition", told, alone=True)
    fixtures.set_up(daemon)
    fixtures.set_up(partition)
    assert told == ["+daemon", "end tenants", "-daemon", "+partition"]
    fixtures.set_up(partition)
    assert told[-1] == "+partition"


@pytest.mark.parametrize("next_one", ["nothing", "daemon"])
def test_an_exclusive_fixture_is_torn_down_before_any_other_is_set_up(fixtures, told, next_one):
    partition = Fixture("partition", told, alone=True)
    fixtures.set_up(partition)
    fixtures.set_up(None if next_one == "nothing" else Fixture("daemon", told))
    assert told[:2] == ["end tenants", "+partition"]  # tenants without a fixture were in its way
    assert told[2:4] == ["end tenants", "-partition"]


def test_a_lost_fixture_is_set_up_again_with_new_tenants(fixtures, told):
    daemon = Fixture("daemon", told)
    fixtures.set_up(daemon)
    daemon.up = False
    fixtures.set_up(daemon)
    assert told == ["+daemon", "end tenants", "-daemon", "+daemon"]


def test_an_unavailable_fixture_leaves_the_others_to_be_torn_down(fixtures, told):
    fixtures.set_up(Fixture("daemon", told))
    with pytest.raises(SharingUnavailable):
        fixtures.set_up(Fixture("partition", told, fails=True))
    fixtures.close()
    assert told == ["+daemon", "end tenants", "-daemon"]
