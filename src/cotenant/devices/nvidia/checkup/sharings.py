"""Available sharing modes, other users of MPS, and leftovers of earlier runs."""

from collections.abc import Iterator

from cotenant.devices.nvidia import controls
from cotenant.devices.nvidia.nvml import GpuFacts
from cotenant.devices.nvidia.sharing import GpuPlace, leftovers, sharing_modes
from cotenant.devices.protocol import Finding
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError

RESTORE = "cotenant doctor --restore"


def every(place: GpuPlace) -> Iterator[Finding]:
    """One finding per sharing mode."""
    for mode in sharing_modes(place):
        if mode.available:
            yield Finding(f"sharing: {mode.mode}", "ok", mode.meaning)
        else:
            instead = f"; next best: {mode.instead}" if mode.instead else ""
            yield Finding(f"sharing: {mode.mode}", "note", f"not available, it needs {mode.missing}{instead}")


def system_daemon(tree: FileTree) -> Finding | None:
    """Check for another MPS daemon: by default, every new process attaches to it."""
    pids = []
    for path in tree.glob("/proc/[0-9]*/cmdline"):
        words = (tree.text(path) or "").split("\0")
        environment = tree.text(path.replace("cmdline", "environ")) or ""
        if words[0].rpartition("/")[2] == "nvidia-cuda-mps-control" and "cotenant-mps-" not in environment:
            pids.append(path.split("/")[2])
    if not pids:
        return None
    text = f"another daemon is running (pid {', '.join(pids)}); tenants don't use it, other processes may"
    return Finding("MPS", "note", text, "echo quit | sudo nvidia-cuda-mps-control, if it is not needed")


def instances(gpu: GpuFacts) -> Finding | None:
    """Check whether the GPU is partitioned by MIG."""
    if gpu.mig_mode is None:
        return None
    if not gpu.mig_mode:
        return Finding("MIG", "ok", "off")
    off = f"sudo nvidia-smi -i {gpu.index} -mig 0"
    if not gpu.instances:
        return Finding("MIG", "problem", "on, but without an instance: nothing can run on this GPU", off)
    listed = ", ".join(f"{one.profile} (cuda:{one.uuid})" for one in gpu.instances)
    text = f"on: {listed}; solo trials run on the largest of them, not on the whole GPU"
    return Finding("MIG", "warning", text, f"{off}, to measure the whole GPU")


def left_behind() -> Iterator[Finding]:
    """Changes a killed run could not undo."""
    try:
        changed = controls.left_behind()
    except DeviceError:
        changed = {}
    for sentences in changed.values():
        yield Finding("left behind", "warning", f"by a killed run; to undo: {'; '.join(sentences)}", RESTORE)
    for left in leftovers.abandoned():
        yield Finding("left behind", "warning", f"by a killed run: {leftovers.described(left)}", RESTORE)
