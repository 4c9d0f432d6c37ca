"""Plans with a tenant that generates: its sequences share every step, so a device that is always busy may keep up."""

import numpy as np
import pytest

from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.planning.mixes.predictor import Mixes
from cotenant.planning.mixes.tenants import planned
from cotenant.planning.predictors.closed_form import ClosedForm
from cotenant.planning.predictors.engine import EnginePredictor
from cotenant.planning.predictors.profiles import Simulation
from cotenant.tenancy.tenant_entry import TenantEntry

GPU = "sim:a100-sxm4-80gb"


@pytest.fixture(scope="module")
def predictor():
    entries = {
        "chat": {"workload": "llama-3.2-3b", "mode": "generate", "seq": 128, "tokens": 64, "software": "vllm",
                 "rate": "4/s", "slo": {"ttft p95": "500ms", "tpot p95": "40ms"}},
        "embed": {"workload": "bert-base", "seq": 128, "rate": "20/s", "slo": {"p99": "100ms"}},
    }  # fmt: skip
    read = {name: TenantEntry.model_validate(entry) for name, entry in entries.items()}
    tenants = planned(read)
    return ClosedForm(Simulation(tenants, read, {GPU: open_simulated(GPU)}, risk=0.1))


def predicted(predictor, *seats, sharing="processes"):
    """Each seat: tenant, rate, batch."""
    tenants, rates, batches = (np.array([column]) for column in zip(*seats, strict=True))
    return predictor(Mixes(GPU, sharing, tenants, rates.astype(float), batches, np.full(tenants.shape, np.nan)))


def test_sequences_that_share_their_steps_keep_up_on_a_busy_device(predictor):
    found = predicted(predictor, (0, 40.0, 128))
    assert 0.7 < found.busy[0] <= 1, "steps follow each other; between them the host works"
    assert np.isfinite(found.latency_ms.upper).all()


def test_more_sequences_than_slots_need_more_than_the_device(predictor):
    found = predicted(predictor, (0, 60.0, 4))
    assert found.busy[0] > 1
    assert np.isinf(found.latency_ms.estimate[0, 0, 0])


def test_a_step_lasts_as_long_as_the_sequences_in_progress_make_it(predictor):
    few, many = (predicted(predictor, (0, 2.0, batch)).latency_ms.estimate[0, 0, 1] for batch in (16, 128))
    assert many == pytest.approx(few, rel=0.1)
    assert predicted(predictor, (0, 32.0, 128)).latency_ms.estimate[0, 0, 1] > 1.2 * many


def test_taking_turns_with_a_busy_neighbour_costs_no_more_than_its_turns(predictor):
    found = predicted(predictor, (0, 10.0, 64), (1, 20.0, 1))
    assert 1.3 < found.slowdown.estimate[0, 1] < 2.3
    assert np.isfinite(found.latency_ms.estimate).all()


@pytest.fixture(scope="module")
def eager():
    entry = {"workload": "llama-3.2-1b", "mode": "generate", "seq": 128, "tokens": 16, "rate": "1/s",
             "slo": {"ttft p95": "500ms", "tpot p95": "100ms"}}  # fmt: skip
    read = {"chat": TenantEntry.model_validate(entry)}
    return ClosedForm(Simulation(planned(read), read, {GPU: open_simulated(GPU)}, risk=0.1))


@pytest.mark.parametrize(("rate", "slots"), [(1.0, 1), (2.0, 1), (6.0, 2)])
def test_sequences_of_one_length_wait_as_long_as_a_simulation_of_their_slots_has_them(eager, rate, slots):
    seat = (0, rate, slots)
    rough, close = (
        predicted(law, seat).latency_ms.estimate[0, 0] for law in (eager, EnginePredictor(eager.simulation, eager))
    )
    assert close[1] == pytest.approx(rough[1], rel=0.1)
    assert close[0] == pytest.approx(rough[0], rel=0.35)
