"""Who gets a place at a server and who makes room, connection by connection."""

import asyncio
from types import SimpleNamespace as Facts

import pytest

from cotenant.serving.http import listener
from cotenant.serving.http.listener import HttpServer, listener_at
from cotenant.serving.http.messages import HttpLimits

PLENTY = 1 << 20


class Door(HttpServer):
    """A server whose connections stay as they are."""

    async def _open(self, connection, accepted):
        del connection, accepted

    def comes(self, address, *, busy=False):
        """A client connects; what became of its socket, and of its connection."""
        accepted = Facts(closed=False, setblocking=lambda _: None, setsockopt=lambda *_: None)
        accepted.close = lambda: setattr(accepted, "closed", True)
        before = set(self._connections)
        self._admit(accepted, address)
        new = set(self._connections) - before
        if accepted.closed:
            assert not new
            return None
        [connection] = new
        if busy:
            self.idle.pop(connection)
        return connection


@pytest.fixture
def door(monkeypatch):
    """Run a function with a server of these limits."""

    def opened(check, files=PLENTY, **limits):
        async def scenario():
            monkeypatch.setattr(listener, "_files_left", lambda: files)
            return check(Door(None, None, HttpLimits(**limits), None))

        return asyncio.run(scenario())

    return opened


@pytest.mark.parametrize(
    ("connections", "files", "most", "surplus"),
    [(1024, PLENTY, 1024, 64), (512, PLENTY, 512, 64), (504, PLENTY, 504, 63), (1024, 80, 80, 10), (7, PLENTY, 7, 1)],
)
def test_an_eighth_more_than_the_places_are_told_that_there_are_none(door, connections, files, most, surplus):
    assert door(lambda server: (server._most, server._surplus_most), files, connections=connections) == (most, surplus)


@pytest.mark.parametrize(
    ("limits", "every_s"),
    [({}, 1.0), ({"head_s": 0.4}, 0.1), ({"idle_s": 2.0}, 0.5), ({"send_s": 0.8}, 0.2), ({"body_s": 0.001}, 0.01)],
)
def test_waiting_clients_are_looked_at_four_times_within_the_shortest_limit(door, limits, every_s):
    assert door(lambda server: server._look_s, **limits) == pytest.approx(every_s)


def test_beyond_its_places_a_busy_address_is_told_so_and_then_not_even_that(door):
    def check(server):
        usual = server.comes("a", busy=True)
        told = server.comes("a", busy=True)
        assert (usual.surplus, told.surplus) == (False, True)
        assert server.comes("a") is None, "one in eight is told, the next is closed"
        assert server.comes("b", busy=True).surplus is False, "another address has places of its own"
        server.forget(told)
        assert server.comes("a", busy=True).surplus is True, "who has been told makes room for the next"

    door(check, connections=8, per_address=1)


def test_those_who_are_only_told_take_no_place(door):
    def check(server):
        assert [server.comes(address, busy=True).surplus for address in "ab"] == [False, False]
        assert server.comes("c", busy=True).surplus is True
        [first, *_] = server._connections
        server.forget(first)
        assert server.comes("d", busy=True).surplus is False

    door(check, connections=2)


def test_the_longest_idle_connection_makes_room_of_the_address_that_is_crowded(door):
    def check(server):
        first, own, later = (server.comes(address) for address in ("b", "a", "a"))
        assert server.comes("a").surplus is False
        assert own not in server._connections
        assert {first, later} < set(server._connections)
        assert dict(server._per_address) == {"a": 2, "b": 1}

    door(check, per_address=2)


def test_a_connection_is_forgotten_everywhere_and_once(door):
    def check(server):
        gone = server.comes("a")
        server.sending[gone] = None
        for _ in range(2):
            server.forget(gone)
            assert (list(server.idle), list(server.sending), dict(server._per_address)) == ([], [], {})

    door(check)


def test_only_a_client_that_stalls_makes_room_the_longest_silent_first(door):
    def check(server):
        clients = [server.comes("a", busy=True) for _ in range(2)]
        now = server.loop.time()
        for client, silent_s in zip(clients, (1.5, -60.0), strict=True):
            client.active_s = now - silent_s
            server.sending[client] = None
        assert server._make_room(None)
        assert list(server.sending) == clients[1:]
        assert not server._make_room(None), "the other sends"

    door(check)


def test_a_server_listens_at_the_address_that_was_asked_for_and_nowhere_else():
    with listener_at("127.0.0.1", 0) as made:
        host, port = made.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(OSError, match="in use"):
            listener_at("127.0.0.1", port)
