"""Cost of a run on a device, and whether the device can hold it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cotenant import workloads
from cotenant.devices.protocol import Device
from cotenant.errors import DoesNotFit
from cotenant.measure.run_plan import RunPlan, earlier, plan_for
from cotenant.study.consistency import demanding, impossible
from cotenant.study.expand import without
from cotenant.study.run_forecast import Forecast, forecast
from cotenant.study.windows import expected
from cotenant.study.workload_check import check_workloads
from cotenant.tenancy.device_names import DeviceName
from cotenant.text import size


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


def forecast_from(plan: RunPlan, device: Device, out: Path) -> Forecast:
    """The same from an earlier run under ``out`` where there is one, else from how much a plain loop varies now.

    Nothing that the study names is run or imported. Raises CotenantError if a mix does not fit.
    """
    unknown = check_workloads(plan.study, execute=False, simulated=device.simulated)
    known = earlier(out, plan.study, device.name)
    alone_s = known.alone_s if known is not None and known.alone_s else _alone_s(plan, device)
    if known is not None and known.windows is not None:
        plan = plan.with_windows(known.windows, alone_s)
    elif device.simulated:
        plan = plan.with_windows(expected(plan.study), alone_s)
    problems = tuple(impossible(plan.study, alone_s))
    found = replace(forecast_for(plan, device), unchecked=unknown, problems=problems)
    require_fit(found, device)
    if known is None:
        return found if device.simulated else _from_noise(found)
    if known.blocks and known.windows == expected(plan.study) and not device.simulated:
        found = found.at_pace(known.seconds / known.blocks, plan.study)
    scale = found.seconds_max / known.seconds if known.seconds else None
    return replace(
        found,
        widest=known.widest_after(found.blocks_max),
        widest_from=f"from run {known.run}",
        wall_s=known.wall_s * scale if device.simulated and scale is not None else None,
    )


def _alone_s(plan: RunPlan, device: Device) -> Mapping[str, float]:
    """Seconds of a request alone on a simulated GPU, as far as windows, rates or limits depend on it.

    Unknown for other devices until they have run it.
    """
    if not device.simulated or device.names:
        return {}
    from cotenant.measure.simulated.model_error import request_times

    study, written = plan.study, plan.as_written or plan.study
    timed = written.window_s is not None and written.lead_s is not None
    names = demanding(study) if timed else study.measured()
    entries = {name: study.tenants[name] for name in names}
    return request_times(
        device.simulation(),
        {name: entry.spec() for name, entry in entries.items()},
        {
            name: max(load.outstanding for load in (study.loads if entry.arrivals is None else (entry.arrivals,)))
            for name, entry in entries.items()
        },
    )


def _from_noise(forecast: Forecast) -> Forecast:
    from cotenant.measure.canary import block_noise, expected_half_width

    noise = block_noise()
    if noise is None or not DeviceName(forecast.device).on_cpu:
        return forecast
    widest = expected_half_width(noise, forecast.blocks_max)
    return replace(forecast, widest=widest, widest_from="at best, from how much a plain loop varied just now")


def without_misfits(plan: RunPlan, device: Device) -> RunPlan:
    """The plan without the tenants that don't fit on the device. Raises DoesNotFit if none does."""
    found = forecast_for(plan, device)
    misfits = {mix.mix: mix.needed_bytes for mix in found.solo().memory if not mix.fits}
    if not misfits:
        return plan
    if len(misfits) == len(plan.study.measured()):
        raise DoesNotFit(
            f"no tenant of {plan.study.name} fits on {device.name}", hint="leave the device out, or lower the batches"
        )
    sentences = tuple(
        f"{tenant} was left out: it needs {size(needed)}, and the device has {size(found.memory_bytes)}"
        for tenant, needed in misfits.items()
    )
    return replace(plan_for(without(plan.study, misfits), device, plan.modes), too_small_for=sentences)


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
