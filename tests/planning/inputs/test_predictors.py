"""What runs on a real device say about the tenants of a plan."""

from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest

from cotenant.devices.target import place_at
from cotenant.planning.inputs.predictors import measured_on
from cotenant.planning.mixes.predictor import Mixes
from cotenant.store.folder import RunFolder
from cotenant.study.files import study_from_text
from cotenant.study.prediction_inputs import identity_of
from tests.store.synthetic import trial

FILE = """
device: cpu
tenants:
  a: {workload: bert-base-mini, load: closed(1)}
  b: {workload: bert-base-mini, batch: 2, load: closed(1)}
"""
TENANTS = study_from_text(FILE, source="a test").tenants


@pytest.fixture
def observed(tmp_path):
    """Carries out two blocks of `a`, `b` and `a+b` on this CPU: the mix is valid, those alone are as given."""
    target = place_at("cpu")
    facts = {}
    for name, entry in TENANTS.items():
        asked = identity_of(entry, target)
        facts[name] = {key: getattr(asked, key) for key in ("workload", "batch", "seq", "dtype", "software")}

    def carry_out(**alone):
        manifest = {"run": "r", "device_description": target.device.describe(), "simulated": False, "study": FILE}
        run = RunFolder.create(tmp_path / "r", manifest | {"sessions": [{"packages": {"torch": version("torch")}}]})
        mixes = [(("a",), alone["a"]), (("b",), alone["b"]), (("a", "b"), ("valid", "valid"))]
        for block in range(2):
            for number, (names, verdicts) in enumerate(mixes):
                made = trial(3 * block + number, tenants=names, block=block, verdict=verdicts[block])
                run.commit(replace(made, tenants=tuple({**row, **facts[row["tenant"]]} for row in made.tenants)))
        return measured_on(target, TENANTS, [run.path], risk=0.1, source="a test")

    return carry_out


VALID, UNSTABLE, PARTLY = ("valid", "valid"), ("unstable", "unstable"), ("unstable", "valid")


@pytest.mark.parametrize(
    ("a", "b", "how"),
    [
        (VALID, PARTLY, "measured on cpu: 2 alone, 1 mixes"),
        (VALID, UNSTABLE, "observed without a valid trial of b alone on cpu: 2 alone, 1 mixes"),
        (UNSTABLE, UNSTABLE, "observed without a valid trial of a and b alone on cpu: 2 alone, 1 mixes"),
    ],
)
def test_tenants_are_measured_if_a_trial_of_each_alone_is_valid(observed, a, b, how):
    assert observed(a=a, b=b)[1].startswith(f"{how};")


def test_a_prediction_says_which_of_its_tenants_were_never_valid_alone(observed):
    predictor, _ = observed(a=VALID, b=UNSTABLE)

    def basis(*tenants):
        seats = np.array([tenants], np.int64)
        rates, batches, shares = (np.full(seats.shape, value) for value in (5.0, 1.0, np.nan))
        return predictor(Mixes("cpu", "processes", seats, rates, batches, shares)).basis

    assert basis(0) == ("measured alone",)
    assert basis(1) == ("measured alone, but never valid alone",)
    assert basis(0, 1) == ("measured (2 blocks), but never valid alone",)
