"""`cotenant workloads NAME --kernels`: the kernels of a request on a simulated GPU."""

from typing import TYPE_CHECKING

from cotenant.errors import DeviceError, WorkloadError
from cotenant.tenancy.device_name import DeviceName

if TYPE_CHECKING:
    from cotenant.prediction.kernels.traces import KernelTrace

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
    """The kernels that one request of a workload runs on a simulated GPU.

    Args:
        workload: Its name.
        device: A simulated GPU, `sim:...`.
        batch: Items per request.
        seq: Tokens per item; None: the workload's default.
        dtype: Number format; None: the GPU's preferred one.
        train: A training step instead of inference.
        software: Execution mode: `eager`, `compile`, `graphs`, `onnxruntime`, `tensorrt` or `vllm`.

    Raises:
        DeviceError: The device isn't simulated.
        WorkloadError: There is no such workload or number format, or its kernels are known only while it runs.
    """
    from typing import get_args

    from cotenant.devices.simulated.device import open_simulated
    from cotenant.prediction.kernels.cost import solo_costs
    from cotenant.prediction.kernels.traces import KernelTrace, look_at
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
    return KernelTrace(
        workload=workload,
        batch=batch,
        dtype=str(request.spec.dtype),
        device=gpu.name,
        sms=gpu.gpu.sms,
        software=software,
        kernels=len(request.kernels),
        launches=int(request.kernels.launches.sum()),
        device_ns=costs.total_ns,
        lines=look_at(request.kernels, costs, sms=gpu.gpu.sms),
    )
