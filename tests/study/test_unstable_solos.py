"""Solos of a busy machine: stolen time is no idleness."""

import numpy as np
import pytest

from cotenant.prediction.interference.gathered import SoloTenant
from cotenant.prediction.interference.setting import mixes_of
from cotenant.study.prediction_inputs import on_cpu
from cotenant.tenancy.identity import TenantIdentity


def solo(name, *, unstable):
    """Two threads on two cores that ran two fifths of the time: the rest was stolen."""
    return SoloTenant(TenantIdentity(name), name, 10e6, 4e6, None, None, None, threads=2, unstable=unstable)


@pytest.mark.parametrize(("unstable", "slowdown"), [(True, 2.0), (False, 1.0)])
def test_two_threads_each_on_two_cores_slow_each_other_down_even_if_their_solos_were_disturbed(unstable, slowdown):
    found = on_cpu([solo("a", unstable=unstable), solo("b", unstable=unstable)], 2, None)
    logs = found["priors"]["processes"](mixes_of([(0, 1)]))
    assert np.exp(logs[0, 0]) == pytest.approx(slowdown, rel=0.25)
