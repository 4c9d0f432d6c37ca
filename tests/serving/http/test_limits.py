"""Limits of clients: they hold while bytes arrive, and what one client does costs the others nothing."""

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cotenant.serving.http.messages import HttpLimits
from tests.serving.http.front import served
from tests.serving.http.wire import Echo, answers, bodies, on_wire, request, wired
from tests.support import pace

LAST = "Connection: close"


async def sent_until_refused(wire, piece, most):
    """Send a piece again and again until the server refuses; returns how much was sent, and the answer."""
    total = 0
    with contextlib.suppress(ConnectionError):
        while total < most:
            wire.send(piece)
            total += len(piece)
            await asyncio.wait_for(wire.writer.drain(), pace.seconds(20))
            if wire.reader._buffer or wire.reader.at_eof():
                break
    return total, (await wire.reader.read(4096))


@pytest.mark.parametrize(
    ("begin", "piece", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"X: " + b"a" * 1000 + b"\r\n", 431),
        (b"GET /", b"a" * 1000, 414),
        (b"GET / HTTP/1.1\r\nX: ", b"a" * 1000, 431),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", b"a" * 1000, 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a" * 1000, 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n" * 100, 400),
    ],
    ids=["headers", "path", "one header", "size of a chunk", "extension", "trailers"],
)
def test_what_has_no_end_is_refused_while_it_arrives(begin, piece, status):
    async def scenario(app, server, wire):
        wire.send(begin)
        total, answer = await sent_until_refused(wire, piece, 1 << 24)
        assert total < 1 << 20, "refused long before memory is used"
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        for connection in server._connections:
            assert len(connection._rest) < 1 << 19

    on_wire(scenario)


