"""`cotenant workloads NAME --kernels`: what a request runs on a simulated GPU, kernel by kernel."""

from typing import TYPE_CHECKING

from cotenant.errors import DeviceError, WorkloadError

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
    fusion: str = "eager",
) -> "KernelTrace":
    """What one request of a workload runs on a simulated GPU.

    Args:
        workload: Its name.
        device: A simulated GPU, `sim:...`.
        batch: Items per request.
        seq: Tokens per item; None: the workload's own default.
        dtype: Number format; None: what the GPU does well.
        train: A training step instead of inference.
        fusion: Which operators become one kernel: `eager`, `compile` or `engine`.

    Raises:
        DeviceError: The device isn't simulated, or can't fuse like that.
        WorkloadError: There is no such workload or number format, or its kernels can't be seen before it runs.
    """
    from typing import get_args

    from cotenant.devices.simulated.device import open_simulated
    from cotenant.prediction.kernels.cost import solo_costs
    from cotenant.prediction.kernels.traces import KernelTrace, look_at
    from cotenant.workloads import find
    from cotenant.workloads.protocol import Dtype, WorkloadSpec

    if not device.startswith("sim:"):
        raise DeviceError(
            f"{device} isn't simulated, and what a device really runs is only seen while it runs",
            hint=f"name a simulated GPU, e.g. {DEVICE}",
        )
    if dtype is not None and dtype not in get_args(Dtype):
        raise WorkloadError(f"{dtype!r} is no number format", hint=f"choose one of {', '.join(get_args(Dtype))}")
    spec = WorkloadSpec.model_validate({"name": workload, "batch": batch, "seq": seq, "dtype": dtype, "train": train})
    find(workload).check(spec)
    gpu = open_simulated(device)
    controls = gpu.controls({"fusion": fusion})
    request = gpu.request(spec, controls.fusion)
    costs = solo_costs(request.kernels, gpu.gpu)
    return KernelTrace(
        workload=workload,
        batch=batch,
        dtype=str(request.spec.dtype),
        device=gpu.name,
        sms=gpu.gpu.sms,
        fusion=controls.fusion,
        kernels=len(request.kernels),
        launches=int(request.kernels.launches.sum()),
        device_ns=costs.total_ns,
        lines=look_at(request.kernels, costs, sms=gpu.gpu.sms),
    )
