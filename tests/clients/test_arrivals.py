"""Sockets that know when their data arrived, whenever it is read."""

import asyncio
import socket
import time

import pytest

from cotenant.clients import arrivals
from tests.support import pace

pytestmark = pytest.mark.skipif(not arrivals.AVAILABLE, reason="the kernel's times of arrival are Linux's")


class Recorder(asyncio.Protocol):
    """Keeps what it is given; `changed` is set each time."""

    def __init__(self):
        self.transport, self.data, self.lost, self.ended = None, b"", None, False
        self.changed = asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data
        self.changed.set()

    def eof_received(self):
        self.ended = True

    def connection_lost(self, exc):
        self.lost = (exc,)
        self.changed.set()

    async def until(self, condition):
        while not condition():
            self.changed.clear()
            await self.changed.wait()


def connected(scenario):
    """Run a scenario with one end of a connection in a loop, and the other as a plain socket."""

    async def run():
        recorder = Recorder()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            transport = await arrivals.connect(*listener.getsockname(), recorder)
            peer, _ = listener.accept()
        with peer:
            try:
                await asyncio.wait_for(scenario(recorder, transport, peer), pace.seconds(20))
            finally:
                transport.abort()
                await asyncio.sleep(0)

    asyncio.run(run())


def test_data_has_the_time_of_its_arrival_not_of_its_reading():
    async def scenario(recorder, transport, peer):
        for number in range(1, 100):  # the kernel begins to note times a moment after it is first asked to
            sent_ns = time.monotonic_ns()
            peer.send(b"x")
            time.sleep(0.01)  # this process is busy with something else
            reading_ns = time.monotonic_ns()
            await recorder.until(lambda wanted=number: len(recorder.data) == wanted)
            assert sent_ns - 1000 <= transport.arrived_ns <= time.monotonic_ns()
            if transport.arrived_ns < reading_ns:
                return
        pytest.fail("no time of arrival was before that of reading")

    connected(scenario)


def test_without_a_time_from_the_kernel_it_is_that_of_reading():
    before = time.monotonic_ns()
    assert before <= arrivals._arrival([]) <= time.monotonic_ns()
    later = arrivals._STAMP.pack(int(time.time()) + 3600, 0)  # the wall clock was set back meanwhile
    assert arrivals._arrival([(1, arrivals._SO_TIMESTAMPNS, later)]) <= time.monotonic_ns()


def test_what_the_socket_does_not_take_at_once_is_sent_later_and_before_closing():
    sent = bytes(range(256)) * (64 << 10)

    async def scenario(recorder, transport, peer):
        transport.write(sent)
        transport.write(b"end")
        transport.close()
        assert transport.is_closing()
        peer.setblocking(False)
        got, loop = bytearray(), asyncio.get_running_loop()
        while piece := await loop.sock_recv(peer, 1 << 20):
            got += piece
        assert got == sent + b"end"
        await recorder.until(lambda: recorder.lost)
        assert recorder.lost == (None,)

    connected(scenario)


def test_the_end_of_the_other_side_closes_it():
    async def scenario(recorder, transport, peer):
        peer.send(b"last")
        peer.close()
        await recorder.until(lambda: recorder.lost)
        assert (recorder.data, recorder.ended, recorder.lost) == (b"last", True, (None,))
        transport.write(b"too late")  # as asyncio's: nothing happens
        transport.abort()

    connected(scenario)


def test_a_reset_is_reported_once():
    async def scenario(recorder, transport, peer):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        peer.close()
        await recorder.until(lambda: recorder.lost)
        assert isinstance(recorder.lost[0], ConnectionResetError)

    connected(scenario)


def test_a_name_is_looked_up_and_a_closed_port_refuses():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        async def by_name():
            transport = await arrivals.connect("localhost", port, Recorder())
            assert transport.get_extra_info("peername")[1] == port
            transport.abort()

        asyncio.run(by_name())
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(arrivals.connect("127.0.0.1", port, Recorder()))
