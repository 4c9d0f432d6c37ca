"""Fit simulated GPUs to what was measured: requests alone, tables of kernels, and probes of running engines."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cotenant.analyse.result import result_of
from cotenant.analyse.sharing import TenantSummary
from cotenant.clients.address import read_address
from cotenant.devices.simulated import (
    CalibratedTenant,
    Calibration,
    EngineCalibration,
    KernelCalibration,
    kernel_tables,
    open_simulated,
    parse_solo_times,
)
from cotenant.errors import DeviceError
from cotenant.prediction.calibration import (
    LEAST_PROBES,
    PredictedLoad,
    SoloTime,
    fit_engine,
    fit_kernels,
    limits_of,
    plain_law,
    predicted_load,
)
from cotenant.prediction.simulated_gpu import Controls, solo_of
from cotenant.store.reading import open_runs
from cotenant.store.run_records import run_records
from cotenant.study.files import study_from_text
from cotenant.study.model import Study
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.interval import Estimate
from cotenant.tenancy.load import Load
from cotenant.tenancy.records import OWN
from cotenant.workloads import find
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.servers import (
    OPENAI,
    PASSES,
    REPEATED,
    SPREAD,
    EngineLimits,
    EngineProbes,
    ProbedLoad,
    loads_around,
)

_CLOSED = re.compile(r"closed\((\d+)\)")
_RATE = re.compile(r"([\d.]+) */ *s")
_LOAD = re.compile(r"(\d+)/(\d+) +(\S.*)")


def fit_solos(source: Path, device: str) -> Calibration:
    """Host and device times of each workload that was measured alone. Raises DeviceError."""
    _refuse_real(device)
    gpu, times = open_simulated(device), measured_solos(source)
    tenants = []
    for time in times:
        if time.probe:
            raise DeviceError(
                f"{time.row} is a probe of an engine: {source} is a calibration already",
                hint=f"cotenant run FILE --device {device} --calibrate {source}",
            )
        spec = WorkloadSpec(name=time.workload, train=time.train, mode=time.mode, software=time.software)
        request = gpu.request(time.spec(spec.model_copy(update={"dtype": time.dtype})))
        _, fit = gpu.calibrated(request, Controls(solo_ms=times))
        simulated = solo_of(gpu.gpu, request, time.ms * 1e6).explained_ns(1.0, 1.0, 0.0) / 1e6
        tenants.append(CalibratedTenant(time, simulated, fit))
    return Calibration(gpu.name, tuple(tenants))


def fit_tables(folder: Path, device: str) -> KernelCalibration:
    """Laws of the kernels of engines, from measured tables of them. Raises DeviceError."""
    _refuse_real(device)
    gpu = open_simulated(device).gpu
    return KernelCalibration(device, fit_kernels(gpu, kernel_tables(folder, gpu)))


def fit_server(
    url: str,
    *,
    workload: str | None,
    device: str | None,
    model: str | None,
    api: str,
    key: str | None,
    prompt: int,
    tokens: int,
    in_flight: int,
    seconds: float,
    agree: Callable[[str], bool],
    say: Callable[[str], None],
) -> EngineCalibration:
    """Probe a running engine and fit its host and device times, as `calibrate_server` says. Raises CotenantError."""
    if device is not None:
        _refuse_real(device)
    loads = loads_around(prompt, tokens, in_flight)
    sent = [*loads * PASSES, loads[0]]
    requests = sum(load.requests for load in sent) + 2 * REPEATED
    prompts = sum(load.requests * load.prompt for load in sent) + 2 * REPEATED * prompt
    answers = sum(load.requests * load.tokens for load in sent) + REPEATED * tokens
    amount = (
        f"at most {requests:,} requests with {prompts:,} tokens of prompts and {answers:,} of answers, "
        f"in about {seconds:.0f} s"
    )
    address = read_address(url)
    if not address.local and not agree(f"{address.host} is another machine. Send it {amount}?"):
        raise DeviceError(f"nothing was sent to {address.host}, another machine", hint="--yes agrees to it")
    say(f"Sending {amount}.")
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    probes = EngineProbes(url, model, api=api, headers=headers)
    name = workload or _plain_name(probes.model)
    gpu = None if device is None else open_simulated(device)
    if gpu is not None or workload is not None:
        find(name)
    spec = WorkloadSpec(name=name, mode="generate", software="vllm", seq=prompt, tokens=tokens)
    if gpu is not None and not gpu.served(spec):
        raise DeviceError(f"{name} isn't a language model that an engine serves on {device}")
    probes.refuse_unfit(loads)
    limits = probes.limits()
    probed = probes.carry_out(loads, seconds=seconds, say=say)
    rows = tuple(_probe_row(load, name, limits, url) for load in probed)
    fit = None if gpu is None else gpu.engine_fit(spec, Controls(solo_ms=rows))
    return EngineCalibration(device, fit or fit_engine(plain_law(), rows, limits_of(rows)), tuple(probes.notes))


def _probe_row(probed: ProbedLoad, workload: str, limits: EngineLimits, url: str) -> SoloTime:
    times: dict[str, Any] = {}
    for name, time in (("ttft", probed.ttft), ("tpot", probed.tpot)):
        times[f"{name}_spread"] = (time or probed.ms).spread
        if time is not None:
            times |= {f"{name}_ms": time.middle, f"{name}_p95_ms": time.p95}
    return SoloTime(
        workload=workload, software="vllm", ms=probed.ms.middle, seq=probed.prompt, tokens=probed.load.tokens,
        tokens_spread=SPREAD, in_flight=probed.load.in_flight, sequences=limits.sequences,
        cache_tokens=limits.cache_tokens, row=url, **times,
    )  # fmt: skip


def fit_probes(source: Path) -> EngineCalibration:
    """Fit a server's rates to what its clients saw: a calibration, or a run of it alone under closed loads.

    Raises:
        CotenantError: There are too few loads.
    """
    probes = [time for time in measured_solos(source) if time.probe]
    loads = {(probe.seq, probe.tokens, probe.in_flight) for probe in probes}
    if len(loads) < LEAST_PROBES:
        raise DeviceError(
            f"{source} has a server at {len(loads)} closed loads, and it takes {LEAST_PROBES}",
            hint="cotenant calibrate http://... --out FILE, or a run with several prompt lengths and closed(n)",
        )
    return EngineCalibration(None, fit_engine(plain_law(), probes, limits_of(probes)))


def predicted_loads(source: Path, loads: Sequence[str], *, beside: float) -> tuple[PredictedLoad, ...]:
    """What clients of a calibrated server would see at loads such as `256/32 closed(8)`. Raises CotenantError."""
    fit = fit_probes(source).fit
    predicted = []
    for text in loads:
        shape = _LOAD.fullmatch(text.strip())
        if shape is None:
            raise DeviceError(f"{text!r} isn't a load of a server", hint="write PROMPT/TOKENS LOAD: 256/32 closed(8)")
        rate = _RATE.fullmatch(shape[3])
        try:
            load = Load.model_validate(f"poisson({rate[1]})" if rate else shape[3])
        except ValueError as error:
            raise DeviceError(f"{shape[3]!r} isn't a load", hint="write closed(8), 2/s or gamma(2, 3)") from error
        predicted.append(predicted_load(fit, int(shape[1]), int(shape[2]), load, beside=beside))
    return tuple(predicted)


def _refuse_real(device: str) -> None:
    if not DeviceName(device).simulated:
        raise DeviceError(f"{device} isn't simulated, so there is nothing to calibrate", hint="name a device sim:...")


# --- times of requests alone on a real device, from a run or a file


def measured_solos(source: Path) -> tuple[SoloTime, ...]:
    """The solo times of a run, or of a CSV file."""
    return _of_run(source) if source.is_dir() else parse_solo_times(str(source))


def calibrated_by(source: Path, study: Study) -> Study:
    """The study with measured solo times in all of its settings."""
    rows = [solo.model_dump(exclude={"row"}, exclude_none=True) for solo in measured_solos(source)]
    settings = tuple({**setting, "solo_ms": rows} for setting in study.settings)
    return study.model_copy(update={"settings": settings}).placed(study.places)


def _of_run(folder: Path) -> tuple[SoloTime, ...]:
    with open_runs([folder]) as opened:
        result = result_of(run_records(opened))
    if result.manifests[0].get("simulated"):
        raise DeviceError(f"{folder} is itself a simulated run", hint="give a run on a real device")
    study = study_from_text(str(result.manifests[0].get("study", "")), source=str(folder / "manifest.json"))
    times = []
    for tenant in result.tenants:
        if not tenant.cell.solo or tenant.of not in study.tenants or not isinstance(tenant.mean_latency_ms, Estimate):
            continue
        own = study.tenants[tenant.of].load
        load = str(own) if tenant.cell.load == OWN and own is not None else tenant.cell.load
        if (probe := _probed(tenant, study.tenants[tenant.of].spec(), load, str(folder))) is not None:
            times.append(probe)
            continue
        if not load.startswith("closed(1)"):
            continue  # latency includes queueing, which is not the request's own time
        spec = study.tenants[tenant.of].spec()
        times.append(
            SoloTime(
                workload=spec.name,
                ms=tenant.mean_latency_ms.est,
                batch=spec.batch,
                seq=spec.seq,
                dtype=spec.dtype,
                mode=spec.mode,
                software=spec.software,
                train=spec.train,
                row=f"{tenant.of} of {folder}",
            )
        )
    if not times:
        raise DeviceError(f"{folder} has no solo trial under `closed(1)`", hint="measure one, or give a CSV file")
    return tuple(times)


def _probed(tenant: TenantSummary, spec: WorkloadSpec, load: str, folder: str) -> SoloTime | None:
    """A running engine's times alone under a closed load, as of a probe; None for other tenants."""
    closed = _CLOSED.match(load)
    if closed is None or tenant.tokens is None or not spec.name.startswith(OPENAI) or not spec.seq or not spec.tokens:
        return None
    ttft, tpot = tenant.tokens.ttft_ms, tenant.tokens.tpot_ms
    mean_ms = getattr(tenant.mean_latency_ms, "est", None)
    if ttft["p50"].est is None or tpot["p50"].est is None or mean_ms is None:
        return None
    return SoloTime(
        workload=_plain_name(str(spec.params.get("model") or tenant.of)), software="vllm",
        ms=mean_ms, seq=spec.seq, tokens=spec.tokens, in_flight=int(closed[1]),
        ttft_ms=ttft["p50"].est, tpot_ms=tpot["p50"].est, ttft_p95_ms=ttft["p95"].est, tpot_p95_ms=tpot["p95"].est,
        row=f"{tenant.of} of {folder}",
    )  # fmt: skip


def _plain_name(model: str) -> str:
    return model.strip("./").rpartition("/")[2]
