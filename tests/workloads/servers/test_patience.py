"""A patient request gets its events later than they arrive, several at once, each with the time of its arrival."""

import asyncio

import pytest

from cotenant.clients.arrivals import ArrivalTransport
from cotenant.clients.http11 import _MOST_KEPT, AnswerTiming, _Connection
from cotenant.errors import RequestFailed

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b"9\r\ndata: a\n\n\r\n"
END = b"0\r\n\r\n"


class Wire(ArrivalTransport):
    """A transport whose pieces arrive at 1, 2, 3, ..."""

    def __init__(self):
        self.arrived_ns = 0

    def write(self, data):
        pass

    def abort(self):
        pass


def answered(*pieces, patient=True):
    """The answer, and what the sink got: which piece had just been read, when its part arrived, and the part."""
    parts = []

    async def ask():
        connection, wire, timing = _Connection(), Wire(), AnswerTiming()
        connection.connection_made(wire)
        answer = connection.send(
            b"",
            lambda part: parts.append((wire.arrived_ns, timing.arrived_ns, part)),
            None,
            timing,
            to_head=False,
            patient=patient,
        )
        for piece in pieces:
            wire.arrived_ns += 1
            connection.data_received(piece)
        if not answer.done():
            connection.eof_received()
        return await answer

    try:
        asyncio.run(ask())
    except RequestFailed as error:
        return error.kind, parts
    return "complete", parts


def test_events_are_passed_on_at_the_end_with_the_times_of_their_arrival():
    ended, parts = answered(HEAD + EVENT, EVENT, EVENT, END)
    assert ended == "complete"
    assert parts == [(1, 1, b"data: a\n\n"), (4, 2, b"data: a\n\n"), (4, 3, b"data: a\n\n")]


def test_without_patience_each_is_passed_on_as_it_arrives():
    _, parts = answered(HEAD, EVENT, EVENT, END, patient=False)
    assert [(read, arrived) for read, arrived, _ in parts] == [(2, 2), (3, 3)]


def test_a_long_answer_is_passed_on_in_between():
    _, parts = answered(HEAD, *[EVENT] * 2 * _MOST_KEPT, END)
    assert {read for read, _, _ in parts} == {1 + _MOST_KEPT, 1 + 2 * _MOST_KEPT}
    assert [arrived for _, arrived, _ in parts] == list(range(2, 2 + 2 * _MOST_KEPT))


@pytest.mark.parametrize(
    "end", [(b"0\r\nA: b\r\n\r\n",), (b"0\r\n\r", b"\n"), (EVENT + END,), (EVENT[:-1], b"\n" + END)]
)
def test_an_answer_may_end_in_any_piece(end):
    ended, parts = answered(HEAD, EVENT, *end)
    assert ended == "complete"
    assert parts[0][1:] == (2, b"data: a\n\n")


def test_a_body_by_its_length_may_end_like_an_event():
    body = b"data: a\n\n\r\n"
    ended, parts = answered(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n", body)
    assert (ended, parts) == ("complete", [(2, 2, body)])


def test_what_arrived_before_the_connection_broke_is_passed_on():
    ended, parts = answered(HEAD, EVENT)
    assert (ended, parts) == ("broken off", [(2, 2, b"data: a\n\n")])
