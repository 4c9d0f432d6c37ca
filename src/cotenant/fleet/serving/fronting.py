"""The process of a front end: listens for clients, and follows the table of devices."""

import asyncio
import os
import signal
from typing import Any

from cotenant.errors import CotenantError
from cotenant.fleet import wire
from cotenant.fleet.serving import child
from cotenant.fleet.serving.front import Front
from cotenant.serving.server import Listening, listener_at, url_of, uvicorn_config

DRAIN_POLL_S = 0.02
HEARD_S = 2.0
"""How long a new table waits for reports of its devices."""


def main() -> None:
    """Serve by the first order until told to stop."""
    import uvloop

    order = child.first_order()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(order))
    except CotenantError as error:
        child.reply(wire.problem(error))


async def _serve(order: dict[str, Any]) -> None:
    import uvicorn

    listening = Listening(str(order["host"]), int(order["port"]), order["tls_cert"], order["tls_key"])
    front = Front(
        str(order["secret"]), admin_key=order["admin_key"], locked=bool(order["locked"]), own=[str(order["host"])]
    )
    with listener_at(listening) as listener:
        server = uvicorn.Server(uvicorn_config(front, listening))

        async def obey(said: dict[str, Any]) -> dict[str, Any] | None:
            if "owners" in said:
                owners = {name: (one[0], int(one[1]), int(one[2])) for name, one in said["owners"].items()}
                front.route(owners, said["tenants"])
                await front.heard(HEARD_S)
                return {"owners": len(front.owners)}
            if "stop" in said:
                front.draining = True
                end = asyncio.get_running_loop().time() + float(said["stop"])
                while front.in_flight and asyncio.get_running_loop().time() < end:
                    await asyncio.sleep(DRAIN_POLL_S)
                os.kill(os.getpid(), signal.SIGTERM)
                return None
            return front.state()

        child.follow(obey)
        child.reply(wire.packed({"url": url_of(listener, listening)}))
        try:
            await server.serve(sockets=[listener])
        finally:
            await front.close()


if __name__ == "__main__":
    main()
