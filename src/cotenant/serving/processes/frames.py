"""Messages on a socket, several to a frame: a JSON list of lists, then raw bytes. Nothing in them is ever executed."""

import struct
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

_HEAD = struct.Struct("<II")
LARGEST = 1 << 30

Message = list[Any]
Bytes: TypeAlias = bytes | bytearray | memoryview


class Writer:
    """Collects messages and the bytes that belong to them, to be sent together: the other side is woken once."""

    __slots__ = ("_data", "_messages")

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._data: list[Bytes] = []

    def add(self, message: Message, data: list[Bytes] | None = None) -> None:
        """Add a message; its data follows that of earlier ones."""
        self._messages.append(message)
        if data:
            self._data += data

    def frame(self) -> bytes:
        """Everything collected so far, ready to be sent."""
        text, data = to_json(self._messages), b"".join(self._data)
        self._messages, self._data = [], []
        return b"".join((_HEAD.pack(len(text), len(data)), text, data))


def frame(message: Message, data: list[Bytes] | None = None) -> bytes:
    """A single message and its bytes, ready to be sent."""
    writer = Writer()
    writer.add(message, data)
    return writer.frame()


class Reader:
    """Reassembles frames from arriving pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: "bytes | memoryview") -> list[tuple[list[Message], bytes]]:
        """The messages of each frame completed by this data, and the bytes that belong to them in their order."""
        if self._buffer:
            self._buffer += piece
            piece, self._buffer = bytes(self._buffer), bytearray()
        frames: list[tuple[list[Message], bytes]] = []
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
            frames.append((from_json(bytes(piece[text_at:data_at])), bytes(piece[data_at:end])))
            at = end
        if at < size:
            self._buffer += piece[at:]
        return frames
