"""The process of a front end: listens for clients, and follows the table of devices."""

import asyncio
import signal
from typing import Any

from cotenant.errors import CotenantError
from cotenant.fleet import wire
from cotenant.fleet.serving.front import Front
from cotenant.serving.http import listening as answering
from cotenant.serving.http import tls_of
from cotenant.serving.server import Listening, listener_for, url_of

DRAIN_POLL_S = 0.02
HEARD_S = 2.0
"""How long a new table waits for reports of its devices."""


def main() -> None:
    """Serve by the first order until told to stop."""
    import uvloop

    order = wire.first_order()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(order))
    except CotenantError as error:
        wire.reply(wire.problem(error))


async def _serve(order: dict[str, Any]) -> None:
    listening = Listening(str(order["host"]), int(order["port"]), order["tls_cert"], order["tls_key"])
    front = Front(
        str(order["secret"]), admin_key=order["admin_key"], locked=bool(order["locked"]), own=[str(order["host"])]
    )
    with listener_for(listening) as listener:
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)

        async def obey(said: dict[str, Any]) -> dict[str, Any] | None:
            if "owners" in said:
                owners = {name: (owner[0], int(owner[1]), int(owner[2])) for name, owner in said["owners"].items()}
                front.route(owners, said["tenants"])
                await front.heard(HEARD_S)
                return {"owners": len(front.owners)}
            if "stop" in said:
                front.draining = True
                end = asyncio.get_running_loop().time() + float(said["stop"])
                while front.in_flight and asyncio.get_running_loop().time() < end:
                    await asyncio.sleep(DRAIN_POLL_S)
                stopped.set()
                return None
            return front.state()

        wire.follow(obey)
        wire.reply(wire.packed({"url": url_of(listener, listening)}))
        try:
            async with answering(front, listener, tls=tls_of(listening.tls_cert, listening.tls_key)):
                await stopped.wait()
        finally:
            await front.close()


if __name__ == "__main__":
    main()
