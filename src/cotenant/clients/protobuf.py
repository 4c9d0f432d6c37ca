"""The parts of protobuf's wire format that inference requests need: numbers, bytes, and nested messages."""

from collections.abc import Iterable, Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
Value = int | bytes


def varint(number: int) -> bytes:
    """A varint; negative numbers as 64 bits, as int64 is encoded."""
    left = number & 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def written(field: int, value: str | bytes) -> bytes:
    """A field of text, bytes, or an encoded message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | _BYTES) + varint(len(data)) + data


def packed(field: int, numbers: Iterable[int]) -> bytes:
    """A repeated field of integers."""
    return written(field, b"".join(varint(number) for number in numbers))


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of a message in order: numbers as they are, everything else as bytes.

    Raises:
        ValueError: It is not a message.
    """
    at = 0
    while at < len(data):
        key, at = _varint_at(data, at)
        match key & 7:
            case 0:
                value, at = _varint_at(data, at)
                yield key >> 3, value
            case kind if kind in {_FIXED64, _BYTES, _FIXED32}:
                size, at = (8, at) if kind == _FIXED64 else (4, at) if kind == _FIXED32 else _varint_at(data, at)
                if at + size > len(data):
                    raise ValueError("the message is truncated")
                yield key >> 3, data[at : at + size]
                at += size
            case kind:
                raise ValueError(f"the message has a field of unknown type {kind}")


def numbers(value: Value) -> list[int]:
    """A repeated field of int64, packed or one of its elements."""
    if isinstance(value, int):
        return [_signed(value)]
    decoded, at = [], 0
    while at < len(value):
        number, at = _varint_at(value, at)
        decoded.append(_signed(number))
    return decoded


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data) and shift < 70:
        number |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:
            return number, at + 1
        at, shift = at + 1, shift + 7
    raise ValueError("the message is truncated")
