"""Peak rates of a GPU: measured once in a separate process, then cached for this GPU and driver."""

import hashlib
import json
import logging
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from cotenant.cache import cache_folder
from cotenant.devices.cpu.machine import version_of
from cotenant.devices.nvidia.torch_side import on_cpu
from cotenant.devices.protocol import Roofline
from cotenant.errors import DeviceError

log = logging.getLogger(__name__)

_VERSION = 1
_TIMEOUT_S = 180


def roofline(visible: str, *, sms: int, driver: str, refresh: bool = False) -> Roofline:
    """Peak rates of a GPU or an instance.

    Args:
        visible: Its UUID.
        sms: Its SMs.
        driver: Its version; another version may have other kernels, so it is measured again.
        refresh: Measure even if a result is cached.

    Raises:
        DeviceError: The measurement failed.
    """
    if on_cpu():
        raise DeviceError("torch is kept on the CPU, so the GPU's peak rates can't be measured")
    kept = None if refresh else remembered(visible, driver=driver)
    if kept is not None:
        return kept
    log.info("measuring the peak rates of %s", visible)
    command = [sys.executable, "-m", "cotenant.devices.nvidia.roofline_worker"]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": visible},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
        found = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise DeviceError(f"the GPU's peak rates could not be measured within {_TIMEOUT_S} s") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise DeviceError(f"the GPU's peak rates could not be measured: {last[:300]}") from None
    measured = Roofline(
        flops_per_s=found["flops_per_s"],
        bytes_per_s=found["bytes_per_s"],
        cores=sms,
        measured_utc=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    path = _path(visible, driver)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(measured)), encoding="utf-8")
    return measured


def remembered(visible: str, *, driver: str) -> Roofline | None:
    """The cached result; None if not measured yet."""
    try:
        return Roofline(**json.loads(_path(visible, driver).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _path(visible: str, driver: str) -> Path:
    key = json.dumps([_VERSION, visible, driver, version_of("torch")])
    return cache_folder("roofline") / f"gpu-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
