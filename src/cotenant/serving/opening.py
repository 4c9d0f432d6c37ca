"""From a tenants file to a service that stands: workers started, costs measured, contracts agreed."""

import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager

from cotenant.scheduling import Scheduler, Settings
from cotenant.serving.conduct.conductor import Conductor
from cotenant.serving.conduct.crew import Crew
from cotenant.serving.measures import Measures
from cotenant.serving.models.text import find_codec
from cotenant.serving.processes.orders import TenantOrder, WorkerOrder
from cotenant.serving.processes.supervisor import Patience, Supervisor
from cotenant.serving.service import Served, Service
from cotenant.serving.tenants_file import ServedTenant, TenantsFile
from cotenant.serving.worker.beside import kept_off
from cotenant.workloads.models.serving import DEFAULT_TOKENS

WAY_S = 1e-3
"""From a worker to the client: the front end's part of a deadline."""


@asynccontextmanager
async def opened(file: TenantsFile, *, patience: Patience | None = None) -> AsyncIterator[Service]:
    """The service of a tenants file, for as long as the context is open.

    Raises:
        ServingError: A tenant can't be served, or its objective lies below what a request takes alone.
    """
    name = file.device
    beside = ExitStack()
    measures = Measures()
    conductor = Conductor(
        Scheduler([], Settings(fairness=file.rule(), way_s=WAY_S), now=time.monotonic()), Crew(), observe=measures.add
    )
    if name.startswith("sim:"):
        from cotenant.serving.simulated import open_simulated

        known = await open_simulated(file, name, conductor)
        service = Service(conductor, name, measures, known.__contains__, basis="simulated")
        close = None
    else:
        supervisor = Supervisor(conductor, patience)
        try:
            wanted = orders(file, name)
            beside.enter_context(kept_off({core for order in wanted for core in order.cores or ()}))
            await supervisor.open(wanted, file.contracts())
        except BaseException:
            beside.close()
            await supervisor.close()
            raise
        known = supervisor.known
        service = Service(conductor, name, measures, supervisor.ready, supervisor.describe)
        close = supervisor.close
    service.admin_key = file.admin_key
    for tenant, entry in file.tenants.items():
        costs, signature = known[tenant]
        service.tenants[tenant] = Served(
            tenant,
            entry.contract(tenant),
            costs,
            signature,
            find_codec(_folder(entry)),
            entry.tokens or DEFAULT_TOKENS,
            entry.key,
        )
    try:
        yield service
    finally:
        conductor.close()
        if close is not None:
            await close()
        beside.close()


def orders(file: TenantsFile, device: str) -> tuple[WorkerOrder, ...]:
    """One worker for each group, and for each tenant that wants one of its own."""
    groups: dict[str, list[TenantOrder]] = {}
    for name, tenant in file.tenants.items():
        home = f"/{name}" if tenant.isolation == "process" else tenant.group  # no group's name holds a slash
        order = TenantOrder(name=name, workload=tenant.spec(), largest=tenant.batch)
        groups.setdefault(home, []).append(order)
    cores = worker_cores(device, sorted(os.sched_getaffinity(0)))
    threads = file.threads or (len(cores) if cores else None)
    return tuple(
        WorkerOrder(device=device, cores=cores, threads=threads, tenants=tuple(tenants)) for tenants in groups.values()
    )


def worker_cores(device: str, allowed: Sequence[int]) -> tuple[int, ...] | None:
    """Cores for the workers: those that the device names; else all but the first, which the front end keeps."""
    family, _, part = device.partition(":")
    if family != "cpu":
        return None
    if part:
        from cotenant.devices import find_device
        from cotenant.devices.cpu.cores import parse_cores

        find_device(device)  # refuses cores that aren't there
        return tuple(parse_cores(part))
    return tuple(allowed[1:]) if len(allowed) > 1 else tuple(allowed)


def _folder(tenant: ServedTenant) -> str | None:
    """Where the model's files are; None: it has random weights."""
    if tenant.weights is not None:
        return tenant.weights
    return tenant.workload if os.path.isdir(os.path.expanduser(tenant.workload)) else None  # noqa: PTH112, PTH111
