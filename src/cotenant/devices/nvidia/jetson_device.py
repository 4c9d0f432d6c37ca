"""A Jetson's GPU as a device: cuda:0 for torch; sensors come from the board, as the driver's library reports little."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from cotenant.devices import jetson
from cotenant.devices.cpu.machine import memory_bytes
from cotenant.devices.jetson import JetsonBoard
from cotenant.devices.nvidia.accelerator import TorchAccelerator
from cotenant.devices.nvidia.checkup.state import torch_for
from cotenant.devices.nvidia.torch_side import ON_CPU, on_cpu
from cotenant.devices.protocol import Finding, Probe
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError
from cotenant.workloads.protocol import Dtype


class JetsonGpu(TorchAccelerator):
    """Shares memory, power and heat with the board's CPU. Files are read below a root."""

    def __init__(self, board: JetsonBoard, root: Path) -> None:
        tree = FileTree(root)
        total, free = (memory_bytes(tree, name) or 0 for name in ("MemTotal", "MemAvailable"))
        facts = {"name": board.model, "uuid": None, "memory_bytes": total, "free_memory_bytes": free}
        super().__init__("cuda", 0, facts)
        self.name = f"cuda:0{ON_CPU if on_cpu() else ''}"
        self._board, self._root = board, root

    @property
    def meaning(self) -> str:
        """One-clause description."""
        release = f", JetPack {self._board.jetpack}" if self._board.jetpack else ""
        return f"the GPU of {self._board.model}{release}"

    @property
    def default_dtype(self) -> Dtype:
        """Tensor cores support it on every Jetson since Xavier, and a Nano runs it at twice the rate."""
        return "float16"

    @property
    def stand_in(self) -> bool:
        """Set by an environment variable, to test everything but the GPU."""
        return on_cpu()

    @property
    def nsys_index(self) -> int | None:
        """The board has a single GPU."""
        return None if self.stand_in else 0

    @property
    def reports_priorities(self) -> bool:
        """A stream's priority is read back from torch."""
        return True

    def lock_keys(self) -> tuple[str, ...]:
        """One GPU per board."""
        return ("jetson-gpu",)

    def describe(self) -> Mapping[str, Any]:
        """The board, its release, and the source of each metric."""
        return {
            **super().describe(),
            "family": self._board.family,
            "jetson_linux": self._board.linux,
            "jetpack": self._board.jetpack,
            "sources": [f"{info.name} from {info.source}" for probe in self.probes() for info in probe.sensors],
        }

    def probes(self) -> Sequence[Probe]:
        """Rails, clocks and temperatures of the board."""
        return jetson.probes(self._root)

    def apply(self, settings: Mapping[str, Any]) -> AbstractContextManager[Sequence[str]]:
        """No controls: the power mode is set for the entire board with its own tools."""
        if settings:
            raise DeviceError(
                f"a study can't set {next(iter(settings))!r} on a Jetson",
                hint="set the board beforehand: sudo nvpmodel -m MODE; sudo jetson_clocks; both are recorded",
            )
        return super().apply(settings)

    def free_memory_bytes(self) -> int:
        """Memory, which CPU and GPU share."""
        return memory_bytes(FileTree(self._root), "MemAvailable") or 0

    def checkup(self) -> tuple[Finding, ...]:
        """Findings on the board, torch, and sharing."""
        ways = (
            Finding(f"sharing: {mode.mode}", "ok" if mode.available else "note", mode.missing or mode.meaning)
            for mode in self.sharings()
        )
        return (*jetson.findings(self._root), torch_for(None), *ways)


def open_jetson(root: Path = Path("/")) -> JetsonGpu | None:
    """The board's GPU; None if this isn't a Jetson."""
    board = jetson.find(root)
    return None if board is None else JetsonGpu(board, root)
