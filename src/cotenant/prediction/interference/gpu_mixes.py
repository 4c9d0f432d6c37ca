"""Mixes of a GPU's tenants under any way to share: a prior in closed form, and the event simulation of a mix."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cotenant.errors import SharingUnavailable
from cotenant.prediction.contention.closed_form import Terms, slowdowns
from cotenant.prediction.contention.demand import Demands, demands_of, joined
from cotenant.prediction.contention.layout import Layout, Part, instance_bytes, lay_out, whole_of
from cotenant.prediction.contention.mix import MixTenant, mean_slowdowns, stretches
from cotenant.prediction.contention.trace import Trace
from cotenant.prediction.interference.setting import ABSENT, Prior
from cotenant.prediction.kernels.columns import Floats, Ints
from cotenant.prediction.simulated_gpu import Controls, SimulatedGpu
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing
from cotenant.workloads.protocol import WorkloadSpec

_CLOSED = Load(kind="closed")


class GpuMixes:
    """All tenants of a prediction on a simulated GPU."""

    def __init__(
        self,
        gpu: SimulatedGpu,
        specs: Sequence[WorkloadSpec],
        controls: Controls,
        *,
        priority: Sequence[int] = (),
        shares: Sequence[float | str | None] = (),
        plain: Mapping[int, Trace] | None = None,
    ) -> None:
        """Describe the tenants.

        Args:
            gpu: The GPU, or the twin of a real GPU.
            specs: By tenant.
            controls: Its settings, with measured times that calibrate it.
            priority: By tenant; default: none has any.
            shares: By tenant, as in a file; default: none has a share of its own.
            plain: Requests of tenants that no workload describes; they take as long on any part of the GPU.
        """
        self.gpu, self.specs, self.controls = gpu, specs, controls
        self.plain = plain or {}
        self.priority = list(priority) or [0] * len(specs)
        self.shares = list(shares) or [None] * len(specs)
        self._needs = [0 if number in self.plain else gpu.memory_bytes(spec) for number, spec in enumerate(specs)]
        profiles = gpu.gpu.mig.profiles.values() if gpu.gpu.mig else ()
        self._fits = [sum(need <= instance_bytes(profile) for profile in profiles) for need in self._needs]
        self._layouts: dict[object, Layout | None] = {}
        self._demands: dict[tuple[int, Part | None], Demands] = {}

    def trace(self, tenant: int, part: Part | None = None) -> Trace:
        """A tenant's request on a part of the GPU; None: all of it."""
        if tenant in self.plain:
            return self.plain[tenant]
        return self.gpu.trace(self.gpu.request(self.specs[tenant]), part or whole_of(self.gpu.gpu), self.controls)

    def layout(self, sharing: Sharing, group: Sequence[int]) -> Layout | None:
        """The tenants' parts; None if they can't share this GPU that way."""
        own = tuple(self.shares[tenant] for tenant in group)
        key = sharing, own, self._order_of_needs(group) if sharing.mode == "mig" else None
        if key not in self._layouts:
            tenants = [
                Tenant(name=str(column), of=str(column), workload=self.specs[tenant], load=_CLOSED, share=own[column])
                for column, tenant in enumerate(group)
            ]
            needs = {str(column): self._needs[tenant] for column, tenant in enumerate(group)}
            try:
                self._layouts[key] = lay_out(self.gpu.gpu, sharing.among(len(group)), tenants, needs)
            except SharingUnavailable:
                self._layouts[key] = None
        return self._layouts[key]

    def _order_of_needs(self, group: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """What MIG instances depend on: who needs more memory than whom, and in how many instances each fits."""
        ranks = sorted(range(len(group)), key=lambda column: -self._needs[group[column]])
        return tuple(ranks), tuple(self._fits[tenant] for tenant in group)

    def _alike(self, sharing: Sharing, groups: Ints) -> dict[bytes, list[int]]:
        """Groups that get the same parts."""
        kinds = list(dict.fromkeys(self.shares))
        if sharing.mode != "mig" and len(kinds) == 1:
            return {b"": list(range(len(groups)))}
        needs, fits = np.array(self._needs), np.array(self._fits)
        own = np.array([kinds.index(share) for share in self.shares])
        keys = np.concatenate([np.argsort(-needs[groups], axis=1, kind="stable"), fits[groups], own[groups]], axis=1)
        alike: dict[bytes, list[int]] = {}
        for row, key in enumerate(keys):
            alike.setdefault(key.tobytes(), []).append(row)
        return alike

    def prior(self, sharing: Sharing) -> Prior:
        """Log slowdowns of mixes in closed form, relative to alone on the whole GPU; NaN where they can't share it."""

        def logs(mixes: Ints) -> Floats:
            result = np.full(mixes.shape, np.nan)
            size = (mixes != ABSENT).sum(axis=1)
            for count in np.unique(size):
                rows = np.flatnonzero(size == count)
                groups = mixes[rows, :count]
                result[rows, :count] = self._logs(sharing, groups)
            return result

        return logs

    def _logs(self, sharing: Sharing, groups: Ints) -> Floats:
        """Groups of equal size."""
        by_layout: dict[Layout, list[int]] = {}
        for rows in self._alike(sharing, groups).values():
            layout = self.layout(sharing, [int(tenant) for tenant in groups[rows[0]]])
            if layout is not None:
                by_layout.setdefault(layout, []).extend(rows)
        if not by_layout:
            return np.full(groups.shape, np.nan)
        known: dict[tuple[int, Part | None], int] = {}
        seats, domains, whole = (np.full(shape, ABSENT) for shape in (groups.shape, (2, *groups.shape), groups.shape))
        for layout, mine in by_layout.items():
            for column, part in enumerate(layout.parts):
                # Equal parts in different domains ask for the same.
                shape = replace(part, sm_domain=0, dram_domain=0, memory_bytes=0, label=None)
                tenants, which = np.unique(groups[mine, column], return_inverse=True)
                for table, key in ((seats, shape), (whole, None)):
                    numbers = [known.setdefault((int(tenant), key), len(known)) for tenant in tenants]
                    table[mine, column] = np.array(numbers)[which]
                domains[0, mine, column], domains[1, mine, column] = part.sm_domain, part.dram_domain
        demands = joined([self._demand(tenant, part) for tenant, part in known])
        first = next(iter(by_layout))
        priority = np.array(self.priority)[groups]
        times = slowdowns(demands, seats, Terms(first.slicing, first.shared_host, domains[0], domains[1], priority))
        alone = demands.alone_ns
        times *= alone[seats] / alone[whole]
        return np.asarray(np.log(np.maximum(times, 1.0)))

    def _demand(self, tenant: int, part: Part | None) -> Demands:
        key = tenant, part
        if key not in self._demands:
            self._demands[key] = demands_of([self.trace(tenant, part)])
        return self._demands[key]

    def simulated(
        self, group: Sequence[int], sharing: Sharing, loads: Mapping[int, Load] | None = None
    ) -> list[float] | None:
        """Slowdowns of a mix by the event simulation, relative to alone on the whole GPU.

        Args:
            group: The tenants.
            sharing: How they share.
            loads: By tenant: arrivals at known rates; others send the next request at once.

        Returns:
            None if they can't share this GPU that way.
        """
        layout = self.layout(sharing, group)
        if layout is None:
            return None
        tenants = []
        for tenant, part in zip(group, layout.parts, strict=True):
            load = (loads or {}).get(tenant, _CLOSED)
            first = -1 if tenant in self.plain else self.gpu.request(self.specs[tenant]).first_output
            tenants.append(
                MixTenant(
                    self.trace(tenant, part),
                    part,
                    rate_rps=load.rate_rps or 0.0,
                    cv=load.cv,
                    priority=self.priority[tenant],
                    first_output=first,
                )
            )
        factors = mean_slowdowns(stretches(tenants, slicing=layout.slicing, shared_host=layout.shared_host))
        alone = [self.trace(tenant).alone_ns() for tenant in group]
        return [
            slowdown * tenant.trace.alone_ns() / whole
            for slowdown, tenant, whole in zip(factors, tenants, alone, strict=True)
        ]
