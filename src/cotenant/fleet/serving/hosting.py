"""The process that serves one device: the scheduler, its workers, and a port for the cluster's front ends."""

import asyncio
import os
import signal
from typing import Any

from cotenant.errors import CotenantError
from cotenant.fleet import wire
from cotenant.fleet.serving.fence import Fence, Ownership
from cotenant.serving.server import Listening, serve
from cotenant.serving.service import Service
from cotenant.serving.tenants_file import TenantsFile


def main() -> None:
    """Serve by the first order until told to stop."""
    import uvloop

    order = wire.first_order()
    host = Hosting(order)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(host.serve())
    except CotenantError as error:
        wire.reply(wire.problem(error))


class Hosting:
    """One device's server."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._file = TenantsFile.model_validate(order["file"])
        self._ownership = Ownership(int(order["epoch"]), float(order["until_utc_s"]))
        self._service: Service | None = None

    async def serve(self) -> None:
        """Serve until stopped. Raises CotenantError."""
        listening = Listening(
            str(self._order["host"]),
            0,
            drain_s=float(self._order["drain_s"]),
            behind=lambda inner, service: Fence(inner, service, str(self._order["secret"]), self._ownership),
        )
        await serve(self._file, listening, ready=self._ready, again=lambda: self._file)

    def _ready(self, address: str, service: Service) -> None:
        self._service = service
        wire.follow(self._obey)
        costs = {name: tenant.costs.spaced_s for name, tenant in service.tenants.items()}
        wire.reply(wire.packed({"url": address, "device": service.device, "basis": service.basis, "costs_s": costs}))

    async def _obey(self, order: dict[str, Any]) -> dict[str, Any] | None:
        if "renew" in order:
            self._ownership.renew(float(order["renew"]))
            return None
        if "stop" in order:
            os.kill(os.getpid(), signal.SIGTERM)
            return None
        assert self._service is not None
        assert self._service.reload is not None
        before, self._file = self._file, TenantsFile.model_validate(order["file"])
        try:
            return await self._service.reload()
        except CotenantError:
            self._file = before
            raise


if __name__ == "__main__":
    main()
