"""A real GPU's simulated twin, calibrated by what tenants took alone on the real one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cotenant.errors import DeviceError

if TYPE_CHECKING:
    from cotenant.prediction.calibration.solo import SoloTime
    from cotenant.prediction.interference.gathered import SoloTenant
    from cotenant.prediction.simulated_gpu import Controls, SimulatedGpu
    from cotenant.workloads.protocol import WorkloadSpec


def calibrating(
    gpu: "SimulatedGpu", specs: "Sequence[WorkloadSpec]", solos: "Sequence[SoloTenant | None]"
) -> "tuple[Controls, tuple[str, ...]]":
    """Settings of the twin with the measured times, and one sentence for each time that can't be used.

    Args:
        gpu: The twin.
        specs: Tenants.
        solos: What was measured of each; None: nothing.
    """
    from cotenant.prediction.simulated_gpu import Controls

    times, notes = [], []
    for spec, solo in zip(specs, solos, strict=True):
        if solo is None:
            continue
        time = _time(gpu, spec, solo)
        try:
            gpu.calibrated(gpu.request(spec), Controls(solo_ms=(time,)))
        except DeviceError as refusal:
            notes.append(f"{refusal.message}: its prior is not calibrated.")
        else:
            times.append(time)
    return Controls(solo_ms=tuple(times)), tuple(notes)


def _time(gpu: "SimulatedGpu", spec: "WorkloadSpec", solo: "SoloTenant") -> "SoloTime":
    from cotenant.prediction.calibration.solo import SoloTime

    full = gpu.request(spec).spec
    return SoloTime(
        workload=full.name,
        ms=solo.service_ns / 1e6,
        batch=full.batch,
        seq=full.seq,
        dtype=full.dtype,
        mode=full.mode,
        software=full.software,
        train=full.train,
        row="the measured solo",
    )
