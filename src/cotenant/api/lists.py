"""Lists of studies, devices, workloads and servers; and export of a model for servers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from cotenant.devices import DeviceInfo
    from cotenant.study.library import StudyInfo
    from cotenant.workloads import WorkloadInfo
    from cotenant.workloads.servers.presets import Preset


def list_studies() -> "tuple[StudyInfo, ...]":
    """The built-in studies."""
    from cotenant.study.library import builtin_studies

    return builtin_studies()


def list_devices(*, on: str | None = None, insecure: bool = False) -> "tuple[DeviceInfo, ...]":
    """The devices of this machine, or of all nodes of a Ray cluster.

    Args:
        on: `ray` or `ray://host:port`.
        insecure: Accept a cluster without token authentication.
    """
    from cotenant import devices

    if on is not None:
        from cotenant.fleet import asking

        return asking.list_devices(on, insecure=insecure)

    return devices.list_devices()


def list_workloads(words: str | None = None) -> "tuple[WorkloadInfo, ...]":
    """The catalogue, with the cost of one request of each entry at its defaults.

    The costs come from a dry run without weights, cached after the first time.

    Args:
        words: Only entries whose name, family or description contains all of these.
    """
    from cotenant.workloads import catalogue, described

    wanted = (words or "").lower().split()
    found = [
        entry
        for entry in catalogue()
        if all(word in f"{entry.name} {entry.family} {entry.about}".lower() for word in wanted)
    ]
    return tuple(described(entry) for entry in found)


def list_servers() -> "tuple[Preset, ...]":
    """The servers that a study can start by name."""
    from cotenant.workloads.servers.presets import PRESETS

    return tuple(PRESETS.values())


def export_workload(
    name: str, folder: "str | Path", *, seed: int = 0, dtype: str = "float32", gguf: bool = False
) -> "dict[str, Any]":
    """Write a model of the catalogue into a folder that servers can load; returns what was written.

    Args:
        name: A model of the catalogue.
        folder: A new or empty folder.
        seed: Seed of the random weights.
        dtype: Format of the weights: float32, bfloat16 or float16.
        gguf: Also write model.gguf, for llama.cpp; models of the Llama family.

    Raises:
        WorkloadError: It is not a language model, or the folder is not empty.
    """
    from pathlib import Path

    from cotenant.errors import WorkloadError
    from cotenant.workloads import find
    from cotenant.workloads.models.exporting import export_model
    from cotenant.workloads.models.workload import ModelWorkload

    workload = find(name)
    if not isinstance(workload, ModelWorkload):
        raise WorkloadError(f"{name} is not a model of the catalogue", hint="`cotenant workloads decoder` lists some")
    return export_model(workload.entry, Path(folder), seed=seed, dtype=dtype, gguf=gguf)
