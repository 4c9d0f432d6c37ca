"""What benches on simulated devices have in common: trials are computed, so no time passes between them."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from cotenant.devices.simulated.device import SimulatedGpuDevice
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TrialRecords

TOGETHER_S, MOST_TOGETHER = 1.0, 24
"""Trials computed within this time are written together: a folder for each would take longer than computing it."""


class Modelled:
    """A bench whose workloads are described by one GPU and whose trials are computed by these threads."""

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
        """Carry out one trial; a mix that doesn't fit is recorded, never raised."""
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

    def request_times(self, trials: Sequence[Trial]) -> Mapping[str, float]:  # noqa: ARG002 - as the protocol has it
        """Unknown before a trial was computed."""
        return {}

    def refresh(self) -> None:
        """A no-op: nothing ages."""

    def close(self) -> None:
        """End the threads."""
        self._workers.shutdown(cancel_futures=True)

    def kill(self) -> None:
        """Shut down without waiting."""
        self._workers.shutdown(wait=False, cancel_futures=True)
