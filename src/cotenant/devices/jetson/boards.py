"""Documented facts of each Jetson: its GPU, and what its power rails feed."""

from collections.abc import Mapping
from dataclasses import dataclass

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
