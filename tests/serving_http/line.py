"""A connection of the server without a socket."""

import asyncio
from types import SimpleNamespace

from cotenant.serving.http.wire import Connection


class Transport:
    def __init__(self):
        self.sent = []
        self.closed = False
        self.reading = True

    def write(self, data):
        self.sent.append(data)

    def writelines(self, pieces):
        self.sent.append(b"".join(pieces))

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True


def connected(app, *, limit=None, keep_alive_s=75):
    state = SimpleNamespace(connections=set(), tasks=set(), default_headers=[], total_requests=0)
    config = SimpleNamespace(loaded=True, loaded_app=app, limit_concurrency=limit, timeout_keep_alive=keep_alive_s)
    connection, transport = Connection(config, state), Transport()
    connection.connection_made(transport)
    return connection, transport


async def settle():
    for _ in range(6):
        await asyncio.sleep(0)
