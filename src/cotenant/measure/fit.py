"""Cost of a run on a device, and whether the device can hold it."""

from cotenant import workloads
from cotenant.devices.protocol import Device
from cotenant.measure.run_plan import RunPlan
from cotenant.study.run_forecast import Forecast, forecast


def forecast_for(plan: RunPlan, device: Device) -> Forecast:
    """Trials, time and memory of a plan on its device."""
    block = plan.block(0).trials
    return forecast(
        plan.study,
        modes=plan.modes,
        memory_bytes=device.least_free_bytes(),
        figures=lambda spec: workloads.figures(device.spec(spec)),
        base_bytes_per_tenant=device.tenant_bytes,
        device=device.name,
        members=plan.members,
        in_a_block=len(block),
        block_s=sum(trial.window_s + trial.lead_s for trial in block),
        left_out=(*plan.too_small_for, *plan.left_out),
        simulated=device.simulated,
    )


def require_fit(forecast: Forecast, device: Device) -> None:
    """Refuse what doesn't fit. On a simulated device only tenants alone must fit: a mix that doesn't is a result."""
    (forecast.solo() if device.simulated else forecast).require_fit()


# --- recognises out-of-memory errors of Python, numpy, torch, its allocators, C++ and GPUs

_WORDS = (
    "can't allocate memory",
    "cannot allocate memory",
    "out of memory",
    "memoryerror",
    "bad_alloc",
    "_alloc_failed",  # cuBLAS, cuDNN: CUBLAS_STATUS_ALLOC_FAILED
    "erroroutofmemory",  # HIP
    "cudaerrormemoryallocation",
    "out_of_device_memory",  # Level Zero
    "out_of_host_memory",
)


def says_out_of_memory(text: str) -> bool:
    """True if the message is about running out of memory."""
    return any(words in text.lower() for words in _WORDS)


def is_out_of_memory(error: BaseException) -> bool:
    """True if an error, or its cause, is about running out of memory."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or says_out_of_memory(f"{type(cause).__name__}: {cause}"):
            return True
        cause = cause.__cause__
    return False
