"""What is written in one turn of the event loop leaves in one piece."""

import asyncio

from cotenant.serving.http.wire import Joined


class Transport:
    def __init__(self):
        self.sent = []
        self.closed = False

    def writelines(self, pieces):
        self.sent.append(b"".join(pieces))

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    def get_extra_info(self, name):
        return f"the {name}"


def test_writes_of_one_turn_are_sent_together_and_later_ones_apart():
    async def scenario():
        transport = Transport()
        joined = Joined(transport)
        joined.write(b"head ")
        joined.write(b"body")
        assert transport.sent == []
        await asyncio.sleep(0)
        joined.write(b"next")
        await asyncio.sleep(0)
        return transport.sent, joined.get_extra_info("socket")

    assert asyncio.run(scenario()) == ([b"head body", b"next"], "the socket")


def test_closing_sends_what_was_written_first():
    async def scenario():
        transport = Transport()
        joined = Joined(transport)
        joined.write(b"last")
        joined.close()
        await asyncio.sleep(0)
        return transport.sent, transport.closed

    assert asyncio.run(scenario()) == ([b"last"], True)
