"""Times of requests alone on a real device, from a run or a file, to calibrate simulated GPUs and engines with."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.errors import DeviceError

if TYPE_CHECKING:
    from cotenant.analyse.sharing import TenantSummary
    from cotenant.prediction.calibration import SoloTime
    from cotenant.study.model import Study
    from cotenant.workloads.protocol import WorkloadSpec

_CLOSED = re.compile(r"closed\((\d+)\)")


def measured_solos(source: Path) -> "tuple[SoloTime, ...]":
    """The solo times of a run, or of a CSV file."""
    from cotenant.devices.simulated import parse_solo_times

    return _of_run(source) if source.is_dir() else parse_solo_times(str(source))


def calibrated_by(source: Path, study: "Study") -> "Study":
    """The study with measured solo times in all of its settings."""
    rows = [solo.model_dump(exclude={"row"}, exclude_none=True) for solo in measured_solos(source)]
    settings = tuple({**setting, "solo_ms": rows} for setting in study.settings)
    return study.model_copy(update={"settings": settings}).placed(study.places)


def _of_run(folder: Path) -> "tuple[SoloTime, ...]":
    from cotenant.analyse.result import result_of
    from cotenant.prediction.calibration import SoloTime
    from cotenant.store.reading import open_runs
    from cotenant.store.run_records import run_records
    from cotenant.study.files import study_from_text
    from cotenant.tenancy.interval import Estimate
    from cotenant.tenancy.records import OWN

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
        workload=plain_name(str(spec.params.get("model") or tenant.of)), software="vllm",
        ms=mean_ms, seq=spec.seq, tokens=spec.tokens, in_flight=int(closed[1]),
        ttft_ms=ttft["p50"].est, tpot_ms=tpot["p50"].est, ttft_p95_ms=ttft["p95"].est, tpot_p95_ms=tpot["p95"].est,
        row=f"{tenant.of} of {folder}",
    )  # fmt: skip


def plain_name(model: str) -> str:
    """A model's name without the folder or organisation before it."""
    return model.strip("./").rpartition("/")[2]
