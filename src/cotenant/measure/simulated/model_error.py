"""The simulation's error for one tenant of one trial: recorded with it, so that every reader shows it."""

from typing import Any

from cotenant.devices.simulated.controls import Controls
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.trust import MEASURED, QUANTITIES, Class, error_of, phase_of
from cotenant.tenancy.nouns import ALONE, Sharing
from cotenant.workloads import find
from cotenant.workloads.protocol import WorkloadSpec


def model_error(
    gpu: GpuSpec, spec: WorkloadSpec, sharing: Sharing, controls: Controls, *, first: bool
) -> dict[str, Any]:
    """The tenant's class, and the range of measured values in it, as shares of the simulated ones.

    Args:
        gpu: The GPU.
        spec: The workload.
        sharing: The sharing.
        controls: The settings, for measured solo times.
        first: True if it has the highest priority.
    """
    kind = _class(gpu, spec, controls, _shared_as(sharing, first=first))
    alone = _class(gpu, spec, controls, ALONE)
    errors = {quantity: error_of(alone if quantity == "time" else kind, quantity) for quantity in QUANTITIES}
    if any(one.exactly(spec) for one in controls.solo_ms):
        errors["time"] = MEASURED
    judged = errors["time" if kind == alone else "slowdown"]
    return {
        "class": str(kind),
        "validated": judged.validated,
        "error": judged.sentence,
        **{quantity: [error.low, error.high] for quantity, error in errors.items()},
    }


def _class(gpu: GpuSpec, spec: WorkloadSpec, controls: Controls, sharing: str) -> Class:
    return Class(
        family=gpu.architecture,
        software=spec.software or "eager",
        phase=phase_of(find(spec.name).family, spec),
        sharing=sharing,
        calibrated=any(one.of_kind(spec) for one in controls.solo_ms),
    )


def _shared_as(sharing: Sharing, *, first: bool) -> str:
    if sharing.mode != "mps":
        return sharing.mode
    return "mps with shares" if sharing.shares else "mps with priority" if first else sharing.mode
