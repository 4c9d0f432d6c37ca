"""A connection, as its client sees it: bytes in, bytes out."""

import asyncio
import gzip
import json
import socket
import zlib

import pytest

from cotenant.api.records import sql
from cotenant.serving.http.access import hash_of
from cotenant.serving.recording import Recorder
from tests.serving.http.front import front, served
from tests.serving.http.test_recording import FILE
from tests.serving.http.wire import answers, bodies, on_wire, request, wired
from tests.support import pace

LAST = "Connection: close"


def test_a_connection_serves_request_after_request():
    async def scenario(app, server, wire):
        for body in (b"ab", b"cd", b"efg"):
            wire.send(request(body=body))
            status = (await wire.until(b"\r\n")).decode()
            head = await wire.until(b"\r\n\r\n")
            assert status == "HTTP/1.1 200 OK\r\n"
            assert b"connection:" not in head
            await wire.until(b"}}")
        assert [body for *_, body in app.understood] == [b"ab", b"cd", b"efg"]

    on_wire(scenario)


def test_every_answer_has_a_date_and_a_name():
    async def scenario(app, server, wire):
        wire.send(request() + request("POST", "/echo", b"", "X-Request-Id: mine") + request("GET", "/echo", b"", LAST))
        one, own, other = [headers for _, headers, _ in answers(await wire.all())]
        assert one["date"].endswith(" GMT")
        assert own["x-request-id"] == "mine"
        assert len({one["x-request-id"], other["x-request-id"]}) == 2

    on_wire(scenario)


def test_the_path_is_as_sent_and_header_names_are_in_lower_case():
    async def scenario(app, server, wire):
        wire.send(request("GET", "/a%2fb%20c?x=1&y", b"", "X-Some: Value", "X-Some: more", LAST))
        [(_, _, body)] = answers(await wire.all())
        got = json.loads(body)
        assert (got["path"], got["query"]) == ("/a%2fb%20c", "x=1&y")
        assert got["headers"]["x-some"] == "Value, more"

    on_wire(scenario)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_request_may_arrive_in_pieces_of_any_size(step):
    async def scenario(app, server, wire):
        head = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunked = head + b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n"
        data = request(body=b"x" * 50) + chunked + request("POST", "/echo", b"last", LAST)
        for at in range(0, len(data), step):
            wire.send(data[at : at + step])
            await asyncio.sleep(0)
        assert bodies(await wire.all()) == ["x" * 50, "abcde", "last"]

    on_wire(scenario)


