"""Fleets by name."""

import pytest

from cotenant.devices.simulated.simulated_gpu import parse
from cotenant.errors import DeviceError
from cotenant.prediction.power.dies import TYPICAL, draw_die


def test_a_plain_name_is_one_typical_gpu():
    named = parse("sim:v100-sxm2-16gb")
    assert (named.count, named.index, named.members()) == (None, None, ("v100-sxm2-16gb",))
    assert named.die() is TYPICAL


def test_a_star_makes_a_fleet_of_numbered_members():
    named = parse("sim:v100-sxm2-16gb*392")
    assert named.count == 392
    assert named.members()[17] == "v100-sxm2-16gb#17"


def test_a_member_is_the_same_die_as_in_its_fleet():
    named = parse(parse("v100-sxm2-16gb*392").members()[17])
    assert named.die() == draw_die(named.gpu, 17)
    assert named.die(seed=1) != named.die()


@pytest.mark.parametrize("name", ["v100-sxm2-16gb*", "v100-sxm2-16gb*-3", "v100-sxm2-16gb*0", "v100*2*3", "", "v1oo*3"])
def test_invalid_names_are_refused_with_a_hint(name):
    with pytest.raises(DeviceError) as refused:
        parse(name)
    assert refused.value.hint
