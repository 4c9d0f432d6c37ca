"""Times alone that a plan for a simulated GPU stands on."""

from cotenant.api.plan_profiles import Simulation
from cotenant.devices.simulated.device import open_simulated
from cotenant.planning.tenants_file import PlannedEntry

GPU = "sim:a100-sxm4-80gb"


def test_work_that_keeps_the_gpu_busy_takes_longer_at_a_lower_clock():
    entry = PlannedEntry.model_validate({"workload": "resnet50", "rate": "1/s", "batch": 64})
    simulation = Simulation([entry.planned("a")], {"a": entry}, {GPU: open_simulated(GPU)}, risk=0.1)
    full, half = (simulation.profile(GPU, 0, 64, "", float("nan"), clock_mhz=mhz) for mhz in (1410.0, 705.0))
    assert 1.3 < half.device_ms / full.device_ms < 2.05
    assert half.alone_ms > full.alone_ms
