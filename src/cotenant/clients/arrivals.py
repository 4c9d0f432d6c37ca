"""A socket that knows when its data arrived: the kernel's time of arrival, not when this process was free to read it.

A client that shares its cores with what it measures is woken late, and the wait would count as the server's. Linux
records the arrival of each packet (`SO_TIMESTAMPNS`); elsewhere, and for the few packets without one, the time of
reading is used. If several packets are read at once, all have the time of the last.
"""

import asyncio
import socket
import struct
import sys
import time
from typing import Any

AVAILABLE = sys.platform == "linux" and sys.maxsize > 1 << 32
_SO_TIMESTAMPNS = 35
_STAMP = struct.Struct("@qq")
_ROOM = socket.CMSG_SPACE(_STAMP.size) if AVAILABLE else 0
_PIECE = 64 << 10
"""Most bytes read at once. Python reserves as many for each read, which is slow above the allocator's threshold."""


class ArrivalTransport(asyncio.Transport):
    """A connected socket in an event loop, as asyncio's own transports but for `arrived_ns`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, protocol: asyncio.Protocol) -> None:
        super().__init__({"socket": sock, "peername": sock.getpeername()})
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.arrived_ns = 0
        """When the data last passed to the protocol arrived, on the monotonic clock."""
        self._loop, self._sock, self._protocol = loop, sock, protocol
        self._unsent = bytearray()
        self._closing = False
        protocol.connection_made(self)
        loop.add_reader(sock, self._read)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send as much as the socket takes now, and the rest as soon as it takes more."""
        if self._closing:
            return
        sent = 0
        if not self._unsent:
            try:
                sent = self._sock.send(data)
            except BlockingIOError:
                pass
            except OSError as error:
                self._drop(error)
                return
        if sent < len(data):
            if not self._unsent:
                self._loop.add_writer(self._sock, self._write_more)
            self._unsent += data[sent:]

    def is_closing(self) -> bool:
        """True once it is closed or about to be."""
        return self._closing

    def close(self) -> None:
        """Close it after everything is sent."""
        if self._unsent and not self._closing:
            self._closing = True
            self._loop.remove_reader(self._sock)
        elif not self._unsent:
            self.abort()

    def abort(self) -> None:
        """Close it now."""
        self._drop(None)

    def _read(self) -> None:
        try:
            data, stamps, _, _ = self._sock.recvmsg(_PIECE, _ROOM)
        except BlockingIOError:
            return
        except OSError as error:
            self._drop(error)
            return
        self.arrived_ns = _arrival(stamps)
        if data:
            self._protocol.data_received(data)
        elif not self._protocol.eof_received():
            self.close()

    def _write_more(self) -> None:
        try:
            del self._unsent[: self._sock.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError as error:
            self._drop(error)
            return
        if not self._unsent:
            self._loop.remove_writer(self._sock)
            if self._closing:
                self.abort()

    def _drop(self, error: OSError | None) -> None:
        if self._sock.fileno() < 0:
            return
        self._closing = True
        self._unsent.clear()
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        self._loop.call_soon(self._protocol.connection_lost, error)


def _arrival(stamps: list[tuple[int, int, bytes]]) -> int:
    """The kernel's stamps are wall-clock times: what has passed since is taken off the monotonic time."""
    now, wall = time.monotonic_ns(), time.time_ns()
    for _, kind, stamp in stamps:
        if kind == _SO_TIMESTAMPNS and len(stamp) == _STAMP.size:
            seconds, ns = _STAMP.unpack(stamp)
            since: int = wall - seconds * 1_000_000_000 - ns
            return now - since if 0 <= since < 10_000_000_000 else now  # the wall clock may have been set meanwhile
    return now


async def connect(host: str, port: int, protocol: asyncio.Protocol) -> ArrivalTransport:
    """A connection to the first of the host's addresses that accepts one.

    Raises:
        OSError: None of them does.
    """
    loop = asyncio.get_running_loop()
    failed: OSError | None = None
    for family, kind, proto, _, address in await _addresses(loop, host, port):
        sock = socket.socket(family, kind, proto)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
            return ArrivalTransport(loop, sock, protocol)
        except OSError as error:
            sock.close()
            failed = failed or error
        except BaseException:
            sock.close()
            raise
    raise failed or OSError(f"{host} has no address")


async def _addresses(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[Any]:
    """An address in numbers needs no look-up, which takes a thread."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
