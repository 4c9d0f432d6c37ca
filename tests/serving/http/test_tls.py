"""Connections over TLS, on the event loop that serves."""

import asyncio
import socket
import ssl
import subprocess

import pytest
import uvloop

from cotenant.errors import ServingError
from cotenant.serving.http.listener import listener_at, listening, tls_of
from cotenant.serving.http.messages import HttpLimits
from tests.serving.http.wire import Echo, Wire, bodies, request
from tests.support import pace


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return cert, key


def over_tls(certificate, scenario, **limits):
    async def main():
        trusted = ssl.create_default_context(cafile=certificate[0])
        with listener_at("127.0.0.1", 0) as listener:
            async with listening(Echo(), listener, HttpLimits(**limits), tls_of(*certificate)) as server:
                server.grace_s = 5.0

                async def connect():
                    return Wire(
                        *await asyncio.open_connection(
                            "127.0.0.1", server.port, ssl=trusted, server_hostname="localhost"
                        )
                    )

                await asyncio.wait_for(scenario(server, connect), pace.seconds(60))

    uvloop.run(main())


def test_requests_are_answered_over_tls_and_large_answers_arrive_whole(certificate):
    async def scenario(server, connect):
        wire = await connect()
        wire.send(request(body=b"first") + request("POST", "/echo", b"x" * 3_000_000, "Connection: close"))
        assert list(map(len, bodies(await wire.all()))) == [5, 3_000_000]
        await wire.close()

    over_tls(certificate, scenario)


def test_a_client_that_never_shakes_hands_makes_room_and_rubbish_is_dropped(certificate):
    async def scenario(server, connect):
        loop = asyncio.get_running_loop()
        with socket.socket() as silent, socket.socket() as plain:
            for client in (silent, plain):
                client.setblocking(False)
                await loop.sock_connect(client, ("127.0.0.1", server.port))
            await loop.sock_sendall(plain, request())
            assert b"HTTP/1.1" not in await asyncio.wait_for(loop.sock_recv(plain, 1000), pace.seconds(20))
            for _ in range(3):
                wire = await connect()
                wire.send(request("POST", "/echo", b"served", "Connection: close"))
                assert bodies(await wire.all()) == ["served"]
                await wire.close()

    over_tls(certificate, scenario, connections=2)


def test_a_certificate_that_can_not_be_used_is_a_sentence(certificate, tmp_path):
    with pytest.raises(ServingError, match="can't be used"):
        tls_of(str(tmp_path / "missing.pem"), certificate[1])
    with pytest.raises(ServingError, match="can't be used"):
        tls_of(certificate[1], certificate[0])
    assert tls_of(None, None) is None
