"""Pressure stall information: how long tasks waited for CPU, memory and I/O."""

from collections.abc import Sequence

from cotenant.devices.protocol import SensorInfo
from cotenant.devices.tree import HeldOpen, Tree

_KINDS = (("cpu", "some"), ("memory", "some"), ("memory", "full"), ("io", "some"), ("io", "full"))
"""`some`: at least one task waited; `full`: none could run. For the CPU the latter can't happen to a whole machine."""


class PressureProbe:
    """Cumulative stall times of the whole machine."""

    def __init__(self, files: Sequence[tuple[str, HeldOpen]]) -> None:
        self._files = [(file, [kind.encode() for at, kind in _KINDS if at == resource]) for resource, file in files]
        quality = {
            "some": "exact counter of the whole machine: time in which at least one task waited",
            "full": "exact counter of the whole machine: time in which every task waited",
        }
        self.sensors: tuple[SensorInfo, ...] = tuple(
            SensorInfo(f"pressure_{at}_{kind}_s", "s", f"/proc/pressure/{at}", 0.01, quality[kind])
            for resource, _ in files
            for at, kind in _KINDS
            if at == resource
        )

    def read(self) -> Sequence[float]:
        """Seconds of stall since boot, by resource and kind."""
        values: list[float] = []
        for file, kinds in self._files:
            totals = _totals(file.read())
            values.extend(totals.get(kind, float("nan")) for kind in kinds)
        return values


def _totals(data: bytes) -> dict[bytes, float]:
    totals = {}
    for line in data.splitlines():
        kind, _, rest = line.partition(b" ")
        _, found, total = rest.partition(b"total=")
        if found:
            totals[kind] = int(total) * 1e-6
    return totals


def open_pressure(tree: Tree) -> PressureProbe | None:
    """The probe, if the kernel keeps track (`psi=1`): where it doesn't, the files exist but can't be read."""
    files = []
    for resource in ("cpu", "memory", "io"):
        try:
            file = HeldOpen(tree.path(f"/proc/pressure/{resource}"))
            file.read()
        except OSError:
            continue
        files.append((resource, file))
    return PressureProbe(files) if files else None
