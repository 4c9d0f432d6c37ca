"""Map columns of foreign files to rows of the database."""

from collections.abc import Mapping
from pathlib import Path

LASTING = ("GPU-", "MIG-")
"""Prefixes of UUIDs."""
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
"""Columns of `measurements` and the matching columns of runs."""
CONSTANTS = {"conditions": "", "simulated": False}
"""Constant columns of all runs of a foreign file."""


def gpu(path: Path, device: str) -> str:
    """A UUID is kept; `GPU 0` is a different GPU in every file."""
    return device if device.startswith(LASTING) else f"{path.name}: {device}"


def silences(refused: Mapping[str, tuple[int, int]]) -> list[str]:
    """Sentences about failed sensor readings, by source."""
    return [
        f"{source} had no value in {silent:,} of {every:,} readings"
        for source, (silent, every) in refused.items()
        if silent
    ]
