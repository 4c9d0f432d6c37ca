"""From a tenants file to a running service, and from one version of the file to the next while serving."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any

from cotenant.errors import CotenantError, SchedulingError, ServingError
from cotenant.scheduling import TenantAdded
from cotenant.serving.deployment import Deployment, begin, orders
from cotenant.serving.device_setup import DeviceSetup
from cotenant.serving.measures import Measures
from cotenant.serving.service import Service
from cotenant.serving.tenants_file import TenantsFile
from cotenant.serving.workers.place import kept_off
from cotenant.serving.workers.supervisor import Patience
from cotenant.tenancy.device_names import DeviceName

log = logging.getLogger(__name__)


@asynccontextmanager
async def opened(
    file: TenantsFile, *, patience: Patience | None = None, again: Callable[[], TenantsFile] | None = None
) -> AsyncIterator[Service]:
    """The service of a tenants file, while the context is open.

    Args:
        file: The tenants file.
        patience: Timeouts of workers.
        again: Rereads the file, for `Service.reload`.

    Raises:
        ServingError: A tenant can't be served, or its objective is below the solo time of a request.
    """
    reloader = Reloader(Measures(), patience)
    service = await reloader.open(file)
    if again is not None:
        read = again
        service.reload = lambda: _logged(reloader.reload(read))
    try:
        yield service
    finally:
        await reloader.close()


async def _logged(reloading: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Reload the file, and log what came of it, whoever asked for it."""
    try:
        done = await reloading
    except CotenantError as error:
        problems = "; ".join(getattr(error, "problems", ()))
        log.warning("the file was rejected, and nothing changes: %s %s", error.message, problems)
        raise
    log.warning("the file was reloaded: %s", "nothing changed" if not done["changed"] else ", ".join(done["tenants"]))
    return done


class Reloader:
    """Holds the serving deployment, and those that still finish accepted requests."""

    def __init__(self, measures: Measures, patience: Patience | None) -> None:
        self._measures = measures
        self._patience = patience
        self._current: Deployment | None = None
        self._service: Service | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()
        self._beside = ExitStack()
        self._setup = DeviceSetup()
        self._allowed = os.sched_getaffinity(0)
        """Before this process leaves some of them to its workers."""

    async def open(self, file: TenantsFile) -> Service:
        """Start the first deployment; this process leaves its cores to the workers."""
        try:
            division = await self._setup.divide(file)  # while this process may use all cores
            if not DeviceName(file.device).simulated:
                cores = {core for order in orders(file, file.device, self._allowed) for core in order.cores or ()}
                self._beside.enter_context(kept_off(division.cores() if division else cores))
            self._current = current = await begin(
                file,
                self._measures,
                division=division,
                allowed=self._allowed,
                patience=self._patience,
            )
        except BaseException:
            await asyncio.shield(self._setup.close())
            self._beside.close()
            raise
        self._service = Service(current.conductor, file.device, self._measures, current.ready)
        self._adopt(current)
        return self._service

    async def reload(self, read: Callable[[], TenantsFile]) -> dict[str, Any]:
        """Switch to a new version of the file: start the replacement, then let the old finish and end.

        Returns what was done. On an error, nothing changes.

        Raises:
            CotenantError: The file is invalid, or a tenant can't be served.
        """
        async with self._one_at_a_time:
            before = self._current
            assert before is not None
            file = await asyncio.to_thread(read)
            if file.device != before.file.device:
                raise ServingError(
                    f"The file is now for {file.device}, but this server runs on {before.file.device}.",
                    hint="Start a second server there, then stop this one.",
                )
            if file == before.file:
                return {"changed": False, "workers_replaced": False, "tenants": list(file.tenants)}
            if _same_work(before.file, file) and self._agree(before, file):
                self._adopt(before)
                return {"changed": True, "workers_replaced": False, "tenants": list(file.tenants)}
            known = {
                name: before.measured[name]
                for name, tenant in file.tenants.items()
                if name in before.measured and _work(before.file, name) == _work(file, name)
            }
            try:
                following = await begin(
                    file,
                    self._measures,
                    division=await self._setup.divide(file),
                    allowed=self._allowed,
                    patience=self._patience,
                    measured=known,
                )
            except BaseException:
                self._setup.hold(before.file)
                raise
            self._current = following
            self._adopt(following)
            self._let_go(before)
            return {"changed": True, "workers_replaced": True, "tenants": list(file.tenants)}

    async def close(self) -> None:
        """End everything."""
        for task in tuple(self._leaving):
            task.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)
        if self._current is not None:
            await self._current.close()
        self._measures.settle()
        await self._setup.close()
        self._beside.close()

    def _adopt(self, deployment: Deployment) -> None:
        service = self._service
        assert service is not None
        service.conductor, service.beside = deployment.conductor, deployment.beside()
        service.parts = list(dict.fromkeys(deployment.own.values()))
        service.ready, service.workers, service.basis = deployment.ready, deployment.describe, deployment.basis
        service.tenants, service.admin_key = deployment.tenants(), deployment.file.admin_key
        service.file = deployment.file

    def _agree(self, deployment: Deployment, file: TenantsFile) -> bool:
        """New contracts for the same workers; False if they can't be applied one by one."""
        beside, now = deployment.beside(), time.monotonic()
        tenants = deployment.tenants()
        old, new = (
            {name: tenant.scheduled_contract(name, tenants[name].tokens) for name, tenant in each.tenants.items()}
            for each in (deployment.file, file)
        )
        # Shrinking shares first, so that the sum never exceeds 1.
        for name in sorted(new, key=lambda name: (new[name].share or 0.0) - (old[name].share or 0.0)):
            try:
                conductor = beside.get(name, deployment.conductor)
                conductor.tell(TenantAdded(now, new[name], tenants[name].costs))
            except SchedulingError as error:
                log.info("new contracts need new schedulers: %s", error.message)
                return False
        for supervisor in deployment.supervisors:
            supervisor.agree(new.values())
        deployment.file = file
        return True

    def _let_go(self, deployment: Deployment) -> None:
        """Let a deployment finish accepted requests, then end it."""
        service = self._service
        assert service is not None
        old = [deployment.conductor, *dict.fromkeys(deployment.beside().values())]
        service.leaving += old

        async def finish() -> None:
            try:
                await deployment.drained()
            finally:
                for conductor in old:
                    service.leaving.remove(conductor)
                await asyncio.shield(deployment.close())

        task = asyncio.get_running_loop().create_task(finish())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


def _work(file: TenantsFile, name: str) -> Any:
    """What a tenant's costs depend on; None if our own workers don't serve it."""
    tenant = file.tenants.get(name)
    if tenant is None or tenant.backend is not None:
        return None
    return (
        tenant.spec(),
        tenant.most_at_once,
        file.sharing,
        file.settings,
        list(file.tenants).index(name) if file.divided else 0,
    )


def _same_work(before: TenantsFile, after: TenantsFile) -> bool:
    """Whether the same workers and backends serve both: only contracts, loads and keys differ."""
    backends = [{name: tenant.backend for name, tenant in file.tenants.items()} for file in (before, after)]
    return (
        backends[0] == backends[1]
        and before.fairness == after.fairness
        and before.cache_memory == after.cache_memory
        and before.settings == after.settings
        and (before.sharing, [tenant.priority for tenant in before.tenants.values()])
        == (after.sharing, [tenant.priority for tenant in after.tenants.values()])
        and orders(before, before.device) == orders(after, after.device)
    )
