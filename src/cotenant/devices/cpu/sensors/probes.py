"""Every probe that gives readings on this machine."""

from cotenant.devices.cpu.cores import Cores
from cotenant.devices.cpu.sensors.cpu_time import open_time
from cotenant.devices.cpu.sensors.energy import open_energy
from cotenant.devices.cpu.sensors.frequency import open_frequency
from cotenant.devices.cpu.sensors.memory import open_memory
from cotenant.devices.cpu.sensors.perf import open_perf
from cotenant.devices.cpu.sensors.pressure import open_pressure
from cotenant.devices.cpu.sensors.quota import open_quota
from cotenant.devices.cpu.sensors.temperature import open_temperature
from cotenant.devices.protocol import Probe
from cotenant.devices.tree import Tree


def open_probes(tree: Tree, cores: Cores) -> tuple[Probe, ...]:
    """The probes whose source is there and may be read; the checkup says why others are missing."""
    candidates: tuple[Probe | None, ...] = (
        open_time(tree, cores),
        open_quota(tree),
        open_pressure(tree),
        open_memory(tree),
        open_frequency(tree, cores),
        open_temperature(tree),
        open_energy(tree),
        open_perf(cores),
    )
    return tuple(probe for probe in candidates if probe is not None)
