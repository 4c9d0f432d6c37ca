"""The workers of a divided device: each on its part, verified together."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import partial

from cotenant.devices.protocol import HostPlan, SeatPlan, SeatReport
from cotenant.errors import ServingError
from cotenant.scheduling import TenantCosts
from cotenant.serving.conduct.conductor import Conductor
from cotenant.serving.division.ground import Division
from cotenant.serving.models.signature import Signature
from cotenant.serving.processes.orders import WorkerOrder
from cotenant.serving.processes.shared import SharedProcess
from cotenant.serving.processes.supervisor import Patience, Supervisor

log = logging.getLogger(__name__)


class Parts:
    """The workers on the parts of a device, a supervisor for each."""

    def __init__(self, division: Division) -> None:
        self._division = division
        self._hosts = division.arrangement.hosts
        self._seats: dict[int, tuple[HostPlan, SeatPlan, int]] = {
            seat.tenant: (host, seat, place) for host in self._hosts for place, seat in enumerate(host.seats)
        }
        self._shared = {
            id(host): SharedProcess(len(host.seats), host.env) for host in self._hosts if len(host.seats) > 1
        }
        self._supervisors: dict[str, Supervisor] = {}

    def supervisors(
        self,
        own: Mapping[str, Conductor],
        patience: Patience | None,
        measured: Mapping[str, tuple[TenantCosts, Signature]] | None,
    ) -> list[Supervisor]:
        """One for each tenant, with its own process or a thread of a process that several share."""
        for number, (name, conductor) in enumerate(own.items()):
            host, _, place = self._seats[number]
            shared = self._shared.get(id(host))
            self._supervisors[name] = Supervisor(
                conductor,
                patience,
                measured,
                env=host.env,
                hire=partial(shared.hire, place) if shared else None,
                replaced=self._check_again,
            )
        return list(self._supervisors.values())

    def seated(self, orders: Iterable[WorkerOrder]) -> list[WorkerOrder]:
        """The orders, in the tenants' order, each with its seat."""
        return [
            order.model_copy(update={"seat": dict(self._seats[number][1].options)})
            for number, order in enumerate(orders)
        ]

    async def check(self) -> None:
        """Ask the device whether every tenant has its part.

        Raises:
            ServingError: It has not; the device would be shared in another way than planned.
        """
        problems = await asyncio.to_thread(self._division.problems, self._reports())
        if problems:
            raise ServingError(
                f"{self._division.device} isn't shared by `{self._division.sharing}`: {'; '.join(problems)}.",
                hint="`cotenant doctor` says what is set up here.",
            )

    async def close(self) -> None:
        """End processes without a worker that was handed out."""
        for one in self._shared.values():
            await one.close()

    async def _check_again(self) -> None:
        """After a restart the tenants go on being served, whatever the device says."""
        try:
            await self.check()
        except ServingError as error:
            log.warning("after a restart %s", error.message)

    def _reports(self) -> list[SeatReport]:
        return [
            SeatReport(name, worker.pid or 0, worker.observed or {})
            for name, supervisor in self._supervisors.items()
            for worker in (supervisor.posts[0].worker,)
            if worker is not None
        ]
