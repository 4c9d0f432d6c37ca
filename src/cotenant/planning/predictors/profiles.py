"""Every tenant alone on every part of a simulated GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cotenant.errors import DoesNotFit
from cotenant.planning.mixes.predictor import Mixes
from cotenant.planning.mixes.tenants import ServingTenant
from cotenant.planning.solver.problem import Floats
from cotenant.prediction.contention import LEAST_CV, Demands, Part, demands_of, joined, loaded_by, part_of, whole_of
from cotenant.prediction.engines import EngineLoads, StepShape
from cotenant.prediction.simulated_gpu import Controls
from cotenant.tenancy.load import Load, arrivals_ns

if TYPE_CHECKING:
    from cotenant.prediction.contention import Trace
    from cotenant.prediction.simulated_gpu import SimulatedGpu
    from cotenant.tenancy.identity import TenantIdentity
    from cotenant.tenancy.tenant_entry import TenantEntry
    from cotenant.workloads.protocol import WorkloadSpec

WHOLE = -1.0
"""Denotes the whole device where parts are numbers."""
HOST_COUNTS = 0.5
"""Weight of a request's host time when choosing software: neighbours may use the device meanwhile."""


@dataclass(frozen=True, slots=True)
class PartProfile:
    """A batch of a tenant alone on a part of a GPU."""

    alone_ms: float
    first_ms: float
    """Until its first output; the total if there is none before the end."""
    step_ms: float
    """Per output after the first; 0 if there is only a first."""
    device_ms: float
    """Sum of its kernels' times."""
    holds: float
    """Share of the GPU's SMs used while they run."""
    moves: float
    """Share of its bandwidth used while they run."""
    memory_bytes: float
    outputs: int
    """Per request; 1 if it doesn't generate."""
    engine: int = -1
    """Number of its engine in the simulation; -1: none."""
    sequence_bytes: float = 0.0
    """Memory per further request that an engine executes at the same time."""


NO_ROOM = PartProfile(np.inf, np.inf, np.inf, np.inf, 1.0, 1.0, np.inf, 2)
"""An engine whose cache can't hold a request, or that doesn't run on such a GPU."""


