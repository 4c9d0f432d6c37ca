"""A request that arrives completely is answered by the connection itself, and means what it means over ASGI."""

import asyncio
import json

import pytest

from cotenant.api.sql import sql
from cotenant.serving.http.keys import hash_of
from cotenant.serving.recording import Recorder
from tests.serving_http.front import front
from tests.serving_http.line import connected
from tests.serving_http.test_recording import FILE

PATH = "/v2/models/bert/infer"


def ids(*numbers, **more):
    tensor = {"name": "input_ids", "datatype": "INT64", "shape": [1, len(numbers)], "data": numbers}
    return json.dumps({"inputs": [tensor], **more}).encode()


def wire(body, path=PATH, method="POST", **headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode() + body


def parted(sent):
    head, _, body = sent.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return int(status.split()[1]), dict(line.split(": ", 1) for line in lines), body


def run(scenario, **options):
    async def main():
        async with front(**options) as client:
            connection, transport = connected(client.application)
            return await asyncio.wait_for(scenario(client, connection, transport), 30)

    return asyncio.run(main())


async def answers(transport, count):
    while len(transport.sent) < count:
        await asyncio.sleep(0.001)
    return transport.sent


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (PATH, ids(9, 10, 11)),
        (PATH, ids(9, 10, id="mine", parameters={"binary_data_output": True})),
        (PATH, ids(9, parameters={"timeout": 1})),
        (PATH, b"{"),
        (PATH, b"x" * 3000),
        ("/v2/models/gpt/infer", ids(9, 10)),
        ("/v2/models/none/infer", ids(9)),
        ("/v2/models/bert/ready", b""),
    ],
    ids=["served", "binary", "refused", "rubbish", "long", "decoder", "unknown", "other method"],
)
def test_an_answer_is_the_same_as_over_asgi(path, body):
    async def scenario(client, connection, transport):
        over_asgi = await client.post(path, body)
        connection.data_received(wire(body, path))
        status, headers, sent = parted((await answers(transport, 1))[0])
        volatile = "x-cotenant-predicted-wait-ms"
        assert (status, headers.pop(volatile, None) is None) == (over_asgi.status, volatile not in over_asgi.headers)
        over_asgi.headers.pop(volatile, None)
        assert (headers, sent) == (over_asgi.headers, over_asgi.body)

    run(scenario, body=2000)


def test_no_task_is_needed():
    async def scenario(client, connection, transport):
        before = asyncio.all_tasks()
        connection.data_received(wire(ids(9)))
        assert asyncio.all_tasks() == before
        assert (await answers(transport, 1))[0].startswith(b"HTTP/1.1 200")

    run(scenario)


def test_a_head_that_comes_again_has_its_own_body_and_another_head_its_own_meaning():
    async def scenario(client, connection, transport):
        fed = []
        connection._parser = Counting(connection._parser, fed)
        for at, body in enumerate((ids(9, id="a"), ids(9, id="b"), ids(9, id="cc"))):
            connection.data_received(wire(body))
            await answers(transport, at + 1)
        connection.data_received(wire(ids(9, id="dd"), **{"X-Cotenant-Deadline-Ms": "0"}))
        *served, refused = [parted(one) for one in await answers(transport, 4)]
        assert [json.loads(body)["id"] for _, _, body in served] == ["a", "b", "cc"]
        assert refused[0] == 400
        assert len(fed) == 3, "only the second head was known"

    run(scenario)


class Counting:
    """The parser, with a list of what it was fed."""

    def __init__(self, parser, fed):
        self._parser, self._fed = parser, fed

    def feed_data(self, data):
        self._fed.append(data)
        self._parser.feed_data(data)

    def __getattr__(self, name):
        return getattr(self._parser, name)


def test_a_key_is_checked_with_every_request():
    async def scenario(client, connection, transport):
        for at, key in enumerate(("right", "right", "wrong")):
            connection.data_received(wire(ids(9), Authorization=f"Bearer {key}"))
            await answers(transport, at + 1)
        client.service.tenants["bert"].key = hash_of("another")
        connection.data_received(wire(ids(9), Authorization="Bearer right"))
        return [parted(one)[0] for one in await answers(transport, 4)]

    assert run(scenario, keys={"bert": hash_of("right")}) == [200, 200, 401, 401]


def test_a_known_head_may_come_in_pieces_or_with_the_next_request():
    async def scenario(client, connection, transport):
        one = wire(ids(9, id="a"))
        connection.data_received(one)
        await answers(transport, 1)
        for piece in (one[:40], one[40:-5], one[-5:]):
            connection.data_received(piece)
        await answers(transport, 2)
        connection.data_received(one + wire(ids(9, id="b")) + wire(ids(9, id="c")))
        sent = [parted(one) for one in await answers(transport, 5)]
        assert [json.loads(body)["id"] for _, _, body in sent] == ["a", "a", "a", "b", "c"]

    run(scenario)


def test_a_client_that_leaves_cancels_its_request_at_once():
    async def scenario(client, connection, transport):
        connection.data_received(wire(ids(9)))
        assert client.service.in_flight == 1
        connection.connection_lost(None)
        assert client.service.measures.of("bert").why == {"cancelled": 1}
        await client.service.conductor.drained()
        assert transport.sent == []

    run(scenario, slow=("bert",))


def test_a_client_that_does_not_read_gets_its_answer_later():
    async def scenario(client, connection, transport):
        connection.pause_writing()
        connection.data_received(wire(ids(9)))
        await client.service.conductor.drained()
        await asyncio.sleep(0)
        assert transport.sent == []
        connection.resume_writing()
        assert (await answers(transport, 1))[0].startswith(b"HTTP/1.1 200")

    run(scenario)


def test_a_client_has_its_answer_before_it_is_counted():
    async def scenario(client, connection, transport):
        order, scheduler = [], client.service.conductor.scheduler
        handle, write = scheduler.handle, transport.write
        scheduler.handle = lambda event: order.append(type(event).__name__) or handle(event)
        transport.write = lambda data: order.append("answered") or write(data)
        client.service.measures.listen(lambda outcomes: order.append(f"counted {len(outcomes)}"))
        connection.data_received(wire(ids(9)))
        await answers(transport, 1)
        client.service.measures.settle()
        return order

    assert run(scenario) == ["Arrived", "answered", "ChunkDone", "counted 1"]


def test_what_was_answered_is_recorded_even_if_the_server_stops_at_once(tmp_path):
    async def scenario(client, connection, transport):
        recorder = Recorder(client.service, FILE, tmp_path)
        recorder.open()
        for at in range(5):
            connection.data_received(wire(ids(9)))
            await answers(transport, at + 1)
        await recorder.close()
        return recorder.path

    [row] = sql("select count(*), sum(ok::int) from requests", [run(scenario)]).rows
    assert tuple(row) == (5, 5)
