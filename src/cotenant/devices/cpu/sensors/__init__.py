"""CPU sensors that can be read while tenants run, each with the quality of its readings."""

from cotenant.devices.cpu.cores import Cores
from cotenant.devices.cpu.sensors.accounting import open_memory, open_perf, open_pressure, open_quota, open_time
from cotenant.devices.cpu.sensors.hardware import open_energy, open_frequency, open_temperature
from cotenant.devices.protocol import Probe
from cotenant.devices.tree import FileTree


def open_probes(tree: FileTree, cores: Cores) -> tuple[Probe, ...]:
    """Probes whose source exists and is readable; the checkup explains missing ones."""
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