class Simulation:
    """Profiles of all tenants on all kinds of simulated GPUs, computed on demand."""

    def __init__(
        self,
        tenants: Sequence[ServingTenant],
        entries: Mapping[str, "TenantEntry"],
        gpus: Mapping[str, "SimulatedGpu"],
        *,
        risk: float,
    ) -> None:
        self.tenants, self.gpus, self.risk = tenants, gpus, risk
        self._entries = [entries[tenant.name] for tenant in tenants]
        self._profiles: dict[tuple[str, str, int, int, Part | None, float | None], PartProfile] = {}
        self._same: dict[tuple[str, int], str] = {}
        self._powers: dict[tuple[str, float, float, float | None], float] = {}
        self.scale: Floats = np.ones(len(tenants))
        """By tenant: measured time alone over simulated time alone."""
        self.measured: set[int] = set()
        """Tenants whose time alone was measured on a real device."""
        self.objectives = max((len(tenant.objectives) for tenant in tenants), default=1) or 1
        self._software: dict[tuple[str, int], str] = {}
        self.spans: dict[tuple[str, int], int] = {}
        """By device and tenant: devices that a replica is split over, where a single device is too small."""
        self._demands: dict[tuple[object, ...], int] = {}
        self._summaries: list[Demands] = []
        """Rows that are not in the joined table yet."""
        self._joined: list[Demands] = []
        self._alone_ns: Floats = np.empty(0)
        self.engines: list[EngineLoads] = []
        """Engines that were asked for, each on its part of a device."""
        self._engines: dict[tuple[object, ...], int] = {}
        """Numbers of engines: tenants that run the same under the same arrivals have one of them."""
        self._choose_software()

    def profile(
        self, device: str, tenant: int, batch: int, part: Part | None = None, *, clock_mhz: float | None = None
    ) -> PartProfile:
        """A single profile; without a part: on the entire device."""
        key = (device, self._runs(device, tenant), batch, self.spans.get((device, tenant), 1), part, clock_mhz)
        if key not in self._profiles:
            self._profiles[key] = self._found(device, tenant, batch, part, clock_mhz=clock_mhz)
        return self._profiles[key]

    def _runs(self, device: str, tenant: int) -> str:
        """What a tenant runs on a device: tenants that run the same have the same times, except in engines."""
        key = device, tenant
        if key not in self._same:
            spec = self.spec(device, tenant, 1)
            own = tenant if self.served(device, tenant) else ""
            self._same[key] = f"{spec.model_dump_json()} {self.scale[tenant]} {own}"
        return self._same[key]

    def demand(
        self, device: str, tenant: int, batch: int, part: Part | None = None, *, clock_mhz: float | None = None
    ) -> int:
        """Row of `demands` with what a batch of a tenant asks of its part of a GPU."""
        spans, scale = self.spans.get((device, tenant), 1), float(self.scale[tenant])
        key = (device, self._runs(device, tenant), batch, spans, part, clock_mhz, scale)
        if key not in self._demands:
            here = part or whole_of(self.gpus[device].gpu)
            if self.served(device, tenant):
                engine = self.profile(device, tenant, batch, part, clock_mhz=clock_mhz).engine
                trace = self.usual_step(device, tenant, here, self.engines[engine], clock_mhz)
            else:
                trace, _, _ = self.trace(device, tenant, batch, here, clock_mhz)
            self._demands[key] = len(self._demands)
            self._summaries.append(demands_of([trace]))
        return self._demands[key]

    @property
    def demands(self) -> Demands:
        """All that were asked for."""
        if self._summaries:
            table = joined([*self._joined, *self._summaries])
            self._joined, self._summaries, self._alone_ns = [table], [], table.alone_ns
        return self._joined[0]

    @property
    def alone_ns(self) -> Floats:
        """By row of `demands`: time of a batch alone."""
        _ = self.demands  # up to date
        return self._alone_ns

    def identity(self, tenant: int) -> "TenantIdentity":
        """Everything that changes a tenant's time on these GPUs."""
        from cotenant.tenancy.identity import TenantIdentity

        entry, gpu = self._entries[tenant], next(iter(self.gpus.values()))
        return TenantIdentity.of(entry, spec=gpu.spec(entry.spec()))

    def allowed(self, tenant: int) -> tuple[str, ...]:
        """Software that a plan may choose for a tenant."""
        return self._entries[tenant].software or ()

    def together(self, tenant: int, items: int) -> int | None:
        """Requests of a tenant that have this many items; None if none have."""
        each = self._entries[tenant].batch
        return items // each if items % each == 0 else None

    def spec(self, device: str, tenant: int, batch: int) -> "WorkloadSpec":
        """A tenant's trace with the chosen software."""
        spec = self.gpus[device].spec(self._entries[tenant].spec(batch))
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
                    self._same.pop((device, number), None)
                    profile = self._found(device, number, tenant.batches[-1])
                    times[software] = max(profile.device_ms, profile.alone_ms * HOST_COUNTS)
                self._software[device, number] = min(times, key=times.__getitem__)
                self._same.pop((device, number), None)

    def spans_of(self, device: str, tenant: int) -> int:
        """Devices that a replica is split over."""
        return self.spans.get((device, tenant), self.tenants[tenant].parallel)

    def softwares(self, tenant: int) -> dict[str, str]:
        """By kind of device: the software chosen for a tenant, where there was a choice."""
        return {device: software for (device, number), software in self._software.items() if number == tenant}

    def forget(self) -> None:
        """Drop cached profiles; the scale has changed."""
        self._profiles.clear()
        self._same.clear()

    def trace(
        self, device: str, tenant: int, batch: int, part: Part, clock_mhz: float | None = None
    ) -> "tuple[Trace, int, int]":
        """For the engine: the trace, the kernel of the first output, and the number of outputs."""
        gpu = self.gpus[device]
        request = gpu.request(self.spec(device, tenant, batch))
        outputs = sum(stage == "decode" for stage in request.stages) + 1
        trace = gpu.trace(request, part, Controls(), clock_mhz=gpu.locked_clock(part, clock_mhz))
        return self._scaled(trace, tenant), request.first_output, outputs

    def served(self, device: str, tenant: int) -> bool:
        """Whether an engine serves it: many requests at once, in steps."""
        return self.gpus[device].served(self.spec(device, tenant, self.tenants[tenant].batches[0]))

    def usual_step(
        self, device: str, tenant: int, part: Part, engine: EngineLoads, clock_mhz: float | None = None
    ) -> "Trace":
        """A step of an engine with the sequences and the tokens of prompts that it usually has at the tenant's rate."""
        queue = engine.engine
        spec = self.spec(device, tenant, queue.settings.max_sequences)
        rate, scale = np.array(self.tenants[tenant].rate_rps), np.array(float(self.scale[tenant]))
        most = min(queue.settings.max_sequences, queue.held)
        usual = float(engine.fact("sequences_per_step", rate, scale)) if rate > 0 else most
        sequences = int(np.clip(round(usual) if np.isfinite(usual) else most, 1, most))
        read = queue.prompt * (1 - queue.settings.prefix_hits)
        prompts = sequences * read / queue.output  # as many tokens are read as requests are completed
        step = StepShape(sequences, sequences * (queue.prompt + queue.output / 2), (max(prompts, 1.0),), (0.0,))
        gpu = self.gpus[device]
        trace = gpu.engine_step(spec, part, step, clock_mhz=gpu.locked_clock(part, clock_mhz))
        return self._scaled(trace, tenant)

    def _scaled(self, trace: "Trace", tenant: int) -> "Trace":
        """As slow as it was measured alone."""
        scale = float(self.scale[tenant])
        return trace if scale == 1 else replace(trace.slowed(scale), launch_ns=trace.launch_ns * scale)

    def _engine(self, device: str, tenant: int, batch: int, part: Part, clock_mhz: float | None) -> PartProfile:
        """An engine alone; its memory is that of a single request."""
        gpu, spec = self.gpus[device], self.spec(device, tenant, batch)
        cv = max(self.tenants[tenant].cv, LEAST_CV)
        key = device, spec.model_dump_json(), part, clock_mhz, cv
        if key not in self._engines:
            queue = gpu.engine_queue(spec, part, clock_mhz=gpu.locked_clock(part, clock_mhz))

            def arrivals(rate_rps: float, seed: int, horizon_s: float) -> Floats:
                return np.asarray(
                    arrivals_ns(Load(kind="gamma", rate_rps=rate_rps, cv=cv), seed=seed, horizon_s=horizon_s) / 1e9
                )

            self._engines[key] = len(self.engines)
            self.engines.append(EngineLoads(queue, arrivals))
        number = self._engines[key]
        loads = self.engines[number]
        step = self.usual_step(device, tenant, part, loads, clock_mhz)
        working = float(step.duration_ns.sum())
        scale = 1e3 * float(self.scale[tenant])
        idle = loads.idle
        return PartProfile(
            alone_ms=idle.latency.quantile(0.5)[1] * scale,
            first_ms=idle.ttft.quantile(0.5)[1] * scale,
            step_ms=idle.tpot.quantile(0.5)[1] * scale,
            device_ms=idle.latency.quantile(0.5)[1] * scale * idle.facts["device_busy"] / idle.facts["busy"],
            holds=float((step.occupancy * step.duration_ns).sum() / working) * part.domain_sms / gpu.gpu.sms,
            moves=float((step.dram * step.duration_ns).sum() / working) * part.dram_share,
            memory_bytes=float(gpu.memory_bytes(spec)),
            outputs=max(loads.engine.output, 2),
            engine=number,
            sequence_bytes=gpu.sequence_bytes(spec),
        )

    def part(self, mixes: Mixes, share: float, loaded: float, domain: int = 0) -> Part | None:
        """The part of a GPU that a seat of such a mix has; None: the entire GPU."""
        if not np.isfinite(share):
            return None
        return part_of(self.gpus[mixes.device].gpu, mixes.sharing, self._share(mixes, share), domain, loaded)

    def _share(self, mixes: Mixes, number: float) -> float | str:
        mig = self.gpus[mixes.device].gpu.mig
        return list(mig.profiles)[int(number)] if mixes.sharing == "mig" and mig is not None else number

    def loaded(self, mixes: Mixes) -> Floats:
        """By mix: share of the GPU's SMs that its parts have, as a run of this mix would lay them out."""
        result = np.ones(len(mixes.tenants)) if mixes.loaded is None else np.full(len(mixes.tenants), mixes.loaded)
        divided = (np.isfinite(mixes.share) | ~mixes.there).all(axis=1)
        if mixes.loaded is not None or not divided.any():
            return result
        shares = np.sort(np.where(mixes.there, mixes.share, np.inf)[divided], axis=1)
        cuts, index = np.unique(shares, axis=0, return_inverse=True)
        gpu = self.gpus[mixes.device].gpu
        sums = [
            loaded_by(gpu, mixes.sharing, [self._share(mixes, share) for share in cut[np.isfinite(cut)]])
            for cut in cuts
        ]
        result[divided] = np.array(sums)[index.reshape(-1)]
        return result

    def power_w(self, device: str, busy: float, bandwidth: float, clock_mhz: float | None = None) -> float:
        """Mean power at the given clock or the boost clock; for whole percentages of activity."""
        from cotenant.prediction.power import Activity, mean_w

        key = (device, round(min(busy, 1.0), 2), round(min(bandwidth, 1.0), 2), clock_mhz)
        if key not in self._powers:
            self._powers[key] = mean_w(self.gpus[device].gpu, Activity(key[1], key[2]), clock_mhz)
        return self._powers[key]

    def _needed(self, gpu: "SimulatedGpu", spec: "WorkloadSpec") -> float:
        """Memory of an engine with a request; infinite where it doesn't run at all, but may elsewhere."""
        try:
            return float(gpu.memory_bytes(spec))
        except DoesNotFit:
            if len(self.gpus) == 1:
                raise
            return np.inf

    def _found(
        self, device: str, tenant: int, batch: int, part: Part | None = None, *, clock_mhz: float | None = None
    ) -> PartProfile:
        gpu = self.gpus[device]
        part = part or whole_of(gpu.gpu)
        if self.served(device, tenant):
            try:
                return self._engine(device, tenant, batch, part, clock_mhz)
            except DoesNotFit:
                return replace(NO_ROOM, memory_bytes=self._needed(gpu, self.spec(device, tenant, batch)))
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
