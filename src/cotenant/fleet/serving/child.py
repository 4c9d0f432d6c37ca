"""The inside of a process that an actor keeps: orders come as lines on its standard input, replies leave as lines.

Its input ends with the actor, however that dies, and then so does the process.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from cotenant.errors import CotenantError
from cotenant.fleet import wire

Obey = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Carries out an order; None: it has no reply."""


def first_order() -> dict[str, Any]:
    """What to do."""
    line = sys.stdin.buffer.readline()
    if not line:
        os._exit(1)
    order: dict[str, Any] = wire.unpacked(line)
    return order


def reply(said: bytes) -> None:
    """Answer an order."""
    sys.stdout.buffer.write(said + b"\n")
    sys.stdout.buffer.flush()


def follow(obey: Obey) -> None:
    """Carry out further orders in this thread's event loop, one after the other."""
    loop = asyncio.get_running_loop()

    async def carry_out(order: dict[str, Any]) -> None:
        try:
            said = await obey(order)
        except CotenantError as error:
            reply(wire.problem(error))
        else:
            if said is not None:
                reply(wire.packed(said))

    def read() -> None:
        for line in sys.stdin.buffer:
            asyncio.run_coroutine_threadsafe(carry_out(wire.unpacked(line)), loop)
        os._exit(1)  # the actor is gone: nothing may be answered any more

    threading.Thread(target=read, name="orders", daemon=True).start()
