"""`calibrate`: fit a simulated GPU to measured solo times."""

from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.api.paths import AnyPath
from cotenant.devices.simulated.calibrated import CalibratedTenant, Calibration
from cotenant.errors import DeviceError

if TYPE_CHECKING:
    from cotenant.devices.simulated.solo_times import SoloTime


def calibrate(source: AnyPath, *, device: str) -> Calibration:
    """Fit host and device of each workload to its measured solo times.

    Args:
        source: A run on a real device of the simulated kind, or a CSV file with a column `workload`, a column `ms`
            (milliseconds per request, alone) and, where they matter, batch, seq, dtype, mode, software and train.
        device: The simulated GPU to fit.

    Raises:
        DeviceError: A row can't be used: a unit is wrong, a workload unknown, a time impossible.
    """
    from cotenant.devices.simulated.controls import Controls
    from cotenant.devices.simulated.device import open_simulated
    from cotenant.prediction.sharing.on_part import solo_of
    from cotenant.workloads.protocol import WorkloadSpec

    source = Path(source)
    if not device.startswith("sim:"):
        raise DeviceError(f"{device} isn't simulated, so there is nothing to calibrate", hint="name a device sim:...")
    gpu, times = open_simulated(device), measured_solos(source)
    found = []
    for time in times:
        spec = WorkloadSpec(name=time.workload, train=time.train, mode=time.mode, software=time.software)
        request = gpu.request(time.spec(spec.model_copy(update={"dtype": time.dtype})))
        _, fit = gpu.calibrated(request, Controls(solo_ms=times))
        simulated = solo_of(gpu.gpu, request, time.ms * 1e6).explained_ns(1.0, 1.0, 0.0) / 1e6
        found.append(CalibratedTenant(time, simulated, fit))
    return Calibration(gpu.name, tuple(found))


def measured_solos(source: Path) -> "tuple[SoloTime, ...]":
    """The solo times of a run, or of a CSV file."""
    from cotenant.devices.simulated.solo_times import solo_times

    return _of_run(source) if source.is_dir() else solo_times(str(source))


def _of_run(folder: Path) -> "tuple[SoloTime, ...]":
    from cotenant.analyse.estimates.estimate import Estimate
    from cotenant.api.show import show
    from cotenant.devices.simulated.solo_times import SoloTime
    from cotenant.study.files import study_from_text

    result = show(folder)
    if result.manifests[0].get("simulated"):
        raise DeviceError(f"{folder} is itself a simulated run", hint="give a run on a real device")
    study = study_from_text(str(result.manifests[0].get("study", "")), source=str(folder / "manifest.json"))
    times = []
    for tenant in result.tenants:
        if not tenant.cell.solo or tenant.of not in study.tenants or not isinstance(tenant.mean_latency_ms, Estimate):
            continue
        if not tenant.cell.load.startswith("closed(1)"):
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
