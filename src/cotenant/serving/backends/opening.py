"""Open lanes of backends: query and measure each backend, and register its tenants with a scheduler."""

import time
from dataclasses import dataclass, field
from typing import Any

from cotenant.errors import RequestFailed, ServingError
from cotenant.scheduling import Scheduler, Settings, TenantAdded
from cotenant.serving.backends.backend import Backend
from cotenant.serving.backends.gate import Gate
from cotenant.serving.backends.probing import Known, probe
from cotenant.serving.backends.worker import BackendWorker
from cotenant.serving.conduct.conductor import Conductor
from cotenant.serving.conduct.crew import Crew
from cotenant.serving.costs import check_floor
from cotenant.serving.lanes import SLEEPERS, Lane
from cotenant.serving.measures import Measures
from cotenant.serving.tenants_file import TenantsFile
from cotenant.tenancy.backend import BackendTimeouts
from cotenant.workloads.protocol import DEFAULT_TOKENS

DEFAULT_WORDS = 16


@dataclass(slots=True)
class OpenLane:
    """An open lane."""

    conductor: Conductor
    workers: list[BackendWorker] = field(default_factory=list)
    known: dict[str, Known] = field(default_factory=dict)

    def ready(self, tenant: str) -> bool:
        """Whether the tenant's backend answers."""
        return any(tenant in worker.tenants and worker.backend.up for worker in self.workers)

    def describe(self) -> list[dict[str, Any]]:
        """Each backend: its address, tenants and health."""
        now = time.monotonic()
        return [
            {
                "backend": worker.backend.address.name,
                "tenants": worker.tenants,
                "up": worker.backend.up,
                "why": worker.backend.down,
                "down_s": None if worker.backend.up else now - worker.backend.down_since,
                "timeouts": worker.backend.timeouts,
                "restarts": 0,
            }
            for worker in self.workers
        ]

    async def close(self) -> None:
        """Abort requests in flight."""
        self.conductor.close()
        for worker in self.workers:
            await worker.close()


async def open_lane(file: TenantsFile, lane: Lane, measures: Measures) -> OpenLane:
    """Open one lane of backends.

    Raises:
        ServingError: A backend is unreachable or refuses, or an objective is below the time of a request.
    """
    settings = Settings(fairness=file.rule(), slots=lane.slots, queue_ahead=False)
    conductor = Conductor(Scheduler([], settings, now=time.monotonic()), Crew(), observe=measures.add)
    opened = OpenLane(conductor)
    gate = Gate() if lane.name == SLEEPERS else None
    try:
        for members in _by_address(file, lane).values():
            entry = file.tenants[members[0]].backend
            assert entry is not None
            worker = BackendWorker(Backend(entry), conductor, members, gate)
            opened.workers.append(worker)
            await _admit(file, opened, worker, gate)
    except BaseException:
        await opened.close()
        raise
    return opened


async def _admit(file: TenantsFile, opened: OpenLane, worker: BackendWorker, gate: Gate | None) -> None:
    try:
        if gate is None:
            await _probe_all(file, opened, worker)
        else:
            async with gate.through(worker.backend):
                await _probe_all(file, opened, worker)
    except RequestFailed as error:
        raise ServingError(f"The backend failed: {error.message}.", hint=error.hint) from None
    for name in worker.tenants:
        known = opened.known[name]
        contract, costs = file.tenants[name].scheduled_contract(name, known.passing.tokens), known.costs
        check_floor(contract, costs)
        worker.backend.check = worker.backend.check or known.check
        opened.conductor.crew.assign(name, worker)
        opened.conductor.tell(TenantAdded(time.monotonic(), contract, costs))


async def _probe_all(file: TenantsFile, opened: OpenLane, worker: BackendWorker) -> None:
    for name in worker.tenants:
        tenant = file.tenants[name]
        assert tenant.backend is not None
        try:
            opened.known[name] = await probe(
                worker.backend,
                tenant.backend,
                seq=tenant.seq or DEFAULT_WORDS,
                tokens=tenant.tokens or DEFAULT_TOKENS,
                embeds=tenant.mode == "embed",
            )
        except ServingError as error:
            raise ServingError(f"Tenant {name}: {error.message}", hint=error.hint) from None


def _by_address(file: TenantsFile, lane: Lane) -> dict[tuple[str, str, BackendTimeouts], tuple[str, ...]]:
    """Tenants of one server share its connections, and are paused together when it is down."""
    members: dict[tuple[str, str, BackendTimeouts], tuple[str, ...]] = {}
    for name in lane.tenants:
        entry = file.tenants[name].backend
        assert entry is not None
        server = (entry.address.name, entry.key_env or "", entry.timeouts)
        members[server] = (*members.get(server, ()), name)
    return members
