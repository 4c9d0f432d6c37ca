"""Peak rates and memory of a run's device, from the run's manifest.

A manifest may be foreign or predate an entry: whatever it lacks is unknown. The machine that reads it is never queried,
so the same records give the same explanation everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peak rates, cores and memory of a device."""

    flops_per_s: Mapping[str, float] = field(default_factory=dict)
    """By dtype; empty if the run has no roofline."""
    bytes_per_s: float | None = None
    cores: int | None = None
    memory_bytes: int | None = None
    cache_bytes: int | None = None
    """Bytes of the largest cache."""
    undisturbed: bool = True
    """False if something else used the device while its rates were measured."""
    counters: bool = False
    """Hardware counters (cache misses, instructions) were recorded."""
    rates_of: int = 0
    """Number of cores or SMs that the rates refer to."""
    rates_known: str = ""
    """When the rates were measured, or `data sheet`."""


def described(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The device's description of itself."""
    found = manifest.get("device_description")
    return found if isinstance(found, Mapping) else {}


def cores_of(manifest: Mapping[str, Any]) -> int:
    """Number of cores; 1 if the manifest doesn't say."""
    cores = described(manifest).get("cores")
    return len(cores) if isinstance(cores, list) and cores else cores if isinstance(cores, int) and cores > 0 else 1


def peaks_of(manifest: Mapping[str, Any]) -> Peaks:
    """Peaks of the device that a run was measured on."""
    device = described(manifest)
    memory, caches, sensors = device.get("memory_bytes"), device.get("caches_bytes"), manifest.get("sensors")
    return Peaks(
        **_rates(manifest.get("roofline")),
        cores=cores_of(manifest) if "cores" in device else None,
        memory_bytes=memory if isinstance(memory, int) else None,
        cache_bytes=max(caches.values(), default=None) if isinstance(caches, dict) else None,
        counters=isinstance(sensors, list)
        and any(isinstance(one, dict) and "cache" in str(one.get("name")) for one in sensors),
    )


def _rates(roofline: Any) -> dict[str, Any]:
    """Parse the entry `roofline`; empty if it is absent or incomplete."""
    try:
        return {
            "flops_per_s": {str(dtype): float(rate) for dtype, rate in roofline["flops_per_s"].items()},
            "bytes_per_s": float(roofline["bytes_per_s"]),
            "undisturbed": bool(roofline.get("undisturbed", True)),
            "rates_of": int(roofline["cores"]),
            "rates_known": str(roofline["measured_utc"]),
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}
