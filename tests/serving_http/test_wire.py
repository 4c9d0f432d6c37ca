"""The head of an answer leaves together with what follows it."""

from types import SimpleNamespace

from cotenant.serving.http.wire import Joined


class Transport:
    def __init__(self):
        self.sent = []
        self.closed = False

    def write(self, data):
        self.sent.append(data)

    def writelines(self, pieces):
        self.sent.append(b"".join(pieces))

    def close(self):
        self.closed = True

    def get_extra_info(self, name):
        return f"the {name}"


def connected():
    transport, protocol = Transport(), SimpleNamespace(cycle=None)
    return transport, protocol, Joined(transport, protocol)


def begin_answer(protocol):
    protocol.cycle = SimpleNamespace(response_started=True)


def test_head_and_body_are_sent_together_and_further_pieces_at_once():
    transport, protocol, joined = connected()
    begin_answer(protocol)
    joined.write(b"head ")
    assert transport.sent == []
    joined.write(b"body")
    joined.write(b"next")
    assert transport.sent == [b"head body", b"next"]
    assert joined.get_extra_info("socket") == "the socket"


def test_each_answer_of_a_connection_has_a_head():
    transport, protocol, joined = connected()
    for _ in range(2):
        begin_answer(protocol)
        joined.write(b"head ")
        joined.write(b"body")
    assert transport.sent == [b"head body", b"head body"]


def test_an_answer_without_a_body_is_sent_when_it_is_complete():
    transport, protocol, joined = connected()
    begin_answer(protocol)
    joined.write(b"head")
    joined.flush()
    joined.flush()
    assert transport.sent == [b"head"]


def test_what_precedes_an_answer_is_sent_at_once():
    transport, protocol, joined = connected()
    joined.write(b"refused before it was read")
    protocol.cycle = SimpleNamespace(response_started=False)
    joined.write(b"100 Continue")
    assert transport.sent == [b"refused before it was read", b"100 Continue"]


def test_closing_sends_what_was_written_first():
    transport, protocol, joined = connected()
    begin_answer(protocol)
    joined.write(b"last")
    joined.close()
    assert transport.sent == [b"last"]
    assert transport.closed
