"""Models that one GPU can't hold are split over several in a plan."""

import pytest

from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.planning.mixes.kinds import DeviceKind
from cotenant.planning.mixes.tenants import planned
from cotenant.planning.predictors import solo
from cotenant.planning.predictors.closed_form import ClosedForm
from cotenant.planning.predictors.profiles import Simulation
from cotenant.planning.predictors.solo import with_spans
from cotenant.tenancy.tenant_entry import TenantEntry

GPU = "sim:t4"
LARGE = {"workload": "gpt2-medium", "mode": "prefill", "seq": 64, "rate": "1/s", "dtype": "float16"}


def split(*, available=8, short_bytes=1, **entry):
    """A tenant on GPUs whose memory it exceeds by this much, split where it can be."""
    entries = {"big": TenantEntry.model_validate({**LARGE, **entry})}
    tenants = planned(entries)
    predictor = ClosedForm(Simulation(tenants, entries, {GPU: open_simulated(GPU)}, risk=0.1))
    needed = predictor.simulation.profile(GPU, 0, 1).memory_bytes
    kind = DeviceKind(GPU, "T4", int(needed) - short_bytes, 0.4, "test", available, ("processes", "mps"))
    (found,) = with_spans(tenants, [kind], predictor)
    return found, predictor.simulation, needed


@pytest.fixture(scope="module")
def halves():
    return split()


def test_a_model_that_does_not_fit_is_split_over_as_few_gpus_as_hold_it(halves):
    found, simulation, needed = halves
    assert found.spans == {GPU: 2}
    assert simulation.spans_of(GPU, 0) == 2
    assert simulation.spec(GPU, 0, 1).parallel == 2
    assert simulation.profile(GPU, 0, 1).memory_bytes < needed


def test_half_a_model_takes_longer_than_half_the_time(halves):
    _, simulation, _ = halves
    half = simulation.profile(GPU, 0, 1).device_ms
    del simulation.spans[GPU, 0]
    whole = simulation.profile(GPU, 0, 1).device_ms
    simulation.spans[GPU, 0] = 2
    assert 0.5 < half / whole < 1


def test_a_model_that_fits_is_not_split():
    assert not split(short_bytes=0)[0].spans


@pytest.mark.parametrize("constraint", [{"available": 1}, {"isolation": "mig"}, {"workload": "resnet50", "mode": None}])
def test_what_can_not_be_split_is_left_whole(constraint):
    wanted = {"seq": None} if "workload" in constraint else {}
    assert not split(**constraint, **wanted)[0].spans


@pytest.mark.parametrize(
    ("replicas", "spans"),
    [
        pytest.param({2: 6, 4: 3, 8: 1}, 8, id="one wide replica takes fewer than many narrow ones"),
        pytest.param({2: 2, 4: 1, 8: 1}, 2, id="as many either way"),
        pytest.param({2: 4, 4: 1, 8: 1}, 4, id="wider than needed"),
        pytest.param({2: None, 4: 2, 8: None}, 4, id="only one number serves it"),
    ],
)
def test_a_model_is_split_so_that_all_its_replicas_take_the_fewest_gpus(replicas, spans, monkeypatch):
    def counted(tenants, kinds, predictor, who):
        return [replicas[predictor.simulation.spans[GPU, 0]]]

    monkeypatch.setattr(solo, "replicas_of", counted)
    found, simulation, _ = split()
    assert found.spans == {GPU: spans}
    assert simulation.spans_of(GPU, 0) == spans
