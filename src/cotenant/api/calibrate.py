"""`calibrate`: fit a simulated GPU to measured solo times."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.clients.address import read_address
from cotenant.devices.simulated import (
    CalibratedTenant,
    Calibration,
    EngineCalibration,
    KernelCalibration,
)
from cotenant.errors import DeviceError
from cotenant.paths import AnyPath
from cotenant.tenancy.device_names import DeviceName

_CLOSED = re.compile(r"closed\((\d+)\)")
_RATE = re.compile(r"([\d.]+) */ *s")
_LOAD = re.compile(r"(\d+)/(\d+) +(\S.*)")

if TYPE_CHECKING:
    from cotenant.analyse.sharing import TenantSummary
    from cotenant.prediction.calibration import PredictedLoad, SoloTime
    from cotenant.workloads.protocol import WorkloadSpec
    from cotenant.workloads.servers import EngineLimits, ProbedLoad


def calibrate(source: AnyPath, *, device: str) -> Calibration:
    """Fit host and device of each workload to its measured solo times.

    Args:
        source: A run on a real device of the simulated kind, or a CSV file with a column `workload`, a column `ms`
            (milliseconds per request, alone) and, where they matter, batch, seq, dtype, mode, software and train.
        device: The simulated GPU to fit.

    Raises:
        DeviceError: A row can't be used: a unit is wrong, a workload unknown, a time impossible.
    """
    from cotenant.devices.simulated import open_simulated
    from cotenant.prediction.simulated_gpu import Controls, solo_of
    from cotenant.workloads.protocol import WorkloadSpec

    source = Path(source)
    _refuse_real(device)
    gpu, times = open_simulated(device), measured_solos(source)
    found = []
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
        found.append(CalibratedTenant(time, simulated, fit))
    return Calibration(gpu.name, tuple(found))


def calibrate_tables(folder: AnyPath, *, device: str) -> KernelCalibration:
    """Fit the kernels of engines on a simulated GPU to measured tables of them.

    Args:
        folder: With tables in the columns of ai-dynamo/aiconfigurator, .parquet or .csv; those of other GPUs are
            passed over.
        device: The simulated GPU to fit.

    Raises:
        DeviceError: There is no table of this GPU, or one can't be used.
    """
    from cotenant.devices.simulated import kernel_tables, open_simulated
    from cotenant.prediction.calibration import fit_kernels

    _refuse_real(device)
    gpu = open_simulated(device).gpu
    return KernelCalibration(device, fit_kernels(gpu, kernel_tables(Path(folder), gpu)))


def calibrate_server(
    url: str,
    *,
    workload: str | None = None,
    device: str | None = None,
    model: str | None = None,
    api: str = "chat",
    key: str | None = None,
    prompt: int = 512,
    tokens: int = 32,
    in_flight: int = 16,
    seconds: float = 180.0,
    agree: Callable[[str], bool] = lambda _: False,
    say: Callable[[str], None] = lambda _: None,
) -> EngineCalibration:
    """Probe a running engine with the OpenAI API, and fit its host and device times to what the client saw.

    Args:
        url: The server: `http://127.0.0.1:8000`.
        workload: The served model's name in the catalogue, by which verbs find the calibration; None: the name that
            the server gives it.
        device: The simulated GPU like the server's; None: rates per token instead of scales of its kernels' laws.
        model: The model's name at the server; None for its only model.
        api: `chat` or `completions`.
        key: Sent as `Authorization: Bearer`.
        prompt: Tokens of the intended load's prompts.
        tokens: Tokens of its answers.
        in_flight: Its requests in flight.
        seconds: At most about this long.
        agree: Asked, with what will be sent, before requests go to another machine.
        say: Called with what will be sent, and each result.

    Raises:
        CotenantError: The server isn't an engine, refuses, fails or is busy; or the device isn't simulated.
    """
    from cotenant.devices.simulated import open_simulated
    from cotenant.prediction.calibration import fit_engine, limits_of, plain_law
    from cotenant.prediction.simulated_gpu import Controls
    from cotenant.workloads import find
    from cotenant.workloads.protocol import WorkloadSpec
    from cotenant.workloads.servers import PASSES, REPEATED, EngineProbes, loads_around

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


def _probe_row(probed: "ProbedLoad", workload: str, limits: "EngineLimits", url: str) -> "SoloTime":
    from cotenant.prediction.calibration import SoloTime
    from cotenant.workloads.servers import SPREAD

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


def calibrate_probes(source: AnyPath) -> EngineCalibration:
    """Fit a server's rates to what its clients saw: a calibration, or a run of it alone under closed loads.

    Raises:
        CotenantError: There are too few loads.
    """
    from cotenant.prediction.calibration import LEAST_PROBES, fit_engine, limits_of, plain_law

    probes = [time for time in measured_solos(Path(source)) if time.probe]
    loads = {(probe.seq, probe.tokens, probe.in_flight) for probe in probes}
    if len(loads) < LEAST_PROBES:
        raise DeviceError(
            f"{source} has a server at {len(loads)} closed loads, and it takes {LEAST_PROBES}",
            hint="cotenant calibrate http://... --out FILE, or a run with several prompt lengths and closed(n)",
        )
    return EngineCalibration(None, fit_engine(plain_law(), probes, limits_of(probes)))


def predict_server(source: AnyPath, loads: Sequence[str], *, beside: float = 0.0) -> "tuple[PredictedLoad, ...]":
    """What clients of a calibrated server would see at other loads, whatever its device.

    Args:
        source: The file that `calibrate_server` wrote.
        loads: Each as `PROMPT/TOKENS LOAD`: `256/32 closed(8)`, `128/64 2/s`.
        beside: Of a server on a CPU: the share of its cores that a neighbour keeps busy.

    Raises:
        CotenantError: The file has no probes, or a load can't be read.
    """
    from cotenant.prediction.calibration import predicted_load
    from cotenant.tenancy.load import Load

    fit = calibrate_probes(source).fit
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


def measured_solos(source: Path) -> "tuple[SoloTime, ...]":
    """The solo times of a run, or of a CSV file."""
    from cotenant.devices.simulated import parse_solo_times

    return _of_run(source) if source.is_dir() else parse_solo_times(str(source))


def _of_run(folder: Path) -> "tuple[SoloTime, ...]":
    from cotenant.api.show import show
    from cotenant.prediction.calibration import SoloTime
    from cotenant.study.files import study_from_text
    from cotenant.tenancy.interval import Estimate
    from cotenant.tenancy.records import OWN

    result = show(folder)
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


def _probed(tenant: "TenantSummary", spec: "WorkloadSpec", load: str, folder: str) -> "SoloTime | None":
    """A running engine's times alone under a closed load, as of a probe; None for other tenants."""
    from cotenant.prediction.calibration import SoloTime
    from cotenant.workloads.servers import OPENAI

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
