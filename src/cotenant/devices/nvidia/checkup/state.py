"""How the GPU stands now: modes, limits, clocks, heat, and who else is on it."""

import os

from cotenant.devices.nvidia import nvml
from cotenant.devices.nvidia.library import ask
from cotenant.devices.nvidia.nvml import GpuFacts, handle
from cotenant.devices.nvidia.sensors import reasons_function
from cotenant.devices.nvidia.sharing import compute_mode
from cotenant.devices.protocol import Finding

NEAR_C = 5
SLOWED = {
    0x04: "the power limit holds the clock down",
    0x08: "the hardware slows the clock down",
    0x20: "the driver slows the clock down for heat",
    0x40: "the hardware slows the clock down for heat",
    0x80: "the power supply asks to slow down",
}
"""Bits of the driver's event reasons."""
LOCKED = 0x02
_SLOWDOWN, _VOLATILE, _UNCORRECTED = 1, 0, 1


def compute_mode_now(gpu: GpuFacts) -> Finding | None:
    """Who may be on it."""
    now = compute_mode.read(gpu)
    if now is None:
        return None
    if now == compute_mode.DEFAULT:
        return Finding("compute mode", "ok", "default: several processes may share the GPU")
    fix = f"sudo nvidia-smi -i {gpu.index} -c 0"
    name = compute_mode.NAMES.get(now, str(now))
    if now == compute_mode.PROHIBITED:
        return Finding("compute mode", "problem", f"{name}: no process may use the GPU", fix)
    return Finding("compute mode", "warning", f"{name}: one process only, so `processes` can't be measured", fix)


def persistence(gpu: GpuFacts) -> Finding | None:
    """Whether the driver stays loaded."""
    if gpu.persistence is None:
        return None
    if gpu.persistence:
        return Finding("persistence", "ok", "on")
    text = "off: the driver unloads when nobody uses the GPU, and settings and energy counters are lost with it"
    return Finding("persistence", "warning", text, f"sudo nvidia-smi -i {gpu.index} -pm 1 (or: cotenant doctor --fix)")


def ecc(gpu: GpuFacts) -> Finding | None:
    """Whether memory errors are corrected, and whether some could not be."""
    if gpu.ecc is None:
        return None
    broken = ask("nvmlDeviceGetTotalEccErrors", handle(gpu), _UNCORRECTED, _VOLATILE, of=gpu.label)
    if broken:
        text = f"{broken} memory errors since the driver was loaded could not be corrected: results may be wrong"
        return Finding(
            "ECC", "problem", text, f"sudo nvidia-smi -i {gpu.index} --gpu-reset; replace the card if it stays"
        )
    return Finding("ECC", "ok" if gpu.ecc else "note", "on" if gpu.ecc else "off: memory errors go unseen")


def memory(gpu: GpuFacts) -> Finding:
    """How much is free."""
    free, total = nvml.free_memory_bytes(gpu), gpu.memory_bytes
    text = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
    return Finding("memory", "ok" if free > 0.9 * total else "note" if free > 0.5 * total else "warning", text)


def foreign_processes(gpu: GpuFacts) -> Finding:
    """Who else is on it."""
    others = [one for one in nvml.processes(gpu) if one.pid != os.getpid()]
    if not others:
        return Finding("other processes", "ok", "none")
    named = [
        f"{(one.name or '?').rpartition('/')[2]} (pid {one.pid}"
        + (f", {one.memory_bytes / 2**30:.1f} GiB)" if one.memory_bytes else ")")
        for one in others[:3]
    ]
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    text = f"{', '.join(named)}{more}: what they do is measured as if it were the tenants' slowdown"
    return Finding("other processes", "warning", text, f"stop them: kill {' '.join(str(one.pid) for one in others)}")


def power_limit(gpu: GpuFacts) -> Finding | None:
    """Whether it is as the maker set it."""
    limits = gpu.power_limits
    if limits is None:
        return Finding("power limit", "note", "this GPU does not tell")
    if limits.now < limits.default - 1:
        text = f"{limits.now:g} W, below the usual {limits.default:g} W: the clock will fall under load"
        return Finding("power limit", "warning", text, f"sudo nvidia-smi -i {gpu.index} -pl {limits.default:g}")
    return Finding("power limit", "ok", f"{limits.now:g} W (can be {limits.low:g} to {limits.high:g} W)")


def clocks(gpu: GpuFacts) -> Finding | None:
    """The clock now, and what holds it down."""
    now = ask("nvmlDeviceGetClockInfo", handle(gpu), 1, of=gpu.label)
    if now is None:
        return None
    told_by = reasons_function(gpu)
    reasons = int((told_by and ask(told_by, handle(gpu), of=gpu.label)) or 0)
    slowed = [words for bit, words in SLOWED.items() if reasons & bit]
    top = f" of at most {gpu.sm_clocks_mhz[0]}" if gpu.sm_clocks_mhz else ""
    text = f"SMs at {now}{top} MHz"
    if told_by is None:
        return Finding("clocks", "note", f"{text}; this driver does not tell what holds them down")
    if slowed:
        fix = "let it cool down, or lock a clock that it can hold: settings: [{sm_clock_mhz: 70%}] (needs root)"
        return Finding("clocks", "warning", f"{text}: {'; '.join(slowed)}", fix)
    if reasons & LOCKED:
        text += ", locked or set by an administrator"
        return Finding("clocks", "note", text, f"sudo nvidia-smi -i {gpu.index} -rgc, if that isn't wanted")
    return Finding("clocks", "ok", f"{text}, free to boost: they follow power and heat unless a study locks them")


def temperature(gpu: GpuFacts) -> Finding | None:
    """How far it is from slowing down."""
    now = ask("nvmlDeviceGetTemperature", handle(gpu), 0, of=gpu.label)
    if now is None:
        return None
    limit = ask("nvmlDeviceGetTemperatureThreshold", handle(gpu), _SLOWDOWN, of=gpu.label)
    text = f"{now} °C" + (f"; it slows down at {limit} °C" if limit else "")
    if limit and now >= limit - NEAR_C:
        return Finding("temperature", "warning", text, "let it cool down, or see to its air")
    return Finding("temperature", "ok", text)


def controls(gpu: GpuFacts) -> Finding:
    """Whether this user may set clocks and limits."""
    if compute_mode.may_write(gpu):
        return Finding("controls", "ok", "clocks, power limit and modes may be set here")
    text = "only root may set clocks, power limit and modes: runs take the clocks as they come, and record them"
    return Finding("controls", "note", text, "run as root where a study has `settings`")
