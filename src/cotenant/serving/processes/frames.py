"""Messages on a socket: a JSON list followed by raw bytes. Nothing in them is ever executed."""

import struct
from typing import Any

from pydantic_core import from_json, to_json

_HEAD = struct.Struct("<II")
LARGEST = 1 << 30

Message = tuple[list[Any], bytes]


def frame(content: list[Any], data: "bytes | bytearray" = b"") -> bytes:
    """One message, ready to be sent."""
    text = to_json(content)
    return b"".join((_HEAD.pack(len(text), len(data)), text, data))


class Reader:
    """Reassembles messages from arriving pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: "bytes | memoryview") -> list[Message]:
        """Messages completed by this data."""
        if self._buffer:
            self._buffer += piece
            piece, self._buffer = bytes(self._buffer), bytearray()
        messages: list[Message] = []
        at, size = 0, len(piece)
        while size - at >= _HEAD.size:
            text_size, data_size = _HEAD.unpack_from(piece, at)
            if text_size + data_size > LARGEST:
                raise ValueError(f"a message of {text_size + data_size} bytes")
            text_at = at + _HEAD.size
            data_at = text_at + text_size
            end = data_at + data_size
            if size < end:
                break
            messages.append((from_json(bytes(piece[text_at:data_at])), bytes(piece[data_at:end])))
            at = end
        self._buffer += piece[at:]
        return messages
