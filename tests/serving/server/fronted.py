"""The application over tenants without computation, behind a real server: `python -m tests.serving.server.fronted`."""

import asyncio
import sys

from tests.serving.http.front import front, served


async def main():
    async with front() as client, served(client.application) as server:
        sys.stdout.write(f"http://127.0.0.1:{server.port}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


asyncio.run(main())
