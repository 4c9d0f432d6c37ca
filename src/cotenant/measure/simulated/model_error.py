"""The simulation's error for one tenant of one trial: recorded with it, so that every reader shows it."""

from collections.abc import Mapping
from typing import Any

from cotenant.prediction.engines.accuracy import engine_error
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.simulated_gpu import Controls
from cotenant.prediction.trust import MEASURED, Class, ModelError, Quantity, directly, error_of, phase_of
from cotenant.tenancy.sharing import ALONE, Sharing
from cotenant.workloads import find
from cotenant.workloads.protocol import WorkloadSpec, in_steps

_BESIDE: Mapping[str, Quantity] = {"shared": "time", "shared_tail": "tail_time"}


def model_error(
    gpu: GpuSpec,
    spec: WorkloadSpec,
    sharing: Sharing,
    controls: Controls,
    *,
    first: bool,
    calibrated: ModelError | None = None,
) -> dict[str, Any]:
    """The tenant's class, and the range of measured values in it, as shares of the simulated ones.

    Args:
        gpu: The GPU.
        spec: The workload.
        sharing: The sharing.
        controls: The settings, for measured solo times.
        first: True if it has the highest priority.
        calibrated: Error of its times alone as probes of its engine show it.
    """
    kind = _class(gpu, spec, controls, _shared_as(sharing, first=first))
    alone = _class(gpu, spec, controls, ALONE)
    errors = {"time": error_of(alone, "time"), "slowdown": error_of(kind, "slowdown"), "tail": error_of(kind, "tail")}
    if in_steps(spec):
        errors["time"] = calibrated or engine_error(gpu.architecture)
    exactly = any(one.exactly(spec) for one in controls.solo_ms)
    if exactly:
        errors["time"] = MEASURED
    beside = {name: directly(kind, quantity) for name, quantity in _BESIDE.items() if kind != alone}
    known = {name: error for name, error in beside.items() if error is not None and exactly == kind.calibrated}
    judged = errors["time" if kind == alone else "slowdown"]
    return {
        "class": str(kind),
        "validated": judged.validated,
        "error": judged.sentence,
        **{name: [error.low, error.high] for name, error in (errors | known).items()},
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
