"""The GPU's clock: devfreq, its governor, and whether it is locked."""

import math
from dataclasses import dataclass

from cotenant import sensors
from cotenant.devices.protocol import FunctionProbe, Probe, SensorInfo
from cotenant.devices.tree import FileTree, HeldOpen

_GPUS = ("gv11b", "gp10b", "ga10b", "gb10b", "gm20b", "gpu", "gpu-gpc-0")
EMC_RATE = "/sys/kernel/debug/bpmp/debug/clk/emc/rate"
"""The memory's clock; readable by root only."""


@dataclass(frozen=True, slots=True)
class GpuClock:
    """The GPU's devfreq entry and how its clock is governed."""

    folder: str
    governor: str | None
    min_mhz: float | None
    max_mhz: float | None

    @property
    def held(self) -> bool:
        """True if the clock can't move: `jetson_clocks` or a user set both ends to the same value."""
        return self.min_mhz is not None and self.min_mhz == self.max_mhz


def find_gpu(tree: FileTree) -> GpuClock | None:
    """Find the GPU among the devfreq devices."""
    folders = {_name(tree, folder): folder for folder in tree.glob("/sys/class/devfreq/*")}
    name = next((folder for folder in _GPUS if folder in folders), None)
    if name is None:
        return None
    folder = folders[name]
    return GpuClock(
        folder=folder,
        governor=tree.text(f"{folder}/governor"),
        min_mhz=_mhz(tree.number(f"{folder}/min_freq")),
        max_mhz=_mhz(tree.number(f"{folder}/max_freq")),
    )


def _name(tree: FileTree, folder: str) -> str:
    """Its name in the device tree, else the folder: `17000000.gv11b`, `gpu-gpc-0`."""
    stated = (tree.text(f"{folder}/device/of_node/name") or "").strip("\0")
    own = folder.rpartition("/")[2].rpartition(".")[2]
    return stated if stated in _GPUS else own


def _mhz(hertz: float | None) -> float | None:
    return None if hertz is None else hertz / 1e6


def _number(file: HeldOpen) -> float:
    try:
        return float(int(file.read()))
    except (OSError, ValueError):  # a sleeping GPU reports no load
        return math.nan


def open_clocks(tree: FileTree) -> Probe | None:
    """Clock and load of the GPU, and the memory's clock where readable."""
    gpu = find_gpu(tree)
    clock = None if gpu is None else tree.held(f"{gpu.folder}/cur_freq")
    if gpu is None or clock is None:
        return None
    infos = [SensorInfo(*sensors.SM_CLOCK, f"{gpu.folder}/cur_freq", 0.05, "the clock last set, not an average")]
    others: list[tuple[HeldOpen, float]] = []
    if (load := tree.held(f"{gpu.folder}/device/load")) is not None:
        quality = "share of time with any work in the governor's last period, however small the work"
        infos.append(SensorInfo(*sensors.ANY_KERNEL, f"{gpu.folder}/device/load", 0.05, quality))
        others.append((load, 1e-3))
    if (emc := tree.held(EMC_RATE)) is not None:
        infos.append(SensorInfo(*sensors.MEMORY_CLOCK, EMC_RATE, 0.1, "the clock last set"))
        others.append((emc, 1e-6))
    return FunctionProbe(
        tuple(infos), lambda: [int(clock.read()) / 1e6, *(_number(file) * scale for file, scale in others)]
    )
