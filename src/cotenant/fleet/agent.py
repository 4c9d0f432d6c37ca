"""Represents one node: its versions, clock and devices, its doctor, its runs. Lives in an actor there."""

import contextlib
import os
import platform
import socket
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from cotenant.errors import CotenantError, DeviceError
from cotenant.fleet import wire

BOOT = Path("/proc/sys/kernel/random/boot_id")
VERSIONS = ("cotenant", "torch", "ray")


class NodeAgent:
    """One node's replies, each as JSON."""

    def __init__(self) -> None:
        as_outside_of_ray()

    def survey(self) -> bytes:
        """Facts about this node."""
        return _said(survey)

    def clock(self) -> bytes:
        """The node's time of day."""
        return wire.packed({"utc_s": time.time()})

    def devices(self) -> bytes:
        """Output of `cotenant devices` on this node, without simulated devices."""
        return _said(_devices)

    def doctor(self, device: bytes) -> bytes:
        """Findings of `cotenant doctor` on this node."""
        return _said(lambda: _doctor(wire.unpacked(device)))

    def selftest(self, device: bytes) -> bytes:
        """Findings of `cotenant selftest` on this node."""
        return _said(lambda: _selftest(wire.unpacked(device)))

    def runs(self, folder: bytes) -> bytes:
        """Run folders below a folder of this node."""
        return _said(lambda: _runs(Path(wire.unpacked(folder))))

    def fetch_run(self, run: bytes) -> bytes:
        """A run folder with all of its files; JSON with a problem if it can't be read."""
        from cotenant.fleet.wire import run_parcel

        try:
            return run_parcel(Path(wire.unpacked(run)))
        except CotenantError as error:
            return wire.problem(error)


def survey() -> dict[str, Any]:
    """Versions, clock, host and devices of this machine."""
    from cotenant.devices.cpu import open_cpu

    found = [open_cpu("cpu", None), *_gpus()]
    devices = []
    for device in found:
        described = dict(device.describe())
        devices.append(
            {
                "name": device.name,
                "identity": described.get("uuid"),
                "model": described.get("model") or device.meaning,
                "meaning": device.meaning,
                "keys": list(device.lock_keys()),
                "driver": described.get("driver") or described.get("driver_version"),
            }
        )
    return {
        "versions": {name: _version(name) for name in VERSIONS} | {"python": platform.python_version()},
        # Two nodes with the same lock folder are one machine, whatever their names.
        "machine": f"{_boot()} {os.environ.get('COTENANT_LOCKS', '')}",
        "host": socket.gethostname(),
        "auth": os.environ.get("RAY_AUTH_MODE", ""),
        "niceness": niceness(),
        "utc_s": time.time(),
        "devices": devices,
    }


def _gpus() -> list[Any]:
    from cotenant.devices.catalogue import accelerators

    return list(accelerators())


def _devices() -> list[dict[str, Any]]:
    from dataclasses import asdict

    from cotenant.devices import list_devices

    return [
        {
            "name": device.name,
            "meaning": device.meaning,
            "sharings": [asdict(mode) for mode in device.sharings],
        }
        for device in list_devices()
        if not device.simulated
    ]


def _doctor(device: str | None) -> list[dict[str, Any]]:
    from dataclasses import asdict

    from cotenant.devices import find_device

    names = [device] if device else ["cpu", *(gpu.name for gpu in _gpus())]
    return [
        asdict(finding) | {"subject": f"{name} {finding.subject}" if len(names) > 1 else finding.subject}
        for name in names
        for finding in find_device(name).checkup()
    ]


def _selftest(device: str) -> Any:
    from cotenant.analyse.tabular import plain
    from cotenant.devices import find_device
    from cotenant.measure.selftest import try_out

    place = find_device(device)
    if place.simulated or place.names:
        raise DeviceError(f"{place.name} can't be tested", hint="name one device: cpu, cuda:0")
    found = try_out(place)
    return {"passed": found.passed, "selftest": plain(found)}


def _runs(folder: Path) -> list[str]:
    from cotenant.fleet.wire import runs_below

    return [str(path) for path in runs_below(folder)]


def _said(work: Callable[[], Any]) -> bytes:
    try:
        return wire.packed(work())
    except CotenantError as error:
        return wire.problem(error)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _boot() -> str:
    try:
        return BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


# --- undo what Ray sets in its workers' environment, which differs from that of the machine's own processes

_BY_RAY = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
"""Ray's settings for an actor that reserves nothing. Tenants would inherit them: one thread, and no GPU."""


def as_outside_of_ray() -> None:
    """Remove Ray's settings; different values come from the machine itself, and stay."""
    for name, value in _BY_RAY.items():
        if os.environ.get(name) == value:
            del os.environ[name]
    with contextlib.suppress(PermissionError):
        # Ray's workers run at nice 15; tenants would inherit that too.
        os.setpriority(os.PRIO_PROCESS, 0, 0)


def niceness() -> int:
    """Niceness of this process."""
    return os.getpriority(os.PRIO_PROCESS, 0)