def test_a_head_that_comes_again_has_its_own_body_and_another_head_its_own_meaning():
    async def scenario(app, server, wire):
        chunked = request("POST", "/echo", b"", "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
        sent = [
            request(body=b"aa"), request(body=b"bb"), request(body=b"cc", path="/x"),
            chunked + b"1\r\nd\r\n0\r\n\r\n", chunked + b"2\r\nee\r\n0\r\n\r\n", chunked + b"0\r\n\r\n",
        ]  # fmt: skip
        for data in sent:
            wire.send(data)
            await wire.until(b"}}")
        assert [body for *_, body in app.understood] == [b"aa", b"bb", b"cc", b"d", b"ee", b""]
        assert [path for _, path, *_ in app.understood] == ["/echo", "/echo", "/x", "/echo", "/echo", "/echo"]

    on_wire(scenario)


def test_requests_sent_ahead_are_answered_in_order_however_many():
    async def scenario(app, server, wire):
        data = b"".join(request(body=b"%d" % number) for number in range(2000))
        reading = asyncio.ensure_future(wire.all())
        wire.send(data + request("POST", "/echo", b"end", LAST))
        assert bodies(await reading) == [*map(str, range(2000)), "end"]

    on_wire(scenario)


def test_a_client_that_leaves_cancels_its_request_and_none_sent_ahead_begins():
    async def scenario(app, server, wire):
        wire.send(request("POST", "/slow", b"first") + request(body=b"second") + request(body=b"third"))
        async with wired(server) as other:
            other.send(request("POST", "/slow", b"others", LAST))
            while server.idle:
                await asyncio.sleep(0.01)
            await wire.close()
            while not app.cancelled:
                await asyncio.sleep(0.01)
            app.go_on.set()
            assert bodies(await other.all()) == ["others"]
        assert app.cancelled == [b"first"]
        assert [body for *_, body in app.understood] == [b"others"]

    on_wire(scenario)


def test_a_stream_is_chunked_and_to_an_old_client_it_ends_with_the_connection():
    async def scenario(app, server, wire):
        wire.send(request("GET", "/stream"))
        assert (await wire.until(b"\r\n\r\n")).count(b"transfer-encoding: chunked") == 1
        assert await wire.until(b"0\r\n\r\n") == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
        async with wired(server) as old:
            old.send(request("GET", "/stream", b"", "Connection: keep-alive", version="1.0"))
            head, _, body = (await old.all()).partition(b"\r\n\r\n")
        assert b"transfer-encoding" not in head
        assert b"connection: close" in head
        assert body == b"onetwo"

    on_wire(scenario)


def test_a_stream_that_breaks_off_does_not_look_complete(caplog):
    async def scenario(app, server, wire):
        wire.send(request("POST", "/stream", b"break"))
        received = b""
        try:
            while piece := await wire.reader.read(1000):
                received += piece
        except ConnectionError:
            pass
        assert b"0\r\n\r\n" not in received

    on_wire(scenario)
    assert "broke off" in caplog.text


def test_old_clients_are_kept_only_if_they_ask():
    async def scenario(app, server, wire):
        wire.send(request("POST", "/echo", b"a", "Connection: keep-alive", version="1.0"))
        assert b"connection: keep-alive" in await wire.until(b"\r\n\r\n")
        await wire.until(b"}}")
        wire.send(b"POST /echo HTTP/1.0\r\nContent-Length: 1\r\n\r\nb")
        [(status, headers, _)] = answers(await wire.all())
        assert (status, headers["connection"]) == (200, "close")

    on_wire(scenario)


def test_a_client_may_wait_for_permission_to_send_its_body():
    async def scenario(app, server, wire):
        head = request("POST", "/echo", b"ab", "Expect: 100-continue", LAST)[:-2]
        wire.send(head)
        assert await wire.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.send(b"ab")
        assert bodies(await wire.all()) == ["ab"]

    on_wire(scenario)


def test_a_body_that_is_too_large_is_refused_before_it_is_sent():
    async def scenario(app, server, wire):
        wire.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n")
        [(status, headers, _)] = answers(await wire.all())
        assert (status, headers["connection"]) == (413, "close")

    on_wire(scenario, body=1000)


def test_a_refused_client_that_goes_on_sending_still_reads_the_answer():
    async def scenario(app, server, wire):
        wire.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n")
        for _ in range(300):
            wire.send(b"x" * 10_000)
            await asyncio.sleep(0)
        [(status, *_)] = answers(await wire.all())
        assert status == 413

    on_wire(scenario, body=1000)


def test_a_good_request_is_answered_although_rubbish_follows():
    async def scenario(app, server, wire):
        wire.send(request(body=b"good") + b"\xff\xff rubbish\r\n\r\n")
        assert [(status, headers.get("connection")) for status, headers, _ in answers(await wire.all())] == [
            (200, None),
            (400, "close"),
        ]

    on_wire(scenario)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "GZIP", "identity"])
def test_a_body_may_be_compressed(coding):
    async def scenario(app, server, wire):
        text = b"long " * 1000
        body = {"gzip": gzip.compress, "deflate": zlib.compress}.get(coding.lower(), bytes)(text)
        wire.send(request("POST", "/echo", body, f"Content-Encoding: {coding}", LAST))
        assert bodies(await wire.all()) == [text.decode()]

    on_wire(scenario)


