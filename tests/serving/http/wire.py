"""Small responders behind a real server, and raw sockets as their clients: no test goes around the socket."""

import asyncio
import json
from contextlib import asynccontextmanager

from cotenant.serving.http.messages import HttpLimits, Reply, Responder, in_json
from tests.serving.http.front import served
from tests.support import pace


class Echo(Responder):
    """Answers with what it understood of a request; `/slow` waits until it is released, `/stream` answers in pieces."""

    def __init__(self):
        self.understood = []
        self.cancelled = []
        self.go_on = asyncio.Event()

    def find(self, head):
        own = {"/slow": self._slow, "/stream": self._stream, "/endless": self._endless, "/odd": self._odd}
        return own.get(head.path, self._echo)

    async def _echo(self, request):
        self.understood.append((request.method, request.path, request.query, request.body))
        body = request.body.decode("latin-1")
        return in_json({"method": request.method, "path": request.path, "query": request.query, "body": body,
                        "headers": dict(request.headers)})  # fmt: skip

    async def _slow(self, request):
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.append(request.body)
            raise
        return await self._echo(request)

    async def _stream(self, request):
        async def pieces():
            yield b"one"
            yield b""
            yield b"two"
            if request.body == b"break":
                raise RuntimeError("broken on purpose")

        return Reply(200, kind="text/plain", pieces=pieces())

    async def _endless(self, request):
        del request

        async def pieces():
            while True:
                yield b"more" * 1000
                await asyncio.sleep(0)

        return Reply(200, kind="text/plain", pieces=pieces())

    async def _odd(self, request):
        del request
        return Reply(200, b"", "text/plain\r\nset-cookie: a=b")


def request(method="POST", path="/echo", body=b"", *headers, version="1.1"):
    """The bytes of a request."""
    length = (f"Content-Length: {len(body)}",) if body or method == "POST" else ()
    lines = (f"{method} {path} HTTP/{version}", "Host: localhost", *length, *headers, "", "")
    return "\r\n".join(lines).encode("latin-1") + body


class Wire:
    """One raw connection to a server."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    def send(self, data):
        self.writer.write(data)

    async def until(self, end):
        """What arrives up to some bytes."""
        return await asyncio.wait_for(self.reader.readuntil(end), pace.seconds(20))

    async def all(self):
        """Everything until the server closes the connection."""
        return await asyncio.wait_for(self.reader.read(), pace.seconds(20))

    async def close(self):
        self.writer.close()
        await asyncio.gather(self.writer.wait_closed(), return_exceptions=True)


@asynccontextmanager
async def wired(server):
    wire = Wire(*await asyncio.open_connection("127.0.0.1", server.port))
    try:
        yield wire
    finally:
        await wire.close()


def on_wire(scenario, responder=None, **limits):
    """Run a coroutine with a responder, its server and a connection to it."""

    async def main():
        app = responder or Echo()
        async with served(app, HttpLimits(**limits)) as server, wired(server) as wire:
            server.grace_s = 5.0
            return await asyncio.wait_for(scenario(app, server, wire), pace.seconds(60))

    return asyncio.run(main())


def answers(received):
    """Status, headers and body of each answer in a stream of bytes; all of it must be answers."""
    found = []
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        assert status.startswith("HTTP/1.1 "), status[:80]
        headers = dict(line.split(": ", 1) for line in lines)
        code = int(status.split()[1])
        if code == 100:
            continue
        if headers.get("transfer-encoding") == "chunked":
            body, _, received = received.partition(b"0\r\n\r\n")
        else:
            length = int(headers["content-length"])
            body, received = received[:length], received[length:]
        found.append((code, headers, body))
    return found


def bodies(received):
    """The bodies that an `Echo` understood, in order."""
    return [json.loads(body)["body"] for status, _, body in answers(received) if status == 200]
