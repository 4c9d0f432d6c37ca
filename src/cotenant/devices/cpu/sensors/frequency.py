"""Clock frequency of the device's cores."""

from collections.abc import Sequence

from cotenant.devices.cpu.cores import Cores
from cotenant.devices.cpu.machine import is_virtual
from cotenant.devices.protocol import Probe, SensorInfo
from cotenant.devices.tree import HeldOpen, Tree

_CPUINFO = "/proc/cpuinfo"


class ScalingProbe:
    """What the frequency driver says of each core."""

    def __init__(self, files: Sequence[HeldOpen]) -> None:
        self._files = files
        source = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq"
        quality = "average since the last tick where the hardware counts cycles, else the frequency last asked for"
        self.sensors: tuple[SensorInfo, ...] = (
            SensorInfo("frequency_mhz", "MHz", source, 0.02, f"mean over the device's cores; {quality}"),
            SensorInfo("frequency_min_mhz", "MHz", source, 0.02, f"slowest of the device's cores; {quality}"),
        )

    def read(self) -> Sequence[float]:
        """Mean and lowest frequency."""
        mhz = [int(file.read()) / 1e3 for file in self._files]
        return (sum(mhz) / len(mhz), min(mhz))


class CpuinfoProbe:
    """The frequency that /proc/cpuinfo states, where there is no frequency driver."""

    def __init__(self, file: HeldOpen, cores: Cores) -> None:
        self._file = file
        self._cores = frozenset(cores)
        self.sensors: tuple[SensorInfo, ...] = (
            SensorInfo(
                "frequency_mhz", "MHz", _CPUINFO, 0.1, "mean over the device's cores; average of the last ticks"
            ),
        )

    def read(self) -> Sequence[float]:
        """Mean frequency."""
        mhz = _stated_mhz(self._file.read(), self._cores)
        return (sum(mhz) / len(mhz) if mhz else float("nan"),)


class NominalProbe:
    """A virtual machine's constant. It has its own name, so that nobody takes it for a steady clock."""

    def __init__(self, mhz: float) -> None:
        self._values = (mhz,)
        quality = "constant stated by the hypervisor; the real clock can't be seen from inside"
        self.sensors: tuple[SensorInfo, ...] = (SensorInfo("frequency_nominal_mhz", "MHz", _CPUINFO, 3600.0, quality),)

    def read(self) -> Sequence[float]:
        """The constant."""
        return self._values


def _stated_mhz(data: bytes, cores: frozenset[int]) -> list[float]:
    mhz = []
    core = -1
    for line in data.splitlines():
        name, _, value = line.partition(b":")
        name = name.strip()
        if name == b"processor":
            core = int(value)
        elif name == b"cpu MHz" and core in cores:
            mhz.append(float(value))
    return mhz


def open_frequency(tree: Tree, cores: Cores) -> Probe | None:
    """The best source there is, if any."""
    try:
        return ScalingProbe(
            [HeldOpen(tree.path(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq")) for core in cores]
        )
    except OSError:
        pass
    try:
        file = HeldOpen(tree.path(_CPUINFO))
    except OSError:
        return None
    mhz = _stated_mhz(file.read(), frozenset(cores))
    if not mhz:
        return None
    return NominalProbe(sum(mhz) / len(mhz)) if is_virtual(tree) else CpuinfoProbe(file, cores)
