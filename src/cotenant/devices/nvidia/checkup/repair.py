"""Repairs the doctor may make: only safe ones that can be undone."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from cotenant.devices.nvidia import controls, nvml
from cotenant.devices.nvidia.library import DriverProblem, call
from cotenant.devices.nvidia.sharing import leftovers
from cotenant.devices.protocol import Finding
from cotenant.errors import DeviceError


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
            yield Finding("persistence", "warning", f"{note} can't be used: {error}", f"rm {note}")
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
