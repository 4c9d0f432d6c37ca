"""Times alone that a plan for a simulated GPU stands on."""

from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.planning.check_simulated import simulated_device
from cotenant.planning.mixes.tenants import planned
from cotenant.planning.predictors.profiles import Simulation
from cotenant.tenancy.plan_document import PlanDevice
from cotenant.tenancy.tenant_entry import TenantEntry

GPU = "sim:a100-sxm4-80gb"


def test_work_that_keeps_the_gpu_busy_takes_longer_at_a_lower_clock():
    entry = TenantEntry.model_validate({"workload": "resnet50", "rate": "1/s", "batch": 64})
    simulation = Simulation(planned({"a": entry}), {"a": entry}, {GPU: open_simulated(GPU)}, risk=0.1)
    full, half = (simulation.profile(GPU, 0, 1, "", float("nan"), clock_mhz=mhz) for mhz in (1410.0, 705.0))
    assert 1.3 < half.device_ms / full.device_ms < 2.05
    assert half.alone_ms > full.alone_ms


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
    assert compiled.tail_ms < 0.8 * eager.tail_ms
