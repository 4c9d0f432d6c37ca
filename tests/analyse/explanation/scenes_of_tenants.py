"""Constructed runs with a known cause: times consist of service, CPU time, clock and queue, as on a real CPU."""

from dataclasses import dataclass, field

import numpy as np

from cotenant.analyse.sharing.evidence import Peaks, RequestWork, TenantEvidence
from cotenant.tenancy.records import TenantObservation

PEAKS = Peaks(flops_per_s={"float32": 100e9}, bytes_per_s=20e9, cores=2, memory_bytes=8 << 30, cache_bytes=32 << 20)


@dataclass
class Tenant:
    """Needs of a request: milliseconds alone, and the work that it states."""

    name: str
    ms: float = 10.0
    flops: float | None = None
    bytes: float | None = None
    cores: float = 1.0
    """CPU time over service time, alone."""
    threads: int = 1
    working_set: int | None = None
    slo_ms: float | None = None
    stages: dict = field(default_factory=dict)


@dataclass
class Beside:
    """Effect of company on a tenant."""

    cpu: float = 1.0
    """Factor on its CPU time per request at the same clock: slower instructions."""
    slicing: float = 1.0
    """Factor on service time at the same CPU time: time without a core."""


COMPUTE = {"ms": 10.0, "flops": 0.45e9, "bytes": 1e6}
"""45 of 50 GFLOP/s that one of two cores can do."""
MEMORY = {"ms": 10.0, "flops": 1e7, "bytes": 0.15e9}
"""15 of 20 GB/s."""


class Scene:
    """Builds evidence for tenants alone and in mixes."""

    def __init__(self, *tenants, blocks=6, noise=0.003, seed=1, load="closed(1)", rate_rps=None):
        self.tenants = {tenant.name: tenant for tenant in tenants}
        self.blocks, self.noise, self.load, self.rate_rps = blocks, noise, load, rate_rps
        self.rng = np.random.default_rng(seed)
        self.evidence = []
        self._trial = 0

    def alone(self, clock=None, foreign=0.0, wait=0.0, unfinished=0, slicing=1.0):
        for name in self.tenants:
            self._trials(name, "alone", {name: Beside(slicing=slicing)}, clock, foreign, wait, unfinished)
        return self

    def mix(self, members, sharing="processes", *, clock=None, foreign=0.0, wait=0.0, unfinished=0):
        self._trials("+".join(members), sharing, members, clock, foreign, wait, unfinished)
        return self

    def _trials(self, mix, sharing, members, clock, foreign, wait, unfinished):  # noqa: PLR0917  (what differs)
        for block in range(self.blocks):
            for name, beside in members.items():
                self._add(mix, sharing, block, name, beside, clock, foreign, wait, unfinished)
            self._trial += 1

    def _add(self, mix, sharing, block, name, beside, clock, foreign, wait, unfinished):  # noqa: PLR0917
        tenant = self.tenants[name.partition("#")[0]]
        slow_clock = 3000 / clock if clock else 1.0
        cpu_ns = tenant.ms * 1e6 * tenant.cores * beside.cpu * slow_clock * np.exp(self.noise * self.rng.normal())
        service_ns = cpu_ns / tenant.cores * beside.slicing * np.exp(self.noise * self.rng.normal())
        latency_ns = service_ns * (1 + wait)
        rate = 1e9 / service_ns if self.rate_rps is None else min(self.rate_rps, 1e9 / service_ns)
        seen = TenantObservation(
            run="run", trial=self._trial, block=block, mix=mix, sharing=sharing, settings="{}", load=self.load,
            device="cpu", simulated=False, solo=sharing == "alone", tenant=name, of=tenant.name, verdict="valid",
            failed_checks=(), n=100, unfinished=unfinished, throughput_rps=rate, mean_latency_ns=latency_ns,
            window_s=1.0, mean_device_ns=cpu_ns, slo_ms=tenant.slo_ms, slo_quantile=0.9 if tenant.slo_ms else None,
            slo_met=None if tenant.slo_ms is None else 100 * (latency_ns < tenant.slo_ms * 1e6),
        )  # fmt: skip
        self.evidence.append(
            TenantEvidence(
                seen=seen,
                work=RequestWork("w", 1, None, "float32", tenant.threads, tenant.flops, tenant.bytes),
                load=self.load,
                rate_rps=self.rate_rps,
                service_ns=service_ns,
                switches_voluntary=500 if tenant.cores < 0.5 else 2,
                device_clock="process CPU time",
                working_set_bytes=tenant.working_set,
                stages_ns={stage: share * service_ns for stage, share in tenant.stages.items()},
                clock_mhz=clock,
                foreign_share=foreign if np.isscalar(foreign) else foreign[block],
                steal_share=0.0,
            )
        )
