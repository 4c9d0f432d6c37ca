"""What sharings need stands while tenants live on it: never set up or put back under a living tenant."""

import pytest

from cotenant.errors import SharingUnavailable
from cotenant.measure.tenants.fixtures import Fixtures


class Fixture:
    def __init__(self, name, told, *, alone=False, fails=False):
        self.name, self.alone, self._told, self._fails, self.up = name, alone, told, fails, False

    def __enter__(self):
        if self._fails:
            raise SharingUnavailable(f"{self.name} can't be had")
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


def test_it_is_set_up_once_and_put_back_after_its_tenants(fixtures, told):
    daemon = Fixture("daemon", told)
    for _ in range(3):
        fixtures.set_up(daemon)
    fixtures.set_up(None)  # tenants without a need may run beside a daemon
    assert told == ["+daemon"]
    fixtures.close()
    assert told == ["+daemon", "end tenants", "-daemon"]


def test_one_that_wants_the_device_for_itself_comes_after_all_others_have_gone(fixtures, told):
    daemon, partition = Fixture("daemon", told), Fixture("partition", told, alone=True)
    fixtures.set_up(daemon)
    fixtures.set_up(partition)
    assert told == ["+daemon", "end tenants", "-daemon", "+partition"]
    fixtures.set_up(partition)
    assert told[-1] == "+partition"


@pytest.mark.parametrize("next_one", ["nothing", "daemon"])
def test_and_goes_before_anything_else_comes(fixtures, told, next_one):
    partition = Fixture("partition", told, alone=True)
    fixtures.set_up(partition)
    fixtures.set_up(None if next_one == "nothing" else Fixture("daemon", told))
    assert told[:2] == ["end tenants", "+partition"]  # tenants without a need were in its way
    assert told[2:4] == ["end tenants", "-partition"]


def test_one_that_fell_is_set_up_again_with_fresh_tenants(fixtures, told):
    daemon = Fixture("daemon", told)
    fixtures.set_up(daemon)
    daemon.up = False
    fixtures.set_up(daemon)
    assert told == ["+daemon", "end tenants", "-daemon", "+daemon"]


def test_one_that_can_not_be_had_leaves_the_others_to_be_put_back(fixtures, told):
    fixtures.set_up(Fixture("daemon", told))
    with pytest.raises(SharingUnavailable):
        fixtures.set_up(Fixture("partition", told, fails=True))
    fixtures.close()
    assert told == ["+daemon", "end tenants", "-daemon"]
