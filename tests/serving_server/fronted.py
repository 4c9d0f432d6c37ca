"""The application over tenants without computation, behind a real server: `python -m tests.serving_server.fronted`."""

import asyncio
import sys

import uvicorn

from cotenant.serving.http.wire import Connection
from tests.serving_http.front import front


async def main():
    async with front() as client:
        config = uvicorn.Config(client.application, port=0, http=Connection, lifespan="off", log_level="error")
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        sys.stdout.write(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await serving


asyncio.run(main())
