"""The machine and its limits: cores, quota, clocks, memory, permissions, peak rates."""

from cotenant.devices.cpu import cgroup, machine
from cotenant.devices.cpu.cores import Cores, allowed_cores, format_cores, physical_cores
from cotenant.devices.cpu.roofline import roofline
from cotenant.devices.cpu.sensors.accounting import why_no_perf
from cotenant.devices.cpu.sensors.hardware import find_packages
from cotenant.devices.protocol import Finding
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError

_MIB = 1 << 20
_GIB = 1 << 30


def cores(tree: FileTree, cores: Cores) -> Finding:
    """The number of cores available to share."""
    which = f"core{'s'[: len(cores) > 1]} {format_cores(cores)} of {machine.model_name(tree)}"
    if len(cores) == 1:
        return Finding("cores", "note", f"{which}: tenants can't have dedicated cores, so `pinned` is not available")
    return Finding("cores", "ok", which)


def hyper_threads(tree: FileTree, cores: Cores) -> Finding | None:
    """Hyper-threads that share a physical core."""
    shared = [group for group in physical_cores(tree, cores) if len(group) > 1]
    if not shared:
        return None
    text = f"{len(shared)} physical cores have two or more threads each, which compete for the same units"
    return Finding("hyper-threads", "note", text, "echo off | sudo tee /sys/devices/system/cpu/smt/control")


def quota(tree: FileTree, cores: Cores) -> Finding:
    """A container's limit on CPU time."""
    limit = cgroup.quota_cores(tree)
    if limit is None:
        return Finding("CPU quota", "ok", "none")
    if limit < len(cores):
        text = f"the container may use {limit:g} CPUs, the device has {len(cores)} cores: tenants will be throttled"
        most = format_cores(cores[: max(1, int(limit))])
        return Finding("CPU quota", "warning", text, f"raise the quota, or use cpu:{most}")
    left_out = len(allowed_cores()) - len(cores)
    text = f"{limit:g} CPUs" + (f"; {left_out} cores are left unused to stay below it" if left_out else "")
    return Finding("CPU quota", "note" if left_out > 0 else "ok", text)


def virtual_machine(tree: FileTree, _: Cores) -> Finding:
    """Check for a hypervisor."""
    if machine.is_virtual(tree):
        text = "this is a virtual machine: neighbours, clocks and heat are hidden, and cores may be shared with others"
        return Finding("virtual machine", "note", text)
    return Finding("virtual machine", "ok", "none: this is a physical machine")


def tile_instructions(tree: FileTree, _: Cores) -> Finding | None:
    """Check for AMX that can't be used."""
    if not machine.tiles_unusable(tree):
        return None
    text = "AMX is listed but not described by this virtual machine; not used, to keep torch from crashing"
    return Finding("AMX", "note", text)


def governor(tree: FileTree, cores: Cores) -> Finding:
    """Check whether the clock only rises under load."""
    found = machine.governors(tree, cores)
    if not found:
        return Finding("governor", "note", "the frequency can't be read or set here")
    if found == ("performance",):
        return Finding("governor", "ok", "performance")
    fix = "sudo cpupower frequency-set -g performance"
    return Finding(
        "governor", "warning", f"{', '.join(found)}: the clock follows the load, so a light tenant looks slow", fix
    )


def boost(tree: FileTree, _: Cores) -> Finding | None:
    """Check whether the clock depends on how many cores are busy."""
    state = machine.boost(tree)
    if state is None:
        return None
    if not state:
        return Finding("boost", "ok", "off")
    text = "on: one busy core may run faster than several, which counts as slowdown when tenants share"
    return Finding("boost", "note", text, "add `boost: off` to the study's settings (needs root)")


def huge_pages(tree: FileTree, _: Cores) -> Finding | None:
    """Transparent huge pages: the kernel merges pages in the background."""
    text = tree.text("/sys/kernel/mm/transparent_hugepage/enabled")
    if text is None or "[" not in text:
        return None
    chosen = text.split("[", 1)[1].split("]", 1)[0]
    if chosen == "always":
        fix = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
        return Finding("huge pages", "note", "always: the kernel may merge pages at any time during a trial", fix)
    return Finding("huge pages", "ok", chosen)


def memory(tree: FileTree, _: Cores) -> Finding:
    """Check that there is memory for tenants."""
    available = machine.memory_bytes(tree, "MemAvailable") or 0
    granted = cgroup.free_memory_bytes(tree)
    free = available if granted is None else min(available, granted)
    whose = "" if granted is None or granted > available else " within the container's limit"
    text = f"{free / _GIB:.1f} GiB free{whose}"
    if free < 512 * _MIB:
        return Finding("memory", "problem", f"{text}: a tenant with torch needs about 0.5 GiB", "stop other processes")
    return Finding("memory", "ok" if free >= 2 * _GIB else "warning", text)


def swap(tree: FileTree, _: Cores) -> Finding | None:
    """Check whether memory has been swapped out."""
    total, free = (machine.memory_bytes(tree, name) for name in ("SwapTotal", "SwapFree"))
    if not total or free is None:
        return Finding("swap", "ok", "none")
    used = total - free
    if used > 64 * _MIB:
        return Finding(
            "swap",
            "warning",
            f"{used / _GIB:.1f} GiB swapped out: pages may come back during a trial",
            "sudo swapoff -a",
        )
    return Finding("swap", "ok", f"{total / _GIB:.1f} GiB, unused")


def energy_sensor(tree: FileTree, _: Cores) -> Finding:
    """Check whether energy can be measured."""
    packages = find_packages(tree)
    if packages.denied:
        fix = f"sudo chmod a+r {' '.join(packages.denied)}"
        return Finding("energy sensor", "note", "RAPL is readable by root only: runs have no energy figures", fix)
    if packages.readable:
        return Finding(
            "energy sensor", "ok", f"RAPL, {len(packages.readable)} package{'s'[: len(packages.readable) > 1]}"
        )
    return Finding("energy sensor", "note", "none: runs have no energy figures")


def hardware_counters(tree: FileTree, cores: Cores) -> Finding:
    """Check whether instructions and cache misses can be counted."""
    reason = why_no_perf(cores)
    if reason is None:
        return Finding("hardware counters", "ok", "perf counts on these cores")
    fix = None
    if "may not" in reason:
        level = tree.text("/proc/sys/kernel/perf_event_paranoid")
        reason += f" (perf_event_paranoid is {level})"
        fix = "sudo sysctl kernel.perf_event_paranoid=0"
    elif "not installed" in reason:
        fix = "install your distribution's perf (linux-tools, perf)"
    return Finding("hardware counters", "note", f"{reason}: runs don't have them", fix)


def peak_rates(tree: FileTree, cores: Cores) -> Finding:
    """Peak rates, measured the first time (a few seconds) and cached."""
    try:
        peak = roofline(tree, cores)
    except DeviceError as error:
        return Finding("peak rates", "warning", error.message, error.hint)
    rates = ", ".join(f"{dtype} {rate / 1e9:.3g}" for dtype, rate in peak.flops_per_s.items())
    text = f"GFLOP/s: {rates}; memory {peak.bytes_per_s / 1e9:.3g} GB/s"
    if not peak.undisturbed:
        fix = "run this again when the machine is idle"
        return Finding("peak rates", "warning", f"{text}; too low, since others used the cores meanwhile", fix)
    return Finding("peak rates", "ok", text)
