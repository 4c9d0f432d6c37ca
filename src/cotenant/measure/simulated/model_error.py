"""The simulation's error for a tenant of a trial: recorded with it, so that every reader shows it."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cotenant.devices.simulated import SimulatedGpuDevice
from cotenant.errors import CotenantError
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.simulated_gpu import Controls
from cotenant.prediction.trust import MEASURED, Class, ModelError, error_of, of_experts, phase_of
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TrialRecords
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE, TURNS
from cotenant.workloads import find
from cotenant.workloads.models import ModelWorkload
from cotenant.workloads.protocol import WorkloadSpec, in_steps


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
        errors["time"] = calibrated or errors["time"]
    exactly = any(solo.exactly(spec) for solo in controls.solo_ms)
    if exactly:
        errors["time"] = MEASURED
    judged = errors["time" if kind == alone else "slowdown"]
    return {
        "class": str(kind),
        "validated": judged.validated,
        "error": judged.sentence,
        **{name: [error.low, error.high] for name, error in errors.items()},
    }


def _class(gpu: GpuSpec, spec: WorkloadSpec, controls: Controls, sharing: str) -> Class:
    return Class(
        family=gpu.architecture,
        software=spec.software or "eager",
        phase=phase_of(find(spec.name).family, spec),
        sharing=sharing,
        calibrated=any(solo.of_kind(spec) for solo in controls.solo_ms),
        parallel=spec.parallel > 1,
        experts=of_experts(_dimensions(spec.name)),
        format=spec.quantised or "",
    )


def _dimensions(name: str) -> Mapping[str, Any]:
    workload = find(name)
    return workload.entry.config if isinstance(workload, ModelWorkload) else {}


def _shared_as(sharing: Sharing, *, first: bool) -> str:
    if sharing.mode in TURNS:  # in turns on the whole device: each request takes its time alone
        return ALONE
    if sharing.mode != "mps":
        return sharing.mode
    return "mps with shares" if sharing.shares else "mps with priority" if first else sharing.mode


# --- what benches on simulated devices have in common: trials are computed, so no time passes between them

TOGETHER_S, MOST_TOGETHER = 1.0, 24
"""Trials computed within this time are written together: a folder for each would take longer than computing it."""


class Modelled:
    """A bench whose workloads are described by a GPU and whose trials are computed by these threads."""

    def __init__(self, describing: SimulatedGpuDevice, *, threads: int) -> None:
        self._describing = describing
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix="simulation")

    def prepare(self, trials: Sequence[Trial]) -> None:
        """Describe every workload once. Raises WorkloadError where its kernels can't be determined in advance."""
        for trial in trials:
            self._describing.controls(trial.settings)
            for tenant in trial.tenants:
                self._describing.request(tenant.workload)

    def carry_out(self, trial: Trial, *, session: int, rates: Mapping[str, float]) -> TrialRecords:
        """Carry out a trial; a mix that doesn't fit is recorded, never raised."""
        raise NotImplementedError

    def carry_out_some(
        self, trials: Sequence[Trial], *, session: int, rates: Mapping[str, float]
    ) -> tuple[TrialRecords, ...]:
        """As many as are worth writing together; a run that is killed loses no more than these."""
        begin, found = time.monotonic(), []
        for trial in trials[:MOST_TOGETHER]:
            found.append(self.carry_out(trial, session=session, rates=rates))
            if time.monotonic() - begin >= TOGETHER_S:
                break
        return tuple(found)

    def request_times(self, trials: Sequence[Trial]) -> Mapping[str, float]:
        """Seconds of a request alone by tenant, in closed form."""
        tenants = {tenant.of: tenant for trial in trials for tenant in trial.tenants}
        return request_times(
            self._describing,
            {name: tenant.workload for name, tenant in tenants.items()},
            {name: tenant.load.outstanding for name, tenant in tenants.items()},
        )

    def refresh(self) -> None:
        """A no-op: nothing ages."""

    def close(self) -> None:
        """End the threads."""
        self._workers.shutdown(cancel_futures=True)

    def kill(self) -> None:
        """Shut down without waiting."""
        self._workers.shutdown(wait=False, cancel_futures=True)


# --- time of a request of each tenant alone on a simulated GPU, before any trial


def request_times(
    device: SimulatedGpuDevice, tenants: Mapping[str, WorkloadSpec], in_flight: Mapping[str, int]
) -> Mapping[str, float]:
    """Seconds of a request by tenant; those that can't be simulated or don't fit are omitted.

    In closed form: a forecast must not wait for the event engine to be compiled.

    Args:
        device: The simulated GPU.
        tenants: Workloads by tenant.
        in_flight: Requests of closed loads by tenant, where there are several.
    """
    found: dict[str, float] = {}
    for name, spec in tenants.items():
        try:
            if device.memory_bytes(spec) <= device.gpu.memory_bytes:
                found[name] = device.request_s(spec, in_flight=in_flight.get(name, 1))
        except CotenantError:
            continue  # the run will report why
    return found
