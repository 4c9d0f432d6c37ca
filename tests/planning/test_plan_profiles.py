"""Times alone that a plan for a simulated GPU stands on."""

from cotenant.api.planning.check import attained
from cotenant.api.planning.profiles import Simulation
from cotenant.devices.simulated.device import open_simulated
from cotenant.planning.tenants_file import PlannedEntry

GPU = "sim:a100-sxm4-80gb"


def test_work_that_keeps_the_gpu_busy_takes_longer_at_a_lower_clock():
    entry = PlannedEntry.model_validate({"workload": "resnet50", "rate": "1/s", "batch": 64})
    simulation = Simulation([entry.planned("a")], {"a": entry}, {GPU: open_simulated(GPU)}, risk=0.1)
    full, half = (simulation.profile(GPU, 0, 64, "", float("nan"), clock_mhz=mhz) for mhz in (1410.0, 705.0))
    assert 1.3 < half.device_ms / full.device_ms < 2.05
    assert half.alone_ms > full.alone_ms


def test_a_check_simulates_the_planned_software():
    device = {"kind": GPU, "sharing": "alone"}
    seat = {
        "rate_rps": 20.0,
        "batch": 1,
        "runs": {"workload": "bert-base-mini", "seq": 64},
        "expected": {"p99": {"limit_ms": 50.0}},
    }
    eager, compiled = (
        attained(device, "a", {**seat, "software": software}, looks=([1],)) for software in ("eager", "tensorrt")
    )
    assert compiled.p99_ms < 0.8 * eager.p99_ms
