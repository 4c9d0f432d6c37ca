"""What a server understands of some bytes, over a socket, beside what h11 understands."""

import asyncio
import fcntl
import random
import re
import struct
import termios
from urllib.parse import urlsplit

import h11

from cotenant.serving.http.messages import ConnectionPhase, HttpLimits
from tests.serving.http.front import served
from tests.serving.http.wire import Echo, wired
from tests.support import pace

GOOD = (
    b"GET /a?b=c HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x\r\n!\r\n0\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: y\r\n\r\n",
    b"POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi",
    b"GET http://a/b HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
)
LINES = (
    b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: 5, 5", b"Content-Length: +5", b"Content-Length:5 ",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", b"Transfer-Encoding : chunked", b"Host: b",
    b" Transfer-Encoding: chunked", b"Connection: close", b"Connection: keep-alive", b"Expect: 100-continue",
    b"Upgrade: h2c", b"X: \x0b", b"X:", b"Content-Length\x00: 5", b"Trailer: Host",
)  # fmt: skip
BYTES = (
    b"\r",
    b"\n",
    b"\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"0",
    b"5",
    b"f",
    b"x",
    b"\xff",
    b"/",
    b"?",
    b"#",
    b"%2f",
)


SETTLED = 4
"""Turns of the loop without news after which a connection waits for its client."""


async def understood(server, responder, pieces):
    """Requests that a server carries out, and what it sends: until it closes the connection or waits for more."""
    before = len(responder.understood)
    async with wired(server) as wire:
        received, closed = b"", False
        while not server._connections:
            await asyncio.sleep(0)
        [connection] = server._connections
        for piece in pieces:
            wire.send(piece)
            received, closed = await _settled(connection, wire, received, closed)
    while server._connections:
        await asyncio.sleep(0)
    return responder.understood[before:], received, closed


async def _settled(connection, wire, received, closed):
    calm = 0
    while calm < SETTLED and not closed:
        await asyncio.sleep(0)
        if wire.reader._buffer or wire.reader.at_eof():
            piece = await wire.reader.read(1 << 16)
            received, closed, calm = received + piece, not piece, 0
        elif connection.phase in (ConnectionPhase.ANSWER, ConnectionPhase.CLOSING) or _unread(connection):
            calm = 0
        else:
            calm += 1
    return received, closed


def _unread(connection):
    """Bytes that the kernel holds for the server."""
    if connection.transport is None:
        return 1
    own = connection.transport.get_extra_info("socket")
    if own is None or own.fileno() < 0:
        return 0
    return struct.unpack("i", fcntl.ioctl(own.fileno(), termios.FIONREAD, b"\0" * 4))[0]


def by_h11(data):
    """The requests that h11 reads from some bytes, and whether it refused what followed."""
    requests = []
    while data:
        connection = h11.Connection(h11.SERVER)
        connection.receive_data(data.removeprefix(b"\r\n"))  # RFC 9112, section 2.2
        head, body = None, b""
        try:
            while True:
                event = connection.next_event()
                if isinstance(event, h11.Request):
                    head = event
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    return requests, False
        except h11.RemoteProtocolError:
            return requests, True
        target = head.target.decode()
        if not target.startswith("/"):
            parts = urlsplit(target)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        path, _, query = target.partition("?")
        requests.append((head.method.decode(), path, query, bytes(body)))
        data = connection.trailing_data[0]
    return requests, False


def check_against_h11(data, ours):
    """Ours are the first of h11's, or all of them."""
    theirs, _ = by_h11(data)
    assert ours == theirs[: len(ours)], f"{data!r} is read as {ours} here and as {theirs} by h11"


def varied(seeded):
    """Some requests in a row, with a few mistakes."""
    data = b"".join(seeded.choice(GOOD) for _ in range(seeded.randint(1, 3)))
    for _ in range(seeded.choice((0, 1, 1, 1, 2, 3))):
        at = seeded.randrange(len(data) + 1)
        match seeded.randrange(6):
            case 0:
                data = data[:at] + seeded.choice(BYTES) + data[at:]
            case 1:
                data = data[:at] + data[at + seeded.randint(1, 3) :]
            case 2:
                data = data[:at] + seeded.choice(BYTES) + data[at + 1 :]
            case 3:
                ends = [found.end() for found in re.finditer(rb"\r\n", data)] or [0]
                end = seeded.choice(ends)
                data = data[:end] + seeded.choice(LINES) + b"\r\n" + data[end:]
            case 4:
                data = data[:at] + data[at:].replace(b"\r\n", b"\n", seeded.randint(1, 2))
            case _:
                other = seeded.randrange(len(data) + 1)
                data = data[: max(at, other)] + data[min(at, other) :]
    return data or b"\r\n"


def cut(seeded, data):
    """The same bytes in a few pieces."""
    ends = sorted(seeded.randrange(len(data) + 1) for _ in range(seeded.choice((0, 0, 1, 3))))
    pieces = [data[begin:end] for begin, end in zip([0, *ends], [*ends, len(data)], strict=True)]
    return [piece for piece in pieces if piece]


def fuzz(seed, count):
    """Read random requests here and by h11. Returns how many requests were understood."""

    async def main():
        seeded, app, total = random.Random(seed), Echo(), 0
        async with served(app, HttpLimits()) as server:
            for _ in range(count):
                data = varied(seeded)
                requests, _, _ = await asyncio.wait_for(understood(server, app, cut(seeded, data)), pace.seconds(20))
                check_against_h11(data, requests)
                total += len(requests)
        return total

    return asyncio.run(main())
