"""The device under a server: divided as the file says, its parts verified, and put back as it was at the end."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from cotenant.devices import find_device
from cotenant.devices.protocol import Arrangement, Device, Fixture, HostPlan, SeatPlan, SeatReport
from cotenant.errors import ServingError
from cotenant.scheduling import TenantCosts
from cotenant.serving.conductor import Conductor
from cotenant.serving.tenants_file import TenantsFile
from cotenant.serving.tensors import Signature
from cotenant.serving.workers.remote import SharedProcess
from cotenant.serving.workers.supervisor import Patience, Supervisor
from cotenant.serving.workers.wire import WorkerOrder
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DividedDevice:
    """The parts of a file's tenants."""

    device: str
    sharing: Sharing
    arrangement: Arrangement

    def cores(self) -> set[int]:
        """Cores of this machine that are parts; none on a GPU."""
        hosts = self.arrangement.hosts
        return {core for host in hosts for seat in host.seats for core in seat.options.get("cores", ())}

    def problems(self, reports: Sequence[SeatReport]) -> tuple[str, ...]:
        """One sentence for each way in which the device isn't divided as the file says. It may ask the driver."""
        return self.arrangement.verify(reports)


class DeviceSetup:
    """A device and what was set up on it: an MPS daemon, MIG instances. It serves all versions of a file."""

    def __init__(self) -> None:
        self._device: Device | None = None
        self._standing: list[Fixture] = []
        self._in_use = False
        self._settings: Mapping[str, Any] = {}
        self._held = ExitStack()
        self._problems: Sequence[str] = ()

    async def divide(self, file: TenantsFile) -> DividedDevice | None:
        """Set up what the file's sharing needs; None if requests take turns on the whole device.

        The clock and the power limit of a plan are held from then on: see `hold`.

        Raises:
            SharingUnavailable: It can't be set up here; says what is missing and the next best way.
            DeviceError: There is no such device here.
            ServingError: It would take the device away from the workers that serve now.
        """
        if self._device is None and (file.divided or DeviceName(file.device).on_cpu):
            self._device = find_device(file.device)  # raises if there is no such core or GPU
        arrangement = None
        if file.divided:
            assert file.sharing is not None
            assert self._device is not None
            arrangement = self._device.arrange(file.sharing, tenants_of(file))
        await self._set_up(arrangement.fixture if arrangement else None, str(file.sharing))
        self.hold(file)
        if arrangement is None or file.sharing is None:
            return None
        return DividedDevice(file.device, file.sharing, arrangement)

    def hold(self, file: TenantsFile) -> None:
        """Hold the clock and the power limit that the file's plan assumes, until the end or another file.

        Raises:
            DeviceError: The device has no such control, or this user may not change it.
            ServingError: It was set, but didn't take effect.
        """
        if file.settings == self._settings:
            return
        self._release()
        if not file.settings:
            return
        device = self._device or find_device(file.device)
        self._problems = self._held.enter_context(device.apply(file.settings))
        self._settings = file.settings
        if self._problems:
            sentence = self._problems[0].rstrip(".")
            self._release()
            raise ServingError(
                f"{file.device} doesn't keep the plan's settings: {sentence}.",
                hint="Make it possible, or plan again without a power budget.",
            )

    def _release(self) -> None:
        """Put clock and power limit back."""
        self._settings = {}
        self._held.close()
        for sentence in self._problems:  # some show only at the end
            log.warning("the plan's settings were not kept all the time: %s", sentence)
        self._problems = ()

    async def close(self) -> None:
        """Put the device back as it was; no worker may be left on it."""
        self._release()
        while self._standing:
            fixture = self._standing.pop()
            log.info("removing %s", fixture.name)
            await asyncio.to_thread(fixture.__exit__, None, None, None)

    async def _set_up(self, fixture: Fixture | None, sharing: str) -> None:
        fixtures = [fixture] if fixture is not None else []
        changes = fixtures != self._standing and any(standing.alone for standing in (*self._standing, *fixtures))
        if self._in_use and changes:
            raise ServingError(
                f"The device can't be shared by `{sharing}` from now on: workers use it as it is.",
                hint="Stop the server and start it with the new file.",
            )
        for addition in fixtures:
            if addition not in self._standing:
                log.info("setting up %s", addition.name)
                await asyncio.to_thread(addition.__enter__)
                self._standing.append(addition)
        self._in_use = True


def tenants_of(file: TenantsFile) -> tuple[Tenant, ...]:
    """The tenants that our own workers serve, as a device lays them out."""
    return tuple(
        Tenant(
            name=name,
            of=name,
            workload=tenant.spec(),
            load=tenant.load or Load(kind="closed"),
            priority=tenant.priority,
            threads=file.threads,
        )
        for name, tenant in file.tenants.items()
        if tenant.backend is None
    )


# The workers of a divided device: each on its part, verified together.


class Parts:
    """The workers on the parts of a device, a supervisor for each."""

    def __init__(self, division: DividedDevice) -> None:
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
        for process in self._shared.values():
            await process.close()

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
