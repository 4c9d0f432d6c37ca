"""Energy of the processor packages: RAPL, through the powercap tree."""

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.devices.protocol import SensorInfo
from cotenant.devices.tree import HeldOpen, Tree

POWERCAP = "/sys/class/powercap"


@dataclass(frozen=True, slots=True)
class Packages:
    """The energy counters of the packages, and those we may not read."""

    readable: tuple[str, ...]
    denied: tuple[str, ...]


def find_packages(tree: Tree) -> Packages:
    """Look for the packages' counters."""
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
    """One counter, continued beyond the value at which it starts again from 0."""

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
            f"counter of {len(counters)} whole package{'s'[: len(counters) > 1]}, also of cores that are not the "
            "device's; a model on some processors; needs a reading per few minutes to see it wrap"
        )
        self.sensors: tuple[SensorInfo, ...] = (
            SensorInfo("package_energy_j", "J", f"{POWERCAP}/intel-rapl", 0.001, quality),
        )

    def read(self) -> Sequence[float]:
        """Joules."""
        return (sum(counter.read() for counter in self._counters) / 1e6,)


def open_energy(tree: Tree) -> EnergyProbe | None:
    """The probe, if every package may be read: the sum of some would pass for the whole."""
    packages = find_packages(tree)
    if not packages.readable or packages.denied:
        return None
    return EnergyProbe(
        [
            _Counter(HeldOpen(tree.path(f"{folder}/energy_uj")), int(tree.number(f"{folder}/max_energy_range_uj") or 0))
            for folder in packages.readable
        ]
    )
