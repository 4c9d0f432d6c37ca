"""A connection, as its client sees it: bytes in, bytes out."""

import asyncio

from cotenant.serving.http.exchange import UNREAD
from tests.serving_http.line import connected, settle

OK = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
STREAM = {"type": "http.response.start", "status": 200, "headers": []}


async def echo(scope, receive, send):
    """Answers with the first two letters of the body."""
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    await send(OK)
    await send({"type": "http.response.body", "body": body[:2]})


def post(body, *headers, version="1.1"):
    lines = (f"POST /v2/models/a%20b/infer?x=1 HTTP/{version}", "Host: localhost", f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, *headers, "", "")).encode() + body


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_head_and_body_are_sent_together_and_the_connection_serves_again():
    async def scenario():
        connection, transport = connected(echo)
        for body in (b"ab", b"cd"):
            connection.data_received(post(body))
            await settle()
        head = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
        assert transport.sent == [head + b"ab", head + b"cd"]
        assert not transport.closed
        assert not connection.state.tasks

    run(scenario)


def test_the_application_gets_the_unquoted_path_and_lower_case_headers():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope)
        await echo(scope, receive, send)

    async def scenario():
        connection, _ = connected(app)
        connection.data_received(post(b"ab", "X-Some: Value"))
        connection.data_received(b"GET http://localhost/status HTTP/1.1\r\n\r\n")
        await settle()
        assert (seen[0]["method"], seen[0]["path"], seen[0]["query_string"]) == ("POST", "/v2/models/a b/infer", b"x=1")
        assert (b"x-some", b"Value") in seen[0]["headers"]
        assert (seen[1]["method"], seen[1]["path"]) == ("GET", "/status")

    run(scenario)


def test_a_body_arrives_in_pieces_and_an_application_that_does_not_take_it_stops_the_client():
    go_on = asyncio.Event()

    async def slow(scope, receive, send):
        await go_on.wait()
        await echo(scope, receive, send)

    async def scenario():
        connection, transport = connected(slow)
        whole = post(b"ab" + bytes(UNREAD + 20))
        connection.data_received(whole[:-10])
        await settle()
        assert not transport.reading
        go_on.set()
        await settle()
        assert transport.reading
        assert transport.sent == []
        connection.data_received(whole[-10:])
        await settle()
        assert transport.sent[0].endswith(b"ab")

    run(scenario)


def test_requests_sent_ahead_are_answered_in_order():
    async def scenario():
        connection, transport = connected(echo)
        connection.data_received(post(b"ab") + post(b"cd") + post(b"ef"))
        await settle()
        await settle()
        assert [sent[-2:] for sent in transport.sent] == [b"ab", b"cd", b"ef"]

    run(scenario)


def test_pieces_of_a_stream_are_sent_at_once_and_the_head_with_the_first():
    async def app(scope, receive, send):
        await send(STREAM)
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await send({"type": "http.response.body", "body": b"token", "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def scenario():
        connection, transport = connected(app)
        connection.data_received(post(b""))
        await settle()
        head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        assert transport.sent == [head, b"5\r\ntoken\r\n", b"0\r\n\r\n"]

    run(scenario)


def test_a_client_that_reads_too_slowly_holds_its_stream_up():
    async def app(scope, receive, send):
        await send(STREAM)
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    async def scenario():
        connection, transport = connected(app)
        connection.pause_writing()
        connection.data_received(post(b""))
        await settle()
        assert transport.sent == []
        connection.resume_writing()
        await settle()
        assert b"".join(transport.sent).endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")

    run(scenario)


def test_an_application_learns_that_its_client_has_left():
    seen = []

    async def app(scope, receive, send):
        seen.append((await receive())["type"])
        seen.append((await receive())["type"])

    async def scenario():
        connection, transport = connected(app)
        connection.data_received(post(b"ab"))
        await settle()
        connection.connection_lost(None)
        await settle()
        assert seen == ["http.request", "http.disconnect"]
        assert transport.sent == []
        assert not connection.state.connections
        assert not connection.state.tasks

    run(scenario)


def test_a_client_may_wait_for_permission_to_send_its_body():
    async def scenario():
        connection, transport = connected(echo)
        connection.data_received(post(b"ab", "Expect: 100-continue")[:-2])
        await settle()
        assert transport.sent == [b"HTTP/1.1 100 Continue\r\n\r\n"]
        connection.data_received(b"ab")
        await settle()
        assert transport.sent[1].endswith(b"ab")

    run(scenario)


def test_connections_that_the_client_or_an_old_version_ends_are_closed_after_the_answer():
    async def scenario():
        for request in (post(b"ab", "Connection: close"), post(b"ab", version="1.0")):
            connection, transport = connected(echo)
            connection.data_received(request)
            await settle()
            assert b"connection: close\r\n" in transport.sent[0]
            assert transport.closed

    run(scenario)


def test_rubbish_is_answered_with_400_and_ends_the_connection():
    async def scenario():
        connection, transport = connected(echo)
        connection.data_received(b"\x16\x03\x01 rubbish\r\n\r\n")
        assert transport.sent[0].startswith(b"HTTP/1.1 400 ")
        assert transport.closed

    run(scenario)


def test_too_many_connections_are_refused():
    async def scenario():
        connection, transport = connected(echo, limit=1)
        connection.data_received(post(b"ab"))
        await settle()
        assert transport.sent[0].startswith(b"HTTP/1.1 503 ")
        assert transport.closed

    run(scenario)


def test_an_application_that_fails_is_answered_for_and_one_that_breaks_off_ends_the_connection():
    async def fails(scope, receive, send):
        raise RuntimeError

    async def breaks_off(scope, receive, send):
        await send(STREAM)
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError

    async def scenario():
        for app, status in ((fails, b"500"), (breaks_off, b"200")):
            connection, transport = connected(app)
            connection.data_received(post(b""))
            await settle()
            assert transport.sent[0].startswith(b"HTTP/1.1 " + status)
            assert transport.closed
            assert not connection.state.tasks

    run(scenario)


def test_headers_cannot_smuggle_another_one():
    async def app(scope, receive, send):
        await send({**OK, "headers": [(b"content-type", b"text/plain\r\nset-cookie: a=b")]})

    async def scenario():
        connection, transport = connected(app)
        connection.data_received(post(b""))
        await settle()
        assert b"set-cookie" not in b"".join(transport.sent)
        assert transport.closed

    run(scenario)


def test_idle_connections_are_closed_but_not_those_with_a_request():
    async def never(scope, receive, send):
        await asyncio.Event().wait()

    async def scenario():
        idle, its = connected(echo, keep_alive_s=0.01)
        idle.data_received(b"POST /v2 HTTP/1.1\r\nHost: never ends")
        busy, theirs = connected(never, keep_alive_s=0.01)
        busy.data_received(post(b"ab"))
        await asyncio.sleep(0.05)
        assert its.closed
        assert not theirs.closed

    run(scenario)


def test_shutting_down_waits_for_the_answer():
    async def scenario():
        connection, transport = connected(echo)
        connection.data_received(post(b"ab"))
        connection.shutdown()
        assert not transport.closed
        await settle()
        assert transport.sent[0].endswith(b"ab")
        assert transport.closed
        idle, its = connected(echo)
        idle.shutdown()
        assert its.closed

    run(scenario)
