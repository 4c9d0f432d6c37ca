"""Messages on a socket: a JSON list and, behind it, raw bytes. Nothing in them is ever executed."""

import json
import struct
from collections.abc import Iterator
from typing import Any

_HEAD = struct.Struct("<II")
LARGEST = 1 << 30

Message = tuple[list[Any], bytes]


def frame(content: list[Any], data: "bytes | bytearray" = b"") -> bytes:
    """One message, ready to be sent."""
    text = json.dumps(content, separators=(",", ":")).encode()
    return b"".join((_HEAD.pack(len(text), len(data)), text, data))


class Reader:
    """Puts messages together from whatever pieces arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> Iterator[Message]:
        """The messages that are complete now."""
        self._buffer += piece
        while len(self._buffer) >= _HEAD.size:
            text_size, data_size = _HEAD.unpack_from(self._buffer)
            if text_size + data_size > LARGEST:
                raise ValueError(f"a message of {text_size + data_size} bytes")
            end = _HEAD.size + text_size + data_size
            if len(self._buffer) < end:
                return
            text = bytes(self._buffer[_HEAD.size : _HEAD.size + text_size])
            data = bytes(self._buffer[_HEAD.size + text_size : end])
            del self._buffer[:end]
            yield json.loads(text), data
