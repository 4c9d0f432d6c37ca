"""Messages on a socket: a JSON list followed by raw bytes. Nothing in them is ever executed."""

import json
import struct
from collections.abc import Iterator
from typing import Any

_HEAD = struct.Struct("<II")
_ENCODER = json.JSONEncoder(separators=(",", ":"))  # made once: `json.dumps` with options makes one per call
LARGEST = 1 << 30

Message = tuple[list[Any], bytes]


def frame(content: list[Any], data: "bytes | bytearray" = b"") -> bytes:
    """One message, ready to be sent."""
    text = _ENCODER.encode(content).encode()
    return b"".join((_HEAD.pack(len(text), len(data)), text, data))


class Reader:
    """Reassembles messages from arriving pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> Iterator[Message]:
        """Messages completed by this data."""
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
