"""Limits on a process: memory that it can write to, not address space that libraries reserve."""

import mmap

import pytest

from cotenant.cli.sql import bounded

LIMIT = 64 << 20
MORE = 1 << 30


def test_reserved_address_space_is_not_memory():
    with bounded(memory_bytes=LIMIT, seconds=60):
        reserved = mmap.mmap(-1, MORE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    reserved.close()


def test_memory_beyond_the_limit_is_refused_until_the_end_of_the_block():
    with bounded(memory_bytes=LIMIT, seconds=60), pytest.raises(MemoryError):
        bytearray(MORE)
    assert bytearray(2 * LIMIT)
