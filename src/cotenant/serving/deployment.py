"""Everything that serves a version of a file: workers, backends, schedulers. A changed file gets another."""

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cotenant.scheduling import DeviceScheduler, Settings, TenantCosts
from cotenant.serving.backends.lanes import OpenLane, open_lane
from cotenant.serving.backends.probing import Passing
from cotenant.serving.codec import find_codec
from cotenant.serving.conductor import Conductor
from cotenant.serving.device_setup import DividedDevice
from cotenant.serving.measures import Measures
from cotenant.serving.service import ServedModel
from cotenant.serving.tenants_file import Lane, ServedTenant, TenantsFile, lanes_of
from cotenant.serving.tensors import Signature
from cotenant.serving.workers.crew import Crew
from cotenant.serving.workers.supervisor import Patience, Supervisor
from cotenant.serving.workers.wire import TenantOrder, WorkerOrder
from cotenant.tenancy.device_names import DeviceName
from cotenant.workloads.protocol import DEFAULT_TOKENS

if TYPE_CHECKING:
    from cotenant.serving.device_setup import Parts

WAY_S = 1e-3
"""Delivery from a worker to the client: the front end's part of a deadline."""
Measured = Mapping[str, tuple[TenantCosts, Signature]]


@dataclass(slots=True)
class Deployment:
    """Everything that serves a file."""

    file: TenantsFile
    conductor: Conductor
    basis: str = "measured"
    supervisors: list[Supervisor] = field(default_factory=list)
    own: dict[str, Conductor] = field(default_factory=dict)
    """By tenant of our own workers; all the same unless each has a part of the device."""
    parts: "Parts | None" = None
    lanes: list[OpenLane] = field(default_factory=list)
    measured: dict[str, tuple[TenantCosts, Signature]] = field(default_factory=dict)

    def ready(self, tenant: str) -> bool:
        """Whether a tenant can be served now."""
        if any(tenant in lane.known for lane in self.lanes):
            return any(lane.ready(tenant) for lane in self.lanes)
        if self.supervisors:
            return any(supervisor.ready(tenant) for supervisor in self.supervisors)
        return tenant in self.measured

    def describe(self) -> list[dict[str, Any]]:
        """Each worker and each backend."""
        own = [worker for supervisor in self.supervisors for worker in supervisor.describe()]
        return [*own, *(backend for lane in self.lanes for backend in lane.describe())]

    def beside(self) -> dict[str, Conductor]:
        """The conductor of each tenant that has a backend, or a part of the device other than the first."""
        backends = {name: lane.conductor for lane in self.lanes for name in lane.known}
        return backends | {name: conductor for name, conductor in self.own.items() if conductor is not self.conductor}

    def conductors(self) -> list[Conductor]:
        """All of them."""
        return list(dict.fromkeys((self.conductor, *self.own.values(), *(lane.conductor for lane in self.lanes))))

    def tenants(self) -> dict[str, ServedModel]:
        """All tenants as clients see them, in file order."""
        passed = {name: known for lane in self.lanes for name, known in lane.known.items()}
        served = {}
        for name, entry in self.file.tenants.items():
            if name in passed:
                known = passed[name]
                served[name] = _served(name, entry, (known.costs, known.signature), known.passing)
            else:
                served[name] = _served(name, entry, self.measured[name])
        return served

    async def drained(self) -> None:
        """Wait until every accepted request has been answered."""
        for conductor in self.conductors():
            await conductor.drained()

    async def close(self) -> None:
        """End workers and connections."""
        for conductor in self.conductors():
            conductor.close()
        for lane in self.lanes:
            await lane.close()
        # At once: some may be threads of a process.
        await asyncio.gather(*(supervisor.close() for supervisor in self.supervisors))
        if self.parts is not None:
            await self.parts.close()


