"""The device that a prediction or a plan is for, and the catalogue GPU that stands for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cotenant.errors import PredictionError

if TYPE_CHECKING:
    from cotenant.devices.protocol import Device
    from cotenant.devices.simulated.simulated_gpu import SimulatedGpuDevice


@dataclass(frozen=True, slots=True)
class TargetDevice:
    """The device in question."""

    name: str
    kind: str
    simulated: bool
    modes: tuple[str, ...]
    cores: int
    """Cores of a CPU; 0 for other devices."""
    device: "Device"


def place_at(device: str) -> TargetDevice:
    """The device of that name. Raises DeviceError."""
    from cotenant.analyse.sharing import cores_of
    from cotenant.devices import find_device

    found = find_device(device)
    description = found.describe()
    return TargetDevice(
        name=found.name,
        kind=kind_of(description),
        simulated=found.simulated,
        modes=tuple(mode.mode for mode in found.sharings() if mode.available),
        cores=cores_of({"device_description": description}) if found.kind == "cpu" else 0,
        device=found,
    )


def kind_of(description: Mapping[str, Any]) -> str:
    """Identity of a kind of device: the model and, for a CPU, the number of cores."""
    from cotenant.analyse.sharing import cores_of

    model = str(description.get("model") or description.get("title") or description.get("name") or "unknown device")
    cores = description.get("cores")
    return f"{model}, {cores_of({'device_description': description})} cores" if cores else model


def twin_of(place: TargetDevice) -> "SimulatedGpuDevice":
    """The catalogue GPU that stands for the device. Raises PredictionError if there is none."""
    from cotenant.devices.simulated.catalogue.find import gpu_names
    from cotenant.devices.simulated.simulated_gpu import open_simulated

    if place.device.simulated:
        return place.device.simulation()
    plain = place.kind.lower().removeprefix("nvidia ").replace(" ", "-")
    near = [name for name in gpu_names() if plain.startswith(name) or name.startswith(plain)]
    if not near:
        raise PredictionError(
            f"{place.kind} is not in the catalogue of GPUs, so there is no prior for it",
            hint="measure the mixes: cotenant run STUDY; or describe the GPU in a file: --device sim:/path/to/gpu.yaml",
        )
    return open_simulated(f"sim:{near[0]}")
