"""On a real GPU, the prior is the simulation calibrated by what tenants took alone there."""

from types import SimpleNamespace

import numpy as np
import pytest

from cotenant.devices.target import TargetDevice
from cotenant.prediction.interference.gathered import Gathered, Learnt, SoloTenant
from cotenant.prediction.interference.setting import mixes_of
from cotenant.study.files import study_from
from cotenant.study.prediction_inputs import asked_of
from cotenant.tenancy.identity import TenantIdentity

BATCHES = {"two": 2, "eight": 8, "many": 32}
STUDY = study_from(
    {
        "name": "trainings",
        "device": "cuda:0",
        "tenants": {
            **{name: {"workload": "resnet50", "batch": batch} for name, batch in BATCHES.items()},
            "bert": {"workload": "bert-base", "batch": 8, "seq": 128},
        },
        "mixes": ["pairs"],
    },
    (),
)
A100 = TargetDevice(
    "cuda:0",
    "NVIDIA A100-SXM4-40GB",
    simulated=False,
    modes=("mps",),
    cores=0,
    device=SimpleNamespace(simulated=False, spec=lambda spec: spec, absolute=dict),
)


def asked(milliseconds):
    solos = tuple(
        SoloTenant(TenantIdentity("resnet50", BATCHES[name]), name, 1e6 * ms, None, None, None, None)
        for name, ms in milliseconds.items()
    )
    return asked_of(STUDY, A100, Learnt(Gathered(solos, (), 0), None), study_name="trainings")


def slowdown_of(tenant, found):
    mix = mixes_of([[found.names.index(tenant), found.names.index("bert")]])
    return float(np.exp(found.priors["mps"](mix))[0, 0])


def test_time_that_the_host_spends_on_each_item_leaves_the_gpu_to_others():
    reading = asked({name: 6.0 * batch for name, batch in BATCHES.items()})  # far more than the GPU needs
    assert slowdown_of("many", reading) < slowdown_of("many", asked({})) - 0.1
    assert slowdown_of("bert", reading) == pytest.approx(slowdown_of("bert", asked({})))
    assert reading.solo_s[reading.names.index("many")] == pytest.approx(0.192)


def test_a_time_that_cannot_be_of_this_gpu_is_reported_and_left_out():
    found = asked({"many": 1e-3})
    assert any("faster than the peak rate" in note and "not calibrated" in note for note in found.notes)
    assert slowdown_of("many", found) == pytest.approx(slowdown_of("many", asked({})))
