"""Undoes each kind of change: on exit, by the guard, or by the doctor. All are idempotent."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotenant.devices.nvidia import library, nvml, tools
from cotenant.devices.nvidia.sharing import compute_mode
from cotenant.devices.nvidia.sharing.daemon import Daemon
from cotenant.errors import DeviceError

GONE = ("not found", "no such", "does not exist", "no gpu instances", "no compute instances")


def end_daemon(facts: Mapping[str, Any]) -> str:
    """Stop one of our MPS daemons and remove its directory."""
    directory = Path(str(facts["directory"]))
    if not directory.name.startswith("cotenant-mps-"):
        raise DeviceError(f"{directory} is not the directory of a cotenant MPS daemon")
    ended = Daemon(directory, str(facts["gpu"])).end()
    return f"stopped the MPS daemon in {directory}" if ended else f"removed {directory}, whose MPS daemon was gone"


def put_instances_back(facts: Mapping[str, Any]) -> str:
    """Remove the MIG instances created, and turn MIG off if it was off."""
    index = str(int(facts["index"]))
    done = []
    for instance in facts["made"]:
        number = str(int(instance))
        for command in ("-dci", "-dgi"):
            said = tools.run(["nvidia-smi", "mig", "-i", index, command, "-gi", number])
            if not said.ok and not any(phrase in said.reason.lower() for phrase in GONE):
                raise DeviceError(f"MIG instance {number} of GPU {index} can't be removed: {said.reason}")
        done.append(f"removed MIG instance {number} of GPU {index}")
    nvml.forget()  # the library must be reopened to see them gone
    if facts["off"] and _mig_is_or_will_be_on(nvml.find(str(facts["gpu"]))):
        said = tools.run(["nvidia-smi", "-i", index, "-mig", "0"])
        if not said.ok:
            raise DeviceError(f"MIG of GPU {index} can't be turned off: {said.reason}")
        done.append(f"turned MIG of GPU {index} off")
    return "; ".join(done) or f"nothing was left on GPU {index}"


def _mig_is_or_will_be_on(gpu: nvml.GpuFacts) -> bool:
    """Turn it off also if it is only pending, so that it doesn't appear after the next reset."""
    return any(library.ask("nvmlDeviceGetMigMode", nvml.handle(gpu), of=gpu.label) or ())


def put_mode_back(facts: Mapping[str, Any]) -> str:
    """Restore the previous compute mode."""
    gpu, mode = nvml.find(str(facts["gpu"])), facts["mode"]
    if mode is not None and compute_mode.read(gpu) != int(mode):
        compute_mode.write(gpu, int(mode))
        return f"set {gpu.label} back to compute mode `{compute_mode.NAMES.get(int(mode), mode)}`"
    return f"{gpu.label} is already in its compute mode"
