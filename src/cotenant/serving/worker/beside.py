"""Keep the front end off the cores that are the device, where it would interrupt chunks."""

import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager


@contextmanager
def kept_off(cores: AbstractSet[int]) -> Iterator[None]:
    """Run this thread, and threads and processes it starts, outside these cores, if others are left."""
    before = os.sched_getaffinity(0)
    left = before - cores
    if left and left != before:
        os.sched_setaffinity(0, left)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
