"""Uvicorn's HTTP protocol, with the head and the body of an answer sent together."""

import asyncio
from typing import Any


class Joined:
    """A transport that sends what is written in one turn of the event loop at once.

    Uvicorn writes the head of an answer before its body: the client would be woken for each.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send at the end of this turn."""
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)

    def close(self) -> None:
        """Send what is left, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces and not self._transport.is_closing():
            self._transport.writelines(pieces)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def joining_protocol() -> Any:
    """The protocol class for uvicorn's `http` setting."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class JoiningProtocol(HttpToolsProtocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(Joined(transport))  # type: ignore[arg-type]

    return JoiningProtocol
