"""What can be read of a CPU while tenants run; each sensor says what its readings are worth."""

from cotenant.devices.cpu.cores import Cores
from cotenant.devices.cpu.sensors.accounting import open_memory, open_pressure, open_quota, open_time
from cotenant.devices.cpu.sensors.hardware import open_energy, open_frequency, open_temperature
from cotenant.devices.cpu.sensors.perf import open_perf
from cotenant.devices.protocol import Probe
from cotenant.devices.tree import FileTree


def open_probes(tree: FileTree, cores: Cores) -> tuple[Probe, ...]:
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