def test_a_compressed_body_has_the_limits_of_any_other_and_is_never_larger_in_memory():
    async def scenario(app, server, wire):
        packed = gzip.compress(bytes(2000))
        sent = {
            415: (b"x", "br"), 400: (b"not compressed", "gzip"), 413: (packed, "gzip"),
        }  # fmt: skip
        for body, coding in (*sent.values(), (packed[:-3], "gzip"), (gzip.compress(b"a") + b"b", "gzip")):
            wire.send(request("POST", "/echo", body, f"Content-Encoding: {coding}"))
        wire.send(request("POST", "/echo", b"last", LAST))
        got = answers(await wire.all())
        assert [status for status, *_ in got] == [415, 400, 413, 413, 400, 200]
        assert got[0][1]["accept-encoding"] == "gzip, deflate"
        assert app.understood == [("POST", "/echo", "", b"last")]

    on_wire(scenario, body=1000)


def test_compressed_bodies_count_decompressed_against_the_limit_of_all():
    async def scenario(app, server, wire):
        body = gzip.compress(bytes(200_000))
        wire.send(request("POST", "/slow", body, "Content-Encoding: gzip", LAST))
        while server.body_bytes != 200_000:
            await asyncio.sleep(0.001)
        async with wired(server) as other:
            other.send(request("POST", "/echo", body, "Content-Encoding: gzip", LAST))
            [(status, headers, _)] = answers(await other.all())
            assert (status, headers["retry-after"]) == (503, "1")
        app.go_on.set()
        await wire.all()
        assert server.body_bytes == 0

    on_wire(scenario, bodies=300_000)


def test_head_gives_the_headers_of_get():
    async def scenario(app, server, wire):
        wire.send(request("HEAD", "/echo") + request("HEAD", "/stream", b"", LAST))
        text = await wire.all()
        assert text.count(b"HTTP/1.1 200 OK") == 2
        assert b"{" not in text
        assert b"one" not in text

    on_wire(scenario)


def test_a_failing_responder_is_500_and_headers_cannot_smuggle_another_one(caplog):
    async def scenario(app, server, wire):
        app._echo = lambda _: 1 / 0
        wire.send(request() + request("GET", "/odd", b"", LAST))
        first, second = answers(await wire.all())
        assert (first[0], second[0]) == (500, 500)
        assert "set-cookie" not in second[1]

    on_wire(scenario)
    assert "failed" in caplog.text


def test_stopping_waits_for_the_answer():
    async def scenario(app, server, wire):
        wire.send(request("POST", "/slow", b"kept"))
        while server.idle:
            await asyncio.sleep(0.01)
        async with wired(server) as idle:
            while not server.idle:
                await asyncio.sleep(0.01)
            stopping = asyncio.ensure_future(server.stop())
            assert await idle.all() == b""
            assert not stopping.done()
            app.go_on.set()
            [(status, headers, _)] = answers(await wire.all())
            assert (status, headers["connection"]) == (200, "close")
            await stopping

    on_wire(scenario)


def test_a_client_that_does_not_read_gets_no_further_requests_answered():
    async def scenario(app, server, wire):
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(slow, ("127.0.0.1", server.port))
            await loop.sock_sendall(slow, request(body=b"x" * 8_000_000))
            while not any(connection._writable for connection in server._connections):
                await asyncio.sleep(0.01)
            await loop.sock_sendall(slow, request(body=b"next") * 3000)
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert len(app.understood) == 1
            assert all(len(connection._rest) < 1 << 19 for connection in server._connections)
            received = 0
            while len(app.understood) < 3001:
                received += len(await asyncio.wait_for(loop.sock_recv(slow, 1 << 20), pace.seconds(20)))
            assert received > 8_000_000

    on_wire(scenario)


PATH = "/v2/models/bert/infer"


def ids(*numbers, **more):
    tensor = {"name": "input_ids", "datatype": "INT64", "shape": [1, len(numbers)], "data": numbers}
    return json.dumps({"inputs": [tensor], **more}).encode()


def with_tenants(scenario, **options):
    async def main():
        async with (
            front(**options) as client,
            served(client.application, client.limits) as server,
            wired(server) as wire,
        ):
            return await asyncio.wait_for(scenario(client, server, wire), pace.seconds(30))

    return asyncio.run(main())


