"""Readable metrics, their sources, and whether to trust them."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from cotenant.analyse import energy
from cotenant.devices.nvidia import gpu_sensors
from cotenant.devices.nvidia.gpu_sensors import LADDERS
from cotenant.devices.protocol import Finding
from cotenant.devices.tree import FileTree

if TYPE_CHECKING:
    from cotenant.devices.nvidia.cuda_device import CudaDevice

WATCH_S = energy.STUCK_S + 0.2
WATCH_STEP_S = 0.1


def every(device: "CudaDevice") -> Iterator[Finding]:
    """The source of each metric, the quality of the power sensor, and stuck sensors."""
    for choice in device.ladder():
        subject = choice.metric
        if choice.rung is None:
            yield Finding(subject, "note", f"none here: {choice.sentence}")
            continue
        best = choice.rung is LADDERS[choice.metric][0]
        fix = device.activity().fix if choice.metric == "activity" and not best else None
        good = choice.rung.source == "DCGM" or best
        text = choice.sentence.removeprefix(f"{subject} ")
        yield Finding(subject, "ok" if good else "note", text, fix)
    yield _power_sensor(device)
    yield watched(device)


def _power_sensor(device: "CudaDevice") -> Finding:
    worth = gpu_sensors.power_counter(device.gpu)
    if worth is None:
        return Finding("power sensor", "note", "none: runs have no power or energy figures")
    return Finding("power sensor", "ok", worth.quality)


def watched(device: "CudaDevice") -> Finding:
    """Read everything for two seconds: a sensor that stays constant while others change is stuck."""
    seen: dict[str, list[tuple[float, float]]] = {}
    until = time.monotonic() + WATCH_S
    try:
        while (now := time.monotonic()) < until:
            for probe in device.probes():
                for info, value in zip(probe.sensors, probe.read(), strict=True):
                    seen.setdefault(info.name, []).append((now, value))
            time.sleep(WATCH_STEP_S)
    except OSError as error:
        return Finding("sensors", "problem", f"lost while being watched: {error}", "see `sudo dmesg`")
    series = {name: (np.array([t for t, _ in rows]), np.array([v for _, v in rows])) for name, rows in seen.items()}
    faults = energy.faults(series)
    if faults:
        fix = "reload the driver or reset the GPU; until then power and energy of runs are meaningless"
        return Finding("sensors", "problem", "; ".join(faults), fix)
    return Finding("sensors", "ok", f"{len(series)} read for {WATCH_S:.0f} s, none stuck")


def profiling_counters(tree: FileTree) -> Finding | None:
    """Check whether profilers (DCGM, nsys) can count without root."""
    text = tree.text("/proc/driver/nvidia/params")
    if text is None:
        return None
    restricted = next(
        (line.split(":")[1].strip() for line in text.splitlines() if "RmProfilingAdminOnly" in line), None
    )
    if restricted is None:
        return None
    if restricted == "0":
        return Finding("profiling counters", "ok", "available to all users")
    fix = (
        "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-profiling.conf, "
        "then reboot; or profile as root"
    )
    return Finding(
        "profiling counters", "note", "restricted to root: profile passes have no SM, tensor or DRAM activity", fix
    )
