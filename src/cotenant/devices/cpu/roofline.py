"""Peak rates of the cores: measured once in a separate process, then cached for this machine."""

import hashlib
import json
import logging
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cotenant import opening
from cotenant.cache import cache_folder
from cotenant.devices.cpu.core_sharing import thread_environment
from cotenant.devices.cpu.cores import Cores, format_cores
from cotenant.devices.cpu.machine import cache_bytes, memory_bytes, model_name, version_of
from cotenant.devices.cpu.sensors.accounting import BUSY, STEAL, open_time
from cotenant.devices.protocol import Roofline
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError
from cotenant.extras import installed

log = logging.getLogger(__name__)

_VERSION = 1
"""Version of the method; results of another version are discarded."""
_TIMEOUT_S = 120
_DISTURBING = 0.1
"""Share of the cores' time used by others beyond which a result is cached only briefly."""
_KEPT = timedelta(hours=1)
"""How long a disturbed result is used before measuring again."""
_SMALLEST_ARRAY = 64 << 20
_LARGEST_ARRAY = 512 << 20


def roofline(tree: FileTree, cores: Cores, *, refresh: bool = False) -> Roofline:
    """Peak rates of these cores.

    Args:
        tree: Identifies this machine.
        cores: All are used at once.
        refresh: Measure again even if a result is cached.

    Raises:
        DeviceError: The measurement failed.
    """
    path = cache_path(tree, cores)
    kept = None if refresh else _recall(path)
    if kept is not None:
        return kept
    log.info("measuring the peak rates of cores %s", format_cores(cores))
    measured = _measure(tree, cores)
    try:
        _remember(path if measured.undisturbed else _disturbed(path), measured)
    except OSError as error:  # with a read-only home it is measured each time
        log.info("peak rates are not cached: %s", error)
    return measured


def remembered(tree: FileTree, cores: Cores) -> Roofline | None:
    """The cached result, even if disturbed and recent. Never measures."""
    path = cache_path(tree, cores)
    found = _recall(path)
    if found is not None:
        return found
    found = _recall(_disturbed(path))
    if found is None or not _recent(found.measured_utc):
        return None
    return replace(found, undisturbed=False)


def cache_path(tree: FileTree, cores: Cores) -> Path:
    """Cache file for this machine, these cores and this torch."""
    key = json.dumps(
        [
            _VERSION,
            tree.text("/etc/machine-id"),
            model_name(tree),
            memory_bytes(tree, "MemTotal"),
            list(cores),
            version_of("torch"),
        ]
    )
    return cache_folder("roofline") / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _disturbed(path: Path) -> Path:
    return path.with_suffix(".disturbed.json")


def _recent(measured_utc: str) -> bool:
    """Measuring again would take seconds and most likely be disturbed as well."""
    try:
        age = datetime.now(UTC) - datetime.fromisoformat(measured_utc)
    except (TypeError, ValueError):
        return False
    return timedelta(0) <= age < _KEPT


def _recall(path: Path) -> Roofline | None:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        found = Roofline(
            flops_per_s={str(dtype): float(rate) for dtype, rate in kept["flops_per_s"].items()},
            bytes_per_s=float(kept["bytes_per_s"]),
            cores=int(kept["cores"]),
            measured_utc=str(kept["measured_utc"]),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    plausible = found.bytes_per_s > 0 and found.flops_per_s and min(found.flops_per_s.values()) > 0
    return found if plausible else None


def _remember(path: Path, measured: Roofline) -> None:
    opening.replace_file(path, json.dumps(asdict(measured)))


def _measure(tree: FileTree, cores: Cores) -> Roofline:
    if not installed("torch"):
        raise DeviceError("peak rates are measured with torch, which isn't installed")
    order = {"cores": list(cores), "array_bytes": _array_bytes(tree, cores)}
    command = [sys.executable, "-m", "cotenant.devices.cpu.roofline_worker", json.dumps(order)]
    environment = {**os.environ, **thread_environment(len(cores))}
    watch = _ForeignTime(tree, cores)
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
        result = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise DeviceError(
            f"the roofline could not be measured within {_TIMEOUT_S} s", hint="stop other work on the machine"
        ) from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise DeviceError(
            f"the roofline could not be measured: {last}", hint="`cotenant doctor` checks torch"
        ) from None
    except (OSError, ValueError) as error:
        raise DeviceError(f"the roofline could not be measured: {error}") from None
    return Roofline(
        flops_per_s=result["flops_per_s"],
        bytes_per_s=result["bytes_per_s"],
        cores=len(cores),
        measured_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        undisturbed=watch.share() < _DISTURBING,
    )


class _ForeignTime:
    """Share of the cores' time that went to others, the hypervisor included, while our children ran."""

    def __init__(self, tree: FileTree, cores: Cores) -> None:
        self._probe = open_time(tree, cores)
        self._cores = len(cores)
        self._start = (time.monotonic(), self._used())

    def share(self) -> float:
        """Seconds since it was created; 0 where the kernel doesn't keep accounts."""
        began, before = self._start
        return (self._used() - before) / ((time.monotonic() - began) * self._cores)

    def _used(self) -> float:
        if self._probe is None:
            return 0.0
        reading = self._probe.read()
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return reading[BUSY] + reading[STEAL] - children.ru_utime - children.ru_stime


def _array_bytes(tree: FileTree, cores: Cores) -> int:
    """Twice the last-level cache for each of three arrays, so that none survives a pass; limited by memory."""
    last_level = max(cache_bytes(tree, cores[0]).values(), default=0)
    available = memory_bytes(tree, "MemAvailable") or 8 * _SMALLEST_ARRAY
    return min(max(2 * last_level, _SMALLEST_ARRAY), _LARGEST_ARRAY, available // 8)
