"""The processor's own sensors: clock, temperature and energy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from cotenant import sensors
from cotenant.devices.cpu.cores import Cores
from cotenant.devices.cpu.machine import is_virtual
from cotenant.devices.protocol import FunctionProbe, Probe, SensorInfo
from cotenant.devices.tree import FileTree, HeldOpen

_CPUINFO = "/proc/cpuinfo"


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
    """The clock from the best available source, if any: the frequency driver, else /proc/cpuinfo.

    A virtual machine's constant has a name of its own, so that it isn't mistaken for a steady clock.
    """
    source = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq"
    files = [tree.held(source.replace("cpu*", f"cpu{core}")) for core in cores]
    scaling = [file for file in files if file is not None]
    if len(scaling) == len(files):

        def scaled() -> Sequence[float]:
            mhz = [int(file.read()) / 1e3 for file in scaling]
            return sum(mhz) / len(mhz), min(mhz)

        quality = "average since the last tick where the hardware counts cycles, else the frequency last requested"
        mean = SensorInfo(*sensors.FREQUENCY, source, 0.02, f"mean over the device's cores; {quality}")
        least = SensorInfo("frequency_min_mhz", "MHz", source, 0.02, f"slowest of the device's cores; {quality}")
        return FunctionProbe((mean, least), scaled)
    file = tree.held(_CPUINFO)
    if file is None:
        return None
    asked = frozenset(cores)

    def stated() -> Sequence[float]:
        mhz = _stated_mhz(file.read(), asked)
        return (sum(mhz) / len(mhz) if mhz else float("nan"),)

    now = stated()
    if math.isnan(now[0]):
        return None
    if is_virtual(tree):
        quality = "constant stated by the hypervisor; the real clock can't be seen from inside"
        return FunctionProbe((SensorInfo("frequency_nominal_mhz", "MHz", _CPUINFO, 3600.0, quality),), lambda: now)
    quality = "mean over the device's cores; average of the last ticks"
    return FunctionProbe((SensorInfo(*sensors.FREQUENCY, _CPUINFO, 0.1, quality),), stated)


_CHIPS = frozenset({"coretemp", "k10temp", "zenpower", "cpu_thermal", "fam15h_power"})
_ZONES = ("x86_pkg_temp", "cpu", "soc")


def open_temperature(tree: FileTree) -> Probe | None:
    """The hottest of the processor's sensors, if one answers."""
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
            files = [HeldOpen(tree.path(path)) for path in answering]
            quality = f"highest of {len(files)} processor sensors, in steps of up to 1 °C"
            return FunctionProbe((SensorInfo(*sensors.TEMPERATURE, source, 0.5, quality),), partial(_hottest, files))
    return None


def _hottest(files: Sequence[HeldOpen]) -> Sequence[float]:
    degrees = []
    for file in files:
        try:
            degrees.append(int(file.read()) / 1e3)
        except (OSError, ValueError):  # the sensor of a sleeping core may refuse
            continue
    return (max(degrees, default=float("nan")),)


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


def open_energy(tree: FileTree) -> Probe | None:
    """Joules of all packages together, if every package is readable: a partial sum would pass for the total."""
    packages = find_packages(tree)
    if not packages.readable or packages.denied:
        return None
    counters = [
        _Counter(HeldOpen(tree.path(f"{folder}/energy_uj")), int(tree.number(f"{folder}/max_energy_range_uj") or 0))
        for folder in packages.readable
    ]
    quality = (
        f"counter of {len(counters)} whole package{'s'[: len(counters) > 1]}, including cores outside the "
        "device; modelled on some processors; must be read every few minutes to catch wraps"
    )
    info = SensorInfo("package_energy_j", "J", f"{POWERCAP}/intel-rapl", 0.001, quality)
    return FunctionProbe((info,), lambda: (sum(counter.read() for counter in counters) / 1e6,))
