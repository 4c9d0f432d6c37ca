"""Times alone that a plan for a simulated GPU stands on."""

from dataclasses import replace

import numpy as np
import pytest

from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.planning.check_simulated import simulated_device
from cotenant.planning.mixes.predictor import Mixes
from cotenant.planning.mixes.tenants import planned
from cotenant.planning.predictors.closed_form import ClosedForm, Seats
from cotenant.planning.predictors.engine import EnginePredictor
from cotenant.planning.predictors.profiles import Simulation
from cotenant.prediction.contention.layout import lay_out
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.plan_document import PlanDevice
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.tenant_entry import TenantEntry

GPU = "sim:a100-sxm4-80gb"


def test_work_that_keeps_the_gpu_busy_takes_longer_at_a_lower_clock():
    entry = TenantEntry.model_validate({"workload": "resnet50", "rate": "1/s", "batch": 64})
    simulation = Simulation(planned({"a": entry}), {"a": entry}, {GPU: open_simulated(GPU)}, risk=0.1)
    full, half = (simulation.profile(GPU, 0, 1, clock_mhz=mhz) for mhz in (1410.0, 705.0))
    assert 1.3 < half.device_ms / full.device_ms < 2.05
    assert half.alone_ms > full.alone_ms


@pytest.mark.parametrize("gpu", ["sim:a100-sxm4-40gb", "sim:t4", "sim:l40s"])
def test_a_locked_clock_never_escapes_the_power_limit(gpu):
    """Without a lock, power keeps a busy GPU far below its boost clock; locked there, it is no faster."""
    chat = {"workload": "llama-3.2-1b", "software": "vllm", "seq": 512, "tokens": 32, "rate": "1/s"}
    entry = TenantEntry.model_validate(chat)
    simulation = Simulation(planned({"chat": entry}), {"chat": entry}, {gpu: open_simulated(gpu)}, risk=0.1)
    boost = simulation.gpus[gpu].gpu.clocks_mhz.boost
    free, locked, lower = (simulation.profile(gpu, 0, 1, clock_mhz=mhz).first_ms for mhz in (None, boost, 0.8 * boost))
    assert locked == pytest.approx(free)
    assert 1.05 * free < lower < 1.3 * free


def test_a_check_simulates_the_planned_software():
    seat = {
        "rate_rps": 20.0,
        "at_once": 1,
        "runs": {"workload": "bert-base-mini", "seq": 64},
        "expected": {"p99": {"limit_ms": 50.0}},
    }
    devices = [
        PlanDevice.model_validate({"name": GPU, "tenants": {"a": {**seat, "software": software}}})
        for software in ("eager", "tensorrt")
    ]
    (eager,), (compiled,) = (simulated_device(device, [1], risk=0.1) for device in devices)
    assert compiled.tail_ms.est < 0.8 * eager.tail_ms.est


@pytest.mark.parametrize("sharing", ["processes", "mps"])
@pytest.mark.parametrize("at_once", [1, 8])
def test_no_latency_falls_when_a_rate_rises(sharing, at_once):
    entries = {
        name: TenantEntry.model_validate({"workload": name, "rate": "1/s", "slo": {"p99": "1s"}})
        for name in ("bert-base", "resnet50")
    }
    simulation = Simulation(planned(entries), entries, {GPU: open_simulated(GPU)}, risk=0.1)
    rough = ClosedForm(simulation)
    rates = np.geomspace(5, 25 * 4 * at_once**0.5, 8)
    rows = [np.tile(row, (rates.size, 1)) for row in ([0, 1], [at_once, at_once], [np.nan, np.nan])]
    mixes = Mixes(GPU, sharing, rows[0], np.stack([rates, np.full(rates.size, 40.0)], axis=1), rows[1], rows[2])
    for predictor in (rough, EnginePredictor(simulation, rough)):
        latency = predictor(mixes).latency_ms
        for end in (latency.lower, latency.estimate, latency.upper):
            rising = end[:, 0, 0]
            assert (rising[1:] >= 0.995 * rising[:-1]).all()


def test_tenants_that_run_the_same_in_an_engine_share_its_simulation():
    chat = {"workload": "llama-3.2-1b", "software": "vllm", "tokens": 16, "slo": {"ttft p95": "1s"}}
    entries = {name: TenantEntry.model_validate({**chat, "rate": f"{rate}/s"}) for name, rate in (("a", 1), ("b", 2))}
    simulation = Simulation(planned(entries), entries, {GPU: open_simulated(GPU)}, risk=0.1)
    numbers = {simulation.profile(GPU, tenant, 64).engine for tenant in (0, 1)}
    assert numbers == {0}
    assert len(simulation.engines) == 1


@pytest.mark.parametrize(
    ("mode", "shares"), [("mps", (20.0, 23.0)), ("green", (20.0, 30.0)), ("mig", ("1g.10gb", "2g.20gb"))]
)
def test_seats_have_the_parts_and_clocks_that_a_run_lays_out(mode, shares):
    """While the rest of the GPU idles, power allows a higher clock: for a plan as for a run."""
    entries = {name: TenantEntry.model_validate({"workload": "bert-base", "batch": 64}) for name in "ab"}
    simulation = Simulation(planned(entries), entries, {GPU: open_simulated(GPU)}, risk=0.1)
    tenants = [Tenant(name=name, of=name, workload=entries[name].spec(), load=Load(kind="closed")) for name in "ab"]
    gpu = simulation.gpus[GPU].gpu
    laid = lay_out(gpu, Sharing(mode=mode, shares=shares), tenants, {}).parts
    numbers = [list(gpu.mig.profiles).index(share) if mode == "mig" else float(share) for share in shares]
    mixes = Mixes(GPU, mode, np.array([[0, 1]]), np.ones((1, 2)), np.ones((1, 2), np.int64), np.array([numbers], float))
    loaded = float(simulation.loaded(mixes)[0])
    assert loaded < 0.6
    assert tuple(simulation.part(mixes, number, loaded, seat) for seat, number in enumerate(numbers)) == laid
    beside_others, full = (Seats.of(simulation, mix).alone[0] for mix in (mixes, replace(mixes, loaded=1.0)))
    assert (beside_others < full).all(), "who else there is, is not known before a plan is made"
