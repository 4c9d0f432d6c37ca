"""Available sharing modes, other users of MPS, and leftovers of earlier runs."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from cotenant.devices.nvidia import controls, nvml
from cotenant.devices.nvidia.library import DriverProblem, call
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
    listed = ", ".join(f"{instance.profile} (cuda:{instance.uuid})" for instance in gpu.instances)
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


def fix(gpus: Sequence[nvml.GpuFacts]) -> Iterator[Finding]:
    """Undo what killed runs left, and turn on persistence for these GPUs, recorded for `restore`."""
    yield from _left_behind()
    for gpu in gpus:
        if gpu.persistence is False:
            yield _persistence(gpu, on=True)


def restore() -> Iterator[Finding]:
    """Undo what killed runs left and what `fix` changed."""
    yield from _left_behind()
    for note in sorted(_fixes().glob("*.json")) if _fixes().is_dir() else ():
        try:
            gpu = nvml.find(str(json.loads(note.read_text(encoding="utf-8"))["gpu"]))
        except (OSError, ValueError, KeyError, TypeError, DeviceError) as error:
            yield Finding(
                "persistence", "warning", f"{note} can't be used: {getattr(error, 'message', error)}", f"rm {note}"
            )
            continue
        yield _persistence(gpu, on=False)


def _left_behind() -> Iterator[Finding]:
    try:
        for gpu in nvml.gpus():
            yield from (Finding("put back", "ok", sentence) for sentence in controls.restore(gpu))
    except DeviceError as error:
        yield Finding("controls", "note", f"not checked: {error.message}", error.hint)
    for left in leftovers.abandoned():
        try:
            yield Finding("put back", "ok", left.undo())
        except DeviceError as error:
            yield Finding("left behind", "problem", error.message, error.hint or "try again as root")


def _persistence(gpu: nvml.GpuFacts, *, on: bool) -> Finding:
    note = _fixes() / f"persistence-{gpu.uuid}.json"
    try:
        call("nvmlDeviceSetPersistenceMode", nvml.handle(gpu), int(on), of=gpu.label)
    except DriverProblem as problem:
        fix = f"sudo nvidia-smi -i {gpu.index} -pm {int(on)}"
        return Finding("persistence", "problem", f"can't be turned {'on' if on else 'off'}: {problem.message}", fix)
    if on:
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.write_text(json.dumps({"gpu": gpu.uuid}), encoding="utf-8")
    else:
        note.unlink(missing_ok=True)
    return Finding("persistence", "ok", f"of {gpu.label} is {'on now' if on else 'off again'}")


def _fixes() -> Path:
    return leftovers.folder().parent / "fixes"