async def begin(
    file: TenantsFile,
    measures: Measures,
    *,
    division: DividedDevice | None = None,
    allowed: Iterable[int] | None = None,
    patience: Patience | None = None,
    measured: Measured | None = None,
) -> Deployment:
    """Start everything a file needs.

    Args:
        file: The tenants file.
        measures: Receives every outcome.
        division: The parts of the device; None: requests take turns on all of it.
        allowed: Cores available to workers.
        patience: Timeouts of workers.
        measured: Known costs of tenants whose workloads are unchanged.

    Raises:
        ServingError: A tenant can't be served, or its objective is below the solo time of a request.
    """
    lanes = lanes_of(file)
    own: dict[str, Conductor] = {}
    for lane in lanes:
        if lane.own:
            own |= dict.fromkeys(lane.tenants, _conductor(file, lane, measures))
    conductor = next(iter(own.values()), None) or _conductor(file, Lane("none", ()), measures)
    deployment = Deployment(file, conductor, own=own)
    try:
        for lane in lanes:
            if not lane.own:
                deployment.lanes.append(await open_lane(file, lane, measures))
        await _open_device(deployment, division, allowed, patience, measured)
    except BaseException:
        await asyncio.shield(deployment.close())
        raise
    return deployment


def _conductor(file: TenantsFile, lane: Lane, measures: Measures) -> Conductor:
    settings = Settings(fairness=file.rule(), way_s=WAY_S, cache_bytes=file.cache_bytes(lane))
    return Conductor(DeviceScheduler([], settings, now=time.monotonic()), Crew(), observe=measures.add)


async def _open_device(
    deployment: Deployment,
    division: DividedDevice | None,
    allowed: Iterable[int] | None,
    patience: Patience | None,
    measured: Measured | None,
) -> None:
    file, own = deployment.file, deployment.own
    if not own:
        return
    if DeviceName(file.device).simulated:
        from cotenant.serving.simulated import open_simulated

        deployment.basis = "simulated"
        within_s = (patience or Patience()).start_s
        deployment.measured = await open_simulated(file, own, division, within_s=within_s)
        return
    placed = orders(file, file.device, allowed)
    contracts = {name: file.tenants[name].contract(name) for name in own}
    if division is not None:
        from cotenant.serving.device_setup import Parts

        deployment.parts = parts = Parts(division)
        deployment.supervisors = parts.supervisors(own, patience, measured)
        for supervisor, order in zip(deployment.supervisors, parts.seated(placed), strict=True):
            await supervisor.open((order,), [contracts[order.tenants[0].name]])
            deployment.measured |= supervisor.known
        await parts.check()
        return
    supervisor = Supervisor(deployment.conductor, patience, measured)
    deployment.supervisors, deployment.measured = [supervisor], supervisor.known
    await supervisor.open(placed, list(contracts.values()))


def orders(file: TenantsFile, device: str, allowed: Iterable[int] | None = None) -> tuple[WorkerOrder, ...]:
    """One worker per group, and one per isolated tenant or part of the device.

    ``allowed``: usable cores of this machine; default: those of this thread.
    """
    groups: dict[str, list[TenantOrder]] = {}
    for name, tenant in file.tenants.items():
        if tenant.backend is not None:
            continue
        apart = file.divided or tenant.isolation != "any"
        home = f"/{name}" if apart else tenant.group  # group names contain no slash
        order = TenantOrder(name=name, workload=tenant.spec(), largest=tenant.most_at_once)
        groups.setdefault(home, []).append(order)
    cores = worker_cores(device, sorted(os.sched_getaffinity(0) if allowed is None else allowed))
    threads = file.threads or (len(cores) if cores else None)
    return tuple(
        WorkerOrder(device=device, cores=cores, threads=threads, tenants=tuple(tenants)) for tenants in groups.values()
    )


def worker_cores(device: str, allowed: Sequence[int]) -> tuple[int, ...] | None:
    """Cores for the workers: the device's, else all but the first, which the front end keeps."""
    family, _, part = device.partition(":")
    if family != "cpu":
        return None
    if part:
        from cotenant.devices.cpu import parse_cores

        return tuple(parse_cores(part))
    return tuple(allowed[1:]) if len(allowed) > 1 else tuple(allowed)


def _served(
    name: str, entry: ServedTenant, known: tuple[TenantCosts, Signature], passing: Passing | None = None
) -> ServedModel:
    codec = None if passing else find_codec(_folder(entry))
    tokens = entry.tokens or DEFAULT_TOKENS
    return ServedModel(name, entry.contract(name), *known, codec, tokens, entry.key, passing=passing)


def _folder(tenant: ServedTenant) -> str | None:
    """The folder of the model's files; None for random weights."""
    if tenant.weights is not None:
        return tenant.weights
    path = os.path.expanduser(tenant.workload or "")  # noqa: PTH111
    return tenant.workload if os.path.isdir(path) else None  # noqa: PTH112
