"""A tenant in a trial, with everything that comparisons and explanations need besides its latency."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cotenant.tenancy.identity import TenantIdentity
from cotenant.tenancy.records import TenantObservation


class RequestWork(NamedTuple):
    """The work of a request: two tenants are comparable only if it is the same."""

    workload: str
    batch: int | None = None
    seq: int | None = None
    dtype: str | None = None
    threads: int | None = None
    flops_per_request: float | None = None
    bytes_per_request: float | None = None


@dataclass(frozen=True, slots=True)
class TenantEvidence:
    """A tenant's part in a trial, and the trial's circumstances. None where not observed."""

    seen: TenantObservation
    work: RequestWork
    load: str
    """The tenant's own load."""
    rate_rps: float | None = None
    """Intended rate of an open load."""
    service_ns: float | None = None
    """Mean of done - started: serving time without the queue."""
    switches_voluntary: int | None = None
    """Voluntary context switches of its process over the window."""
    device_clock: str | None = None
    """What its device time is measured on, in the device's terms."""
    peak_memory_bytes: int | None = None
    working_set_bytes: int | None = None
    stages_ns: Mapping[str, float] = field(default_factory=dict)
    """Mean duration of each stage, of tenants alone."""
    clock_mhz: float | None = None
    """Mean clock of the device over the window."""
    foreign_share: float | None = None
    """Share of the device's cores taken by processes outside the study."""
    steal_share: float | None = None
    """Share of the device's time taken by the hypervisor."""
    started_utc: str = ""
    identity: TenantIdentity | None = None
    """Everything that changes its time."""

    @property
    def open(self) -> bool:
        """Requests arrive on a schedule, whether or not the previous request is done."""
        return not self.load.startswith("closed")


_OPEN = ("poisson", "gamma", "trace")
_RATE = re.compile(r"\d+(?:\.\d+)?%?")


def arrivals_and_rate(label: str) -> tuple[str, float] | None:
    """`("gamma with cv 3", 0.15)` from `gamma(15%, 3)`; None for closed loads, and where each tenant has its own.

    Labels are parsed so that records can be read without the study that made them.
    """
    kind, _, rest = label.removesuffix(")").partition("(")
    parts = [part.strip() for part in rest.split(",")]
    rate = parts[-1] if kind == "trace" else parts[0]
    if kind not in _OPEN or not _RATE.fullmatch(rate):
        return None
    value = float(rate.removesuffix("%")) / (100 if rate.endswith("%") else 1)
    return (f"gamma with cv {parts[1]}" if kind == "gamma" and len(parts) > 1 else kind), value


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
        and any(isinstance(sensor, dict) and "cache" in str(sensor.get("name")) for sensor in sensors),
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


# --- logarithms of a number by block

Logs = Mapping[int, float]
"""Block -> natural logarithm of its measurement."""


def logs_by_block(items: Iterable[TenantEvidence], value_of: Callable[[TenantEvidence], float | None]) -> Logs:
    """The mean of each block: a block is a single replicate however many trials it contains."""
    found: dict[int, list[float]] = {}
    for item in items:
        value = value_of(item)
        if value is not None and 0 < value < math.inf:
            found.setdefault(item.seen.block, []).append(math.log(value))
    return {block: sum(logs) / len(logs) for block, logs in sorted(found.items())}


def relative_to(series: Logs, reference: Logs) -> Logs:
    """Subtract a reference series from a series, in the blocks that both have."""
    return {block: log - reference[block] for block, log in series.items() if block in reference}
