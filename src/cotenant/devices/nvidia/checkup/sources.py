"""What can be read here, from where, and whether it can be believed."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from cotenant.analyse.energy import sensor_faults
from cotenant.devices.nvidia import sensors
from cotenant.devices.nvidia.ladder import LADDERS
from cotenant.devices.protocol import Finding
from cotenant.devices.tree import FileTree

if TYPE_CHECKING:
    from cotenant.devices.nvidia.device import CudaDevice

WATCH_S = sensor_faults.STUCK_S + 0.2
WATCH_STEP_S = 0.1


def every(device: "CudaDevice") -> Iterator[Finding]:
    """Per metric the source; what the power sensor is worth; whether a sensor stands still."""
    for choice in device.ladder():
        subject = choice.metric
        if choice.rung is None:
            yield Finding(subject, "note", f"none here: {choice.sentence}")
            continue
        best = choice.rung is LADDERS[choice.metric][0]
        fix = device.activity().fix if choice.metric == "activity" and not best else None
        told = choice.rung.source == "DCGM" or best
        text = choice.sentence.removeprefix(f"{subject} ")
        yield Finding(subject, "ok" if told else "note", text, fix)
    yield _power_sensor(device)
    yield watched(device)


def _power_sensor(device: "CudaDevice") -> Finding:
    worth = sensors.power_counter(device.gpu)
    if worth is None:
        return Finding("power sensor", "note", "none: runs are without power and energy")
    return Finding("power sensor", "ok", worth.quality)


def watched(device: "CudaDevice") -> Finding:
    """Read everything for two seconds: a sensor that stands still while others move is stuck."""
    seen: dict[str, list[tuple[float, float]]] = {}
    until = time.monotonic() + WATCH_S
    try:
        while (now := time.monotonic()) < until:
            for probe in device.probes():
                for info, value in zip(probe.sensors, probe.read(), strict=True):
                    seen.setdefault(info.name, []).append((now, value))
            time.sleep(WATCH_STEP_S)
    except OSError as error:
        return Finding("sensors", "problem", f"they vanished while they were watched: {error}", "see `sudo dmesg`")
    series = {name: (np.array([t for t, _ in rows]), np.array([v for _, v in rows])) for name, rows in seen.items()}
    faults = sensor_faults.faults(series)
    if faults:
        fix = "reload the driver or reset the GPU; until then power and energy of runs here mean nothing"
        return Finding("sensors", "problem", "; ".join(faults), fix)
    return Finding("sensors", "ok", f"{len(series)} read for {WATCH_S:.0f} s, none stuck")


def profiling_counters(tree: FileTree) -> Finding | None:
    """Whether profilers (DCGM, nsys) may count without root."""
    text = tree.text("/proc/driver/nvidia/params")
    if text is None:
        return None
    restricted = next(
        (line.split(":")[1].strip() for line in text.splitlines() if "RmProfilingAdminOnly" in line), None
    )
    if restricted is None:
        return None
    if restricted == "0":
        return Finding("profiling counters", "ok", "everybody may use them")
    fix = (
        "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-profiling.conf, "
        "then reboot; or profile as root"
    )
    return Finding(
        "profiling counters", "note", "kept for root: profile passes show no SM, tensor or DRAM activity", fix
    )