def test_a_path_that_arrives_in_many_pieces_costs_time_in_proportion():
    """With twice the bytes, at most about twice the work: counted in bytes looked at, not by a clock."""
    from cotenant.serving.http import parsing

    looked = []

    def cost(length):
        looked.clear()

        async def scenario(app, server, wire):
            with pytest.MonkeyPatch.context() as patch:
                real = parsing.head_ends
                patch.setattr(
                    parsing, "head_ends", lambda data, begin=0: looked.append(len(data) - begin) or real(data, begin)
                )
                for _ in range(length // 100):
                    wire.send(b"G" * 100)
                    await asyncio.sleep(0)
                while sum(looked) < length - length % 100:
                    await asyncio.sleep(0)
            return sum(looked)

        return on_wire(scenario, head=1 << 20)

    assert cost(40_000) <= 2.2 * cost(20_000)


def test_too_many_headers_are_refused():
    async def scenario(app, server, wire):
        wire.send(request("GET", "/", b"", *(f"X{number}: y" for number in range(300))))
        [(status, *_)] = answers(await wire.all())
        assert status == 431

    on_wire(scenario)


def test_a_body_of_single_bytes_costs_single_bytes():
    async def scenario(app, server, wire):
        wire.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        wire.send(b"1\r\nx\r\n" * 60_000)
        await asyncio.wait_for(wire.writer.drain(), pace.seconds(20))
        [connection] = server._connections
        while connection._body is None or connection._body.size < 60_000:
            await asyncio.sleep(0)
        assert sum(map(sys.getsizeof, connection._body._pieces)) < 4 * 60_000
        wire.send(b"0\r\n\r\n")
        await wire.until(b"}}")
        assert app.understood[0][3] == b"x" * 60_000

    on_wire(scenario)


def test_all_bodies_together_have_a_limit_and_small_ones_always_get_in():
    async def scenario(app, server, wire):
        big = b"x" * 300_000
        async with wired(server) as first, wired(server) as second:
            first.send(request("POST", "/slow", big, LAST)[:-1])
            while server.body_bytes < 290_000:
                await asyncio.sleep(0.001)
            second.send(request("POST", "/echo", big, LAST))
            [(status, headers, body)] = answers(await second.all())
            assert (status, headers["retry-after"]) == (503, "1")
            assert b"together are too large" in body
            small = request("POST", "/echo", b"small", LAST)
            wire.send(small[:-3])
            while len(server.sending) < 2:
                await asyncio.sleep(0.001)
            wire.send(small[-3:])
            assert bodies(await wire.all()) == ["small"]
            first.send(b"x")
            app.go_on.set()
            assert len(bodies(await first.all())[0]) == 300_000
        assert server.body_bytes == 0
        async with wired(server) as again:
            again.send(request("POST", "/echo", big, LAST))
            assert len(bodies(await again.all())[0]) == 300_000

    on_wire(scenario, bodies=300_000)


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_of_clients_that_leave_are_not_counted(chunked):
    async def scenario(app, server, wire):
        if chunked:
            wire.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n30d40\r\n" + b"x" * 150_000)
        else:
            wire.send(request("POST", "/echo", b"x" * 200_000)[:-1])
        while server.body_bytes < 149_000:
            await asyncio.sleep(0.001)
        await wire.close()
        while server._connections:
            await asyncio.sleep(0.001)
        assert server.body_bytes == 0

    on_wire(scenario)


def test_when_all_places_are_taken_the_longest_idle_connection_makes_room():
    async def scenario(app, server, wire):
        wire.send(request("POST", "/slow", b"busy", LAST))
        while server.idle:
            await asyncio.sleep(0.001)
        async with contextlib.AsyncExitStack() as stack:
            idle = [await stack.enter_async_context(wired(server)) for _ in range(3)]
            for number, one in enumerate(idle):
                one.send(b"GET / HT" if number else b"")  # half a head is no request
            while len(server.idle) < 3:
                await asyncio.sleep(0.001)
            for _ in range(5):
                async with wired(server) as new:
                    new.send(request("POST", "/echo", b"new", LAST))
                    assert bodies(await new.all()) == ["new"]
            assert await idle[0].all() == b""
            app.go_on.set()
            assert bodies(await wire.all()) == ["busy"], "a request in progress is never closed"

    on_wire(scenario, connections=4)


def test_a_client_that_stalls_in_its_body_makes_room():
    async def scenario(app, server, wire):
        wire.send(request("POST", "/echo", b"abc")[:-1])
        while not server.sending:
            await asyncio.sleep(0.001)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("cotenant.serving.http.listener.STALLED_S", 0.0)
            async with wired(server) as new:
                new.send(request("POST", "/echo", b"new", LAST))
                assert bodies(await new.all()) == ["new"]
        assert await wire.all() == b""

    on_wire(scenario, connections=1)


def test_when_all_places_are_busy_a_client_is_told_when_to_retry():
    async def scenario(app, server, wire):
        wire.send(request("POST", "/slow", b"busy", LAST))
        while server.idle:
            await asyncio.sleep(0.001)
        async with wired(server) as new:
            new.send(request("POST", "/echo", b"new"))
            [(status, headers, _)] = answers(await new.all())
            assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
        app.go_on.set()
        assert bodies(await wire.all()) == ["busy"]

    on_wire(scenario, connections=1)


def test_one_address_can_not_take_all_places():
    async def scenario(app, server, wire):
        wire.send(request("POST", "/slow", b"1"))
        async with wired(server) as other:
            other.send(request("POST", "/slow", b"2"))
            while server.idle:
                await asyncio.sleep(0.001)
            async with wired(server) as third:
                third.send(request("POST", "/echo", b"3"))
                [(status, headers, _)] = answers(await third.all())
                assert (status, headers["retry-after"]) == (503, "1")
            with socket.socket() as elsewhere:
                elsewhere.bind(("127.0.0.2", 0))
                elsewhere.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(elsewhere, ("127.0.0.1", server.port))
                await loop.sock_sendall(elsewhere, request("POST", "/echo", b"4"))
                assert (await asyncio.wait_for(loop.sock_recv(elsewhere, 100), pace.seconds(20))).startswith(
                    b"HTTP/1.1 200"
                )
            app.go_on.set()
            await other.until(b"}}")
        await wire.until(b"}}")

    on_wire(scenario, connections=10, per_address=2)


@pytest.mark.parametrize(
    ("data", "more", "status"),
    [
        (b"", b"", None),
        (b"\r\n", b"", None),
        (b"GET / HTTP/1.1\r\nHos", b"t", 408),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\nx", b"y", 408),
    ],
    ids=["idle", "an empty line", "head", "body"],
)
def test_slow_clients_have_deadlines_and_a_byte_now_and_then_does_not_extend_them(data, more, status):
    async def scenario(app, server, wire):
        wire.send(data)
        begin = time.monotonic()
        while not wire.reader.at_eof() and not wire.reader._buffer:
            assert time.monotonic() - begin < pace.seconds(20)
            wire.send(more)
            await asyncio.sleep(0.02)
        received = await wire.all()
        assert received.startswith(b"HTTP/1.1 %d " % status) if status else received == b""

    on_wire(scenario, idle_s=0.2, head_s=0.2, body_s=0.2)


@pytest.mark.parametrize("path", ["/echo", "/endless"])
def test_a_client_that_never_reads_loses_its_connection(path):
    async def scenario(app, server, wire):
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(slow, ("127.0.0.1", server.port))
            await loop.sock_sendall(slow, request("POST", path, b"x" * 8_000_000))
            while len(server._connections) < 2:
                await asyncio.sleep(0.01)
            while len(server._connections) == 2:
                await asyncio.sleep(0.01)

    on_wire(scenario, send_s=0.3)


FEW_FILES = """
import asyncio, resource, sys
from tests.serving.http.front import served
from tests.serving.http.wire import Echo
from cotenant.serving.http.messages import HttpLimits

async def main():
    async with served(Echo(), HttpLimits()) as server:
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))  # after the server has counted on more
        print(server.port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main(), debug=False)
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_without_open_files_left_the_server_waits_and_serves_again(loop):
    code = FEW_FILES
    if loop == "uvloop":
        code = code.replace("asyncio.run(main(), debug=False)", "import uvloop; uvloop.run(main())")
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            port = int(process.stdout.readline())
            slow = request("POST", "/slow", b"held")
            held = []
            for _ in range(60):
                one = socket.create_connection(("127.0.0.1", port), timeout=pace.seconds(20))
                one.sendall(slow)  # busy, so that it can't make room
                held.append(one)
            before = _cpu_s(process.pid)
            time.sleep(2)
            assert _cpu_s(process.pid) - before < 0.5, "no busy loop"
            for one in held:
                one.close()
            with socket.create_connection(("127.0.0.1", port), timeout=pace.seconds(20)) as client:
                client.sendall(request("POST", "/echo", b"again", LAST))
                assert client.recv(100).startswith(b"HTTP/1.1 200")
        finally:
            process.send_signal(signal.SIGKILL)


def _cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_server_counts_on_no_more_connections_than_it_may_open_files():
    async def main():
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        opened = len(os.listdir("/dev/fd"))  # noqa: PTH208
        resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 40, hard))
        try:
            async with served(Echo(), HttpLimits()) as server:
                return server._most
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert 4 <= asyncio.run(main()) <= 20


def test_the_limit_of_an_answer_is_said_in_json():
    async def scenario(app, server, wire):
        wire.send(request("POST", "/v1/chat/completions", b"x" * 100, LAST))
        [(status, _, body)] = answers(await wire.all())
        assert (status, json.loads(body)["error"]["type"]) == (413, "invalid_request_error")

    on_wire(scenario, body=50)