def test_a_key_is_checked_with_every_request():
    async def scenario(client, server, wire):
        statuses = []

        async def ask(key):
            wire.send(request("POST", PATH, ids(9), f"Authorization: Bearer {key}"))
            head = (await wire.until(b"\r\n\r\n")).decode()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            await wire.reader.readexactly(length)
            statuses.append(int(head.split()[1]))

        for key in ("right", "right", "wrong"):
            await ask(key)
        client.service.tenants["bert"].key = hash_of("another")
        await ask("right")
        return statuses

    assert with_tenants(scenario, keys={"bert": hash_of("right")}) == [200, 200, 401, 401]


def test_a_request_of_the_scheduler_needs_no_task_and_ends_with_its_client():
    async def scenario(client, server, wire):
        wire.send(request("POST", PATH, ids(9)))
        while client.service.in_flight == 0:
            await asyncio.sleep(0.001)
        assert all(connection._task is None for connection in server._connections)
        await wire.close()
        while client.service.measures.of("bert").why != {"cancelled": 1}:
            await asyncio.sleep(0.001)
        await client.service.conductor.drained()

    with_tenants(scenario, slow=("bert",))


def test_a_client_has_its_answer_before_it_is_counted():
    async def scenario(client, server, wire):
        order, scheduler = [], client.service.conductor.scheduler
        handle = scheduler.handle
        scheduler.handle = lambda event: order.append(type(event).__name__) or handle(event)
        client.service.measures.listen(lambda outcomes: order.append(f"counted {len(outcomes)}"))
        [connection] = server._connections
        write = connection._write
        connection._write = lambda data: order.append("answered") or write(data)
        wire.send(request("POST", PATH, ids(9), LAST))
        await wire.all()
        client.service.measures.settle()
        return order

    assert with_tenants(scenario) == ["Arrived", "answered", "ChunkDone", "counted 1"]


def test_what_was_answered_is_recorded_even_if_the_server_stops_at_once(tmp_path):
    async def scenario(client, server, wire):
        recorder = Recorder(client.service, FILE, tmp_path)
        recorder.open()
        wire.send(request("POST", PATH, ids(9)) * 4 + request("POST", PATH, ids(9), LAST))
        assert len(answers(await wire.all())) == 5
        await recorder.close()
        return recorder.path

    [row] = sql("select count(*), sum(ok::int) from requests", [with_tenants(scenario)]).rows
    assert tuple(row) == (5, 5)


def test_a_quoted_slash_belongs_to_the_name():
    async def scenario(client, server, wire):
        paths = ("/v2/models/bert%2finfer", "/v2/models/a%252fb/infer", "/v2/models/%ff/infer", "/v2/models/%00/infer")
        for path in paths:
            wire.send(request("POST", path, ids(9)))
        wire.send(request("POST", "/v2/models/b%65rt/infer", ids(9), LAST))
        return [(status, headers.get("allow"), body) for status, headers, body in answers(await wire.all())]

    (slash, allow, _), (twice, _, said), *others = with_tenants(scenario)
    assert (slash, allow) == (405, "GET, HEAD")
    assert (twice, "a%2fb" in said.decode()) == (404, True), "unquoted once"
    assert [status for status, *_ in others] == [400, 400, 200]


def test_pages_of_other_sites_are_refused_by_origin_too():
    async def scenario(client, server, wire):
        for origin in ("http://evil.example", "null", "http://localhost:3000", "https://localhost.evil.example"):
            wire.send(request("POST", "/v2/repository/models/gpt/unload", b"", f"Origin: {origin}"))
        wire.send(request("POST", PATH, ids(9), "Sec-Fetch-Site: CROSS-SITE"))
        wire.send(request("POST", PATH, ids(9), "Origin: http://localhost", "Sec-Fetch-Site: same-origin", LAST))
        return [status for status, *_ in answers(await wire.all())]

    assert with_tenants(scenario) == [403, 403, 403, 403, 403, 200]
