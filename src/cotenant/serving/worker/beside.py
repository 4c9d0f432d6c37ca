"""The front end keeps off the cores that are the device: there it would stop the models in the middle of a chunk."""

import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager


@contextmanager
def kept_off(cores: AbstractSet[int]) -> Iterator[None]:
    """Run this thread, and threads and processes that it starts, beside these cores, as long as others are left."""
    before = os.sched_getaffinity(0)
    left = before - cores
    if left and left != before:
        os.sched_setaffinity(0, left)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
