"""Parses server-sent events from bytes in arbitrary pieces."""

from cotenant.errors import RequestFailed

LONGEST_EVENT = 4 << 20


class Events:
    """Feed it bytes; it returns the data of each complete event."""

    def __init__(self) -> None:
        self._pending = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that end in this piece."""
        *lines, self._pending = (self._pending + piece).split(b"\n")
        if len(self._pending) > LONGEST_EVENT:
            raise RequestFailed("bad stream", f"an event of the stream is longer than {LONGEST_EVENT >> 20} MiB")
        complete = []
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line:
                if self._data:
                    complete.append(b"\n".join(self._data))
                    self._data = []
            elif not line.startswith((b":", b"event:", b"id:", b"retry:")):
                raise RequestFailed("bad stream", f"the stream holds {line[:60]!r}, which is not an event")
        return complete
