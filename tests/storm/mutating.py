# ruff: noqa: E501 - a table of bytes
"""Corrupt bytes the way disks, copies, editors and attackers do."""

import random

HOSTILE = (
    b"", b"\x00", b"\xff\xfe", b"[" * 3000, b"{" * 3000, b"&a [*a]", b"!!python/object/apply:os.system [id]", b"nan", b"-1",
    b"1e999", b"9" * 400, b"\x1b[2J", b"\xe2\x80\xae", b"../../../etc/passwd", b"'; drop table trials; --", b"%n%s", b"\r\n" * 50,
    b"NULL", b"PAR1", b"null", b"true", b"[]", b"{}",
)  # fmt: skip


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The content after one to three corruptions."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        content = rng.choice(_ACCIDENTS)(content, rng)
    return content


def _flip(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return content
    changed = bytearray(content)
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _lose_a_piece(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.randrange(1, 200) :]


def _zero_a_piece(content: bytes, rng: random.Random) -> bytes:
    start, length = rng.randrange(len(content) + 1), rng.randrange(1, 512)
    return content[:start] + b"\x00" * min(length, len(content) - start) + content[start + length :]


def _double_a_piece(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    piece = content[start : start + rng.randrange(1, 200)]
    return content[:start] + piece * rng.choice((2, 3, 50)) + content[start:]


def _insert(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + rng.choice(HOSTILE) + content[start:]


def _replace_a_word(content: bytes, rng: random.Random) -> bytes:
    words = content.split(b" ")
    words[rng.randrange(len(words))] = rng.choice(HOSTILE)
    return b" ".join(words)


def _noise(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + rng.randbytes(rng.randrange(1, 64)) + content[start:]


def _something_else(content: bytes, rng: random.Random) -> bytes:
    del content
    return rng.choice((*HOSTILE, rng.randbytes(300)))


_ACCIDENTS = (
    _flip, _flip, _flip, _cut, _lose_a_piece, _zero_a_piece, _double_a_piece, _insert, _replace_a_word, _noise,
    _something_else,
)  # fmt: skip
