"""Documented facts of each Jetson: its GPU, and what its power rails feed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cotenant.devices.tree import FileTree

TOTAL_RAILS = ("VDD_IN", "POM_5V_IN", "VIN")
"""Rails that feed the entire module (VIN on Thor: with its carrier). No other rail or sum is a total."""


@dataclass(frozen=True, slots=True)
class BoardTable:
    """One family of modules."""

    family: str
    match: tuple[str, ...]
    """Lower-case substrings of the device tree's model; the first matching family is used."""
    gpu: tuple[str, ...]
    """Names of the GPU in the device tree."""
    rails: Mapping[str, str]
    """What each rail feeds."""
    note: str = ""


BOARDS = (
    BoardTable(
        "Orin NX / Orin Nano",
        ("orin nx", "orin nano"),
        ("ga10b", "gpu"),
        {
            "VDD_IN": "the whole module",
            "VDD_CPU_GPU_CV": "CPU, GPU and vision accelerators together",
            "VDD_SOC": "memory, video and other engines",
        },
        "the GPU has no separate rail",
    ),
    BoardTable(
        "AGX Orin",
        ("agx orin",),
        ("ga10b", "gpu"),
        {
            "VDD_GPU_SOC": "GPU and part of the SoC together",
            "VDD_CPU_CV": "CPU and vision accelerators together",
            "VIN_SYS_5V0": "the module's 5 V side: memory, video, peripherals",
            "VDDQ_VDD2_1V8AO": "memory; fed from VIN_SYS_5V0, so a sum would count it twice",
        },
        "no rail feeds the entire module",
    ),
    BoardTable(
        "AGX Thor",
        ("thor",),
        ("gb10b", "gpu", "gpu-gpc-0"),
        {
            "VDD_GPU": "the GPU",
            "VDD_CPU_SOC_MSS": "CPU, SoC and memory subsystem together",
            "VIN_SYS_5V0": "the 5 V side",
            "VIN": "the module and its carrier board",
        },
    ),
    BoardTable(
        "Xavier NX",
        ("xavier nx",),
        ("gv11b",),
        {
            "VDD_IN": "the whole module",
            "VDD_CPU_GPU_CV": "CPU, GPU and vision accelerators together",
            "VDD_SOC": "memory, video and other engines",
        },
        "the GPU has no separate rail",
    ),
    BoardTable(
        "AGX Xavier",
        ("agx xavier", "xavier"),
        ("gv11b",),
        {
            "GPU": "the GPU",
            "CPU": "the CPU",
            "SOC": "the rest of the SoC",
            "CV": "vision accelerators",
            "VDDRQ": "memory",
            "SYS5V": "the 5 V side",
        },
        "no rail feeds the entire module",
    ),
    BoardTable(
        "Nano",
        ("jetson nano", "jetson-nano", "nano"),
        ("gm20b", "gpu"),
        {"POM_5V_IN": "the whole module", "POM_5V_GPU": "the GPU", "POM_5V_CPU": "the CPU"},
    ),
)


def table_for(model: str) -> BoardTable | None:
    """The module's family, from its model in the device tree; None if undocumented."""
    return next((table for table in BOARDS if any(part in model.lower() for part in table.match)), None)


# --- the Jetson model and the release it runs

_JETPACKS = {32: 4, 34: 5, 35: 5, 36: 6, 38: 7, 39: 7}
"""Major release of Jetson Linux -> JetPack."""


@dataclass(frozen=True, slots=True)
class JetsonBoard:
    """A Jetson."""

    model: str
    """Model, from the device tree."""
    family: str
    table: BoardTable | None
    """Documented facts; None for an unknown module."""
    linux: str | None
    """Release of Jetson Linux, e.g. `36.4.3`."""
    jetpack: int | None


def find(root: Path = Path("/")) -> JetsonBoard | None:
    """The board below this root; None if it isn't a Jetson."""
    tree = FileTree(root)
    model = (tree.text("/proc/device-tree/model") or "").replace("\0", "").strip()
    linux = _release(tree.text("/etc/nv_tegra_release") or "")
    if "jetson" not in model.lower() and linux is None:
        return None
    table = table_for(model)
    major = int(linux.partition(".")[0]) if linux else None
    return JetsonBoard(
        model=model or "a Jetson",
        family=table.family if table else "unknown",
        table=table,
        linux=linux,
        jetpack=None if major is None else _JETPACKS.get(major),
    )


def _release(text: str) -> str | None:
    match = re.search(r"# R(\d+) \(release\), REVISION: ([\d.]+)", text)
    return f"{match[1]}.{match[2]}" if match else None
