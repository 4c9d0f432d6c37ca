"""Uvicorn's HTTP protocol, with the head and the body of an answer sent together."""

from typing import Any


class Joined:
    """A transport that holds the head of an answer back until something follows it.

    Uvicorn writes the head of an answer before its body: the client would be woken for each.
    """

    def __init__(self, transport: Any, protocol: Any) -> None:
        self._transport = transport
        self._protocol = protocol
        self._answer: Any = None
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        """Send, unless it is the first piece of an answer."""
        if self._head is not None:
            head, self._head = self._head, None
            self._transport.writelines((head, data))
            return
        answer = self._protocol.cycle
        if answer is not self._answer and answer is not None and answer.response_started:
            self._answer, self._head = answer, data
        else:
            self._transport.write(data)

    def flush(self) -> None:
        """Send what was held back."""
        if self._head is not None:
            self.write(b"")

    def close(self) -> None:
        """Send what is left, then close."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def joining_protocol() -> Any:
    """The protocol class for uvicorn's `http` setting."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class JoiningProtocol(HttpToolsProtocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(Joined(transport, self))  # type: ignore[arg-type]

        def on_response_complete(self) -> None:
            self.transport.flush()  # type: ignore[attr-defined] # an answer without a body
            super().on_response_complete()

    return JoiningProtocol
