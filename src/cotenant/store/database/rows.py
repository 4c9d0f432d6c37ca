"""How what a foreign file says becomes rows of the database, whichever way it is read."""

from collections.abc import Mapping
from pathlib import Path

LASTING = ("GPU-", "MIG-")
"""How a UUID begins."""
MEASUREMENTS = {
    "gpu": "gpu",
    "at_s": "started_s",
    "work": "workload",
    "time_ms": "time_ms",
    "clock_mhz": "sm_clock_mhz",
    "temperature_c": "temperature_c",
    "power_w": "power_w",
    "cabinet": "cabinet",
    "node": "node",
    "job": "job",
}
"""Columns of `measurements` and the columns of runs that they are."""
CONSTANTS = {"conditions": "", "simulated": False}
"""What all runs of a foreign file have in common."""


def gpu(path: Path, device: str) -> str:
    """A UUID stands for itself; `GPU 0` is another GPU in every file."""
    return device if device.startswith(LASTING) else f"{path.name}: {device}"


def silences(refused: Mapping[str, tuple[int, int]]) -> list[str]:
    """What to say of sensors that could not be read: by source, how often, of how many readings."""
    return [
        f"{source} gave nothing in {silent:,} of {every:,} readings"
        for source, (silent, every) in refused.items()
        if silent
    ]
