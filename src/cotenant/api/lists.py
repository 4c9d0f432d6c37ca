"""Lists of studies, devices, workloads and servers; and export of a model for servers."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cotenant.errors import DeviceError, WorkloadError
from cotenant.tenancy.device_names import DeviceName

if TYPE_CHECKING:
    from pathlib import Path

    from cotenant.devices import DeviceInfo
    from cotenant.prediction.kernels import KernelTrace
    from cotenant.study.schema import StudyInfo
    from cotenant.workloads import WorkloadInfo
    from cotenant.workloads.servers import Preset


def list_studies() -> "tuple[StudyInfo, ...]":
    """The built-in studies."""
    from cotenant.study.schema import builtin_studies

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


def list_workloads(
    words: str | None = None, *, say: Callable[[str], None] = lambda _: None
) -> "tuple[WorkloadInfo, ...]":
    """The catalogue, with the cost of a request of each entry at its defaults.

    The costs come from a dry run without weights, cached after the first time.

    Args:
        words: Only entries whose name, family or description contains all of these, whatever their ending.
        say: Called once if it takes longer than a second.
    """
    from cotenant.workloads import described
    from cotenant.workloads.catalogue import matching

    infos: list[WorkloadInfo] = []
    began, told = time.monotonic(), False
    for entry in matching(words or ""):
        if not told and time.monotonic() - began > 1:
            told = True
            say("describing the workloads, which takes a moment the first time")
        infos.append(described(entry))
    return tuple(infos)


def list_servers() -> "tuple[Preset, ...]":
    """The servers that a study can start by name."""
    from cotenant.workloads.servers import PRESETS

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
    from cotenant.workloads.models import ModelWorkload, export_model

    workload = find(name)
    if not isinstance(workload, ModelWorkload):
        raise WorkloadError(f"{name} is not a model of the catalogue", hint="`cotenant workloads decoder` lists some")
    return export_model(workload.entry, Path(folder), seed=seed, dtype=dtype, gguf=gguf)


# --- `cotenant workloads NAME --kernels`: the kernels of a request on a simulated GPU

DEVICE = "sim:a100-sxm4-40gb"


def list_kernels(
    workload: str,
    *,
    device: str = DEVICE,
    batch: int = 1,
    seq: int | None = None,
    dtype: str | None = None,
    train: bool = False,
    software: str = "eager",
) -> "KernelTrace":
    """The kernels that a request of a workload runs on a simulated GPU.

    Args:
        workload: Its name.
        device: A simulated GPU, `sim:...`.
        batch: Items per request.
        seq: Tokens per item; None: the workload's default.
        dtype: Number format; None: the GPU's preference.
        train: A training step instead of inference.
        software: Execution mode: `eager`, `compile`, `graphs`, `onnxruntime`, `tensorrt` or `vllm`.

    Raises:
        DeviceError: The device isn't simulated.
        WorkloadError: There is no such workload or number format, or its kernels are known only while it runs.
    """
    from typing import get_args

    from cotenant.devices.simulated import open_simulated
    from cotenant.prediction.kernels import kernel_trace, solo_costs
    from cotenant.workloads import find
    from cotenant.workloads.protocol import SOFTWARE, Dtype, WorkloadSpec

    if not DeviceName(device).simulated:
        raise DeviceError(
            f"{device} isn't simulated, and the kernels of a real device are known only while it runs",
            hint=f"name a simulated GPU, e.g. {DEVICE}",
        )
    if dtype is not None and dtype not in get_args(Dtype):
        raise WorkloadError(f"{dtype!r} is not a number format", hint=f"choose one of {', '.join(get_args(Dtype))}")
    if software not in SOFTWARE:
        raise WorkloadError(f"there is no software {software!r}", hint=f"choose one of {', '.join(SOFTWARE)}")
    given = {"name": workload, "batch": batch, "seq": seq, "dtype": dtype, "train": train, "software": software}
    spec = WorkloadSpec.model_validate(given)
    find(workload).check(spec)
    gpu = open_simulated(device)
    request = gpu.request(spec)
    costs = solo_costs(request.kernels, gpu.gpu).slowed(
        request.execution.slower(request.spec.dtype), request.execution.gap_us * 1e3
    )
    return kernel_trace(request.spec, request.kernels, costs, device=gpu.name, sms=gpu.gpu.sms)


# --- `schema`: the JSON Schema of study files, for editors


def schema() -> dict[str, Any]:
    """JSON Schema of a study file."""
    from cotenant.study.schema import json_schema

    return json_schema()
