"""The processor's own sensors: clock, temperature and energy."""

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant import sensors
from cotenant.devices.cpu.cores import Cores
from cotenant.devices.cpu.machine import is_virtual
from cotenant.devices.protocol import Probe, SensorInfo
from cotenant.devices.tree import FileTree, HeldOpen

_CPUINFO = "/proc/cpuinfo"


class ScalingProbe:
    """Frequency of each core according to the frequency driver."""

    def __init__(self, files: Sequence[HeldOpen]) -> None:
        self._files = files
        source = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq"
        quality = "average since the last tick where the hardware counts cycles, else the frequency last requested"
        self.sensors: tuple[SensorInfo, ...] = (
            SensorInfo(*sensors.FREQUENCY, source, 0.02, f"mean over the device's cores; {quality}"),
            SensorInfo("frequency_min_mhz", "MHz", source, 0.02, f"slowest of the device's cores; {quality}"),
        )

    def read(self) -> Sequence[float]:
        """Mean and lowest frequency."""
        mhz = [int(file.read()) / 1e3 for file in self._files]
        return (sum(mhz) / len(mhz), min(mhz))


class CpuinfoProbe:
    """Frequency from /proc/cpuinfo, where there is no frequency driver."""

    def __init__(self, file: HeldOpen, cores: Cores) -> None:
        self._file = file
        self._cores = frozenset(cores)
        self.sensors: tuple[SensorInfo, ...] = (
            SensorInfo(*sensors.FREQUENCY, _CPUINFO, 0.1, "mean over the device's cores; average of the last ticks"),
        )

    def read(self) -> Sequence[float]:
        """Mean frequency."""
        mhz = _stated_mhz(self._file.read(), self._cores)
        return (sum(mhz) / len(mhz) if mhz else float("nan"),)


class NominalProbe:
    """Constant clock of a virtual machine, under a separate name so that it isn't mistaken for a steady clock."""

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


def open_frequency(tree: FileTree, cores: Cores) -> Probe | None:
    """The best available source, if any."""
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


_CHIPS = frozenset({"coretemp", "k10temp", "zenpower", "cpu_thermal", "fam15h_power"})
_ZONES = ("x86_pkg_temp", "cpu", "soc")


class TemperatureProbe:
    """Hottest of the processor's sensors."""

    def __init__(self, files: Sequence[HeldOpen], source: str) -> None:
        self._files = files
        quality = f"highest of {len(files)} processor sensors, in steps of up to 1 °C"
        self.sensors: tuple[SensorInfo, ...] = (SensorInfo(*sensors.TEMPERATURE, source, 0.5, quality),)

    def read(self) -> Sequence[float]:
        """Degrees Celsius; NaN if no sensor answers."""
        degrees = []
        for file in self._files:
            try:
                degrees.append(int(file.read()) / 1e3)
            except (OSError, ValueError):  # the sensor of a sleeping core may refuse
                continue
        return (max(degrees, default=float("nan")),)


def open_temperature(tree: FileTree) -> TemperatureProbe | None:
    """The probe, if a sensor of the processor answers."""
    monitors = [
        path
        for folder in tree.glob("/sys/class/hwmon/hwmon*")
        if tree.text(f"{folder}/name") in _CHIPS
        for path in tree.glob(f"{folder}/temp*_input")
    ]
    zones = [
        f"{folder}/temp"
        for folder in tree.glob("/sys/class/thermal/thermal_zone*")
        if (tree.text(f"{folder}/type") or "").lower().startswith(_ZONES)
    ]
    for paths, source in ((monitors, "/sys/class/hwmon"), (zones, "/sys/class/thermal")):
        answering = [path for path in paths if tree.number(path) is not None]
        if answering:
            return TemperatureProbe([HeldOpen(tree.path(path)) for path in answering], source)
    return None


POWERCAP = "/sys/class/powercap"


@dataclass(frozen=True, slots=True)
class Packages:
    """Energy counters of the packages, and those we may not read."""

    readable: tuple[str, ...]
    denied: tuple[str, ...]


def find_packages(tree: FileTree) -> Packages:
    """Find the packages' counters."""
    readable, denied = [], []
    for folder in tree.glob(f"{POWERCAP}/intel-rapl:*"):
        if not (tree.text(f"{folder}/name") or "").startswith("package"):
            continue
        try:
            with tree.path(f"{folder}/energy_uj").open("rb") as file:
                file.read()
        except PermissionError:
            denied.append(f"{folder}/energy_uj")
        except OSError:
            continue
        else:
            readable.append(folder)
    return Packages(tuple(readable), tuple(denied))


class _Counter:
    """One counter, continued past the value at which it wraps to 0."""

    def __init__(self, file: HeldOpen, range_uj: int) -> None:
        self._file = file
        self._range_uj = range_uj
        self._last_uj = 0
        self._wrapped_uj = 0

    def read(self) -> int:
        now_uj = int(self._file.read())
        if now_uj < self._last_uj:
            self._wrapped_uj += self._range_uj
        self._last_uj = now_uj
        return self._wrapped_uj + now_uj


class EnergyProbe:
    """Energy of all packages together."""

    def __init__(self, counters: Sequence[_Counter]) -> None:
        self._counters = counters
        quality = (
            f"counter of {len(counters)} whole package{'s'[: len(counters) > 1]}, including cores outside the "
            "device; modelled on some processors; must be read every few minutes to catch wraps"
        )
        self.sensors: tuple[SensorInfo, ...] = (
            SensorInfo("package_energy_j", "J", f"{POWERCAP}/intel-rapl", 0.001, quality),
        )

    def read(self) -> Sequence[float]:
        """Joules."""
        return (sum(counter.read() for counter in self._counters) / 1e6,)


def open_energy(tree: FileTree) -> EnergyProbe | None:
    """The probe, if every package is readable: a partial sum would pass for the total."""
    packages = find_packages(tree)
    if not packages.readable or packages.denied:
        return None
    return EnergyProbe(
        [
            _Counter(HeldOpen(tree.path(f"{folder}/energy_uj")), int(tree.number(f"{folder}/max_energy_range_uj") or 0))
            for folder in packages.readable
        ]
    )
