"""Every tenant alone on every part of a simulated GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cotenant.planning.mixes.tenants import ServingTenant
from cotenant.planning.solver.problem import Floats

if TYPE_CHECKING:
    from cotenant.devices.simulated.device import SimulatedGpu
    from cotenant.planning.tenants_file import PlannedEntry
    from cotenant.prediction.sharing.layout import Part
    from cotenant.prediction.sharing.trace import Trace
    from cotenant.workloads.protocol import WorkloadSpec

WHOLE = -1.0
"""Denotes the whole device where parts are numbers."""
HOST_COUNTS = 0.5
"""Weight of a request's host time when choosing software: neighbours may use the device meanwhile."""


@dataclass(frozen=True, slots=True)
class PartProfile:
    """A batch of one tenant alone on a part of a GPU."""

    alone_ms: float
    first_ms: float
    """Until its first output; the total if there is none before the end."""
    step_ms: float
    """Per output after the first; 0 if there is only one."""
    device_ms: float
    """Sum of its kernels' times."""
    holds: float
    """Share of the GPU's SMs used while they run."""
    moves: float
    """Share of its bandwidth used while they run."""
    memory_bytes: float
    outputs: int
    """Per request; 1 if it doesn't generate."""


class Simulation:
    """Profiles of all tenants on all kinds of simulated GPUs, computed on demand."""

    def __init__(
        self,
        tenants: Sequence[ServingTenant],
        entries: Mapping[str, "PlannedEntry"],
        gpus: Mapping[str, "SimulatedGpu"],
        *,
        risk: float,
    ) -> None:
        self.tenants, self.gpus, self.risk = tenants, gpus, risk
        self._entries = [entries[tenant.name] for tenant in tenants]
        self._profiles: dict[tuple[str, int, int, int, str, float, float | None], PartProfile] = {}
        self.scale: Floats = np.ones(len(tenants))
        """By tenant: measured time alone over the simulated one."""
        self.measured: set[int] = set()
        """Tenants whose time alone was measured on a real device."""
        self.objectives = max((len(tenant.objectives) for tenant in tenants), default=1) or 1
        self._software: dict[tuple[str, int], str] = {}
        self.spans: dict[tuple[str, int], int] = {}
        """By device and tenant: devices that a replica is split over, where one is not enough."""
        self._choose_software()

    def profile(
        self, device: str, tenant: int, batch: int, sharing: str, share: float, *, clock_mhz: float | None = None
    ) -> PartProfile:
        """A single profile; the share is a percentage of SMs, a number of a MIG profile, or NaN."""
        part = (sharing, share) if np.isfinite(share) else ("", WHOLE)
        key = (device, tenant, batch, self.spans.get((device, tenant), 1), *part, clock_mhz)
        if key not in self._profiles:
            self._profiles[key] = self._found(device, tenant, batch, sharing, share, clock_mhz=clock_mhz)
        return self._profiles[key]

    def spec(self, device: str, tenant: int, batch: int) -> "WorkloadSpec":
        """A tenant's trace with the chosen software."""
        spec = self.gpus[device].spec(self._entries[tenant].at_batch(batch))
        chosen = {"software": self._software.get((device, tenant)), "parallel": self.spans.get((device, tenant))}
        return spec.model_copy(update={name: value for name, value in chosen.items() if value is not None})

    def _choose_software(self) -> None:
        """Choose the software whose largest batch keeps the device busy for the shortest time.

        It is the better neighbour as well, so the choice does not depend on the mix.
        """
        for number, (tenant, entry) in enumerate(zip(self.tenants, self._entries, strict=True)):
            for device in self.gpus if entry.software and len(entry.software) > 1 else ():
                times = {}
                for software in entry.software or ():
                    self._software[device, number] = software
                    one = self._found(device, number, tenant.batches[-1], "", float("nan"))
                    times[software] = max(one.device_ms, one.alone_ms * HOST_COUNTS)
                self._software[device, number] = min(times, key=times.__getitem__)

    def spans_of(self, device: str, tenant: int) -> int:
        """Devices that a replica is split over."""
        return self.spans.get((device, tenant), self.tenants[tenant].parallel)

    def softwares(self, tenant: int) -> dict[str, str]:
        """By kind of device: the software chosen for a tenant, where there was a choice."""
        return {device: software for (device, number), software in self._software.items() if number == tenant}

    def forget(self) -> None:
        """Drop cached profiles; the scale has changed."""
        self._profiles.clear()

    def trace(
        self, device: str, tenant: int, batch: int, part: "Part", clock_mhz: float | None = None
    ) -> "tuple[Trace, int, int]":
        """For the engine: the trace, the kernel of the first output, and the number of outputs."""
        gpu = self.gpus[device]
        request = gpu.request(self.spec(device, tenant, batch))
        outputs = sum(stage == "decode" for stage in request.stages) + 1
        trace = gpu.trace(request, part, gpu.controls({}), clock_mhz=clock_mhz)
        scale = float(self.scale[tenant])
        if scale != 1:
            trace = replace(trace.slowed(scale), launch_ns=trace.launch_ns * scale)
        return trace, request.first_output, outputs

    def part(self, device: str, sharing: str, share: float, domain: int = 0) -> "Part":
        """The part of a GPU that a seat has."""
        from cotenant.prediction.sharing.layout import Part

        gpu = self.gpus[device].gpu
        if not np.isfinite(share):
            return Part(gpu.sms, 0, gpu.sms, gpu.memory_bytes)
        if sharing == "mig":
            assert gpu.mig is not None
            name = list(gpu.mig.profiles)[int(share)]
            one = gpu.mig.profiles[name]
            size = int(one.memory_gib * 2**30)
            dram = one.memory_slices / gpu.mig.memory_slices
            return Part(one.sms, domain, one.sms, size, dram_domain=domain, dram_share=dram, label=name)
        return Part(max(1, int(gpu.sms * share / 100)), 0, gpu.sms, gpu.memory_bytes)

    def power_w(self, device: str, busy: float, bandwidth: float, clock_mhz: float | None = None) -> float:
        """Mean power, at the boost clock or at the given one."""
        from cotenant.prediction.power.draw import Activity, mean_w

        return mean_w(self.gpus[device].gpu, Activity(min(busy, 1.0), min(bandwidth, 1.0)), clock_mhz)

    def _found(
        self, device: str, tenant: int, batch: int, sharing: str, share: float, *, clock_mhz: float | None = None
    ) -> PartProfile:
        gpu = self.gpus[device]
        part = self.part(device, sharing, share)
        trace, first, outputs = self.trace(device, tenant, batch, part, clock_mhz)
        alone = trace.alone_ns()
        until = alone if first < 0 else trace.alone_ns(first + 1)
        working = trace.duration_ns.sum()
        whole = part.domain_sms / gpu.gpu.sms
        return PartProfile(
            alone_ms=alone / 1e6,
            first_ms=until / 1e6,
            step_ms=(alone - until) / max(outputs - 1, 1) / 1e6 if first >= 0 else 0.0,
            device_ms=working / 1e6,
            holds=float((trace.occupancy * trace.duration_ns).sum() / working) * whole,
            moves=float((trace.dram * trace.duration_ns).sum() / working) * part.dram_share,
            memory_bytes=float(gpu.memory_bytes(self.spec(device, tenant, batch))),
            outputs=outputs if first >= 0 else 1,
        )
