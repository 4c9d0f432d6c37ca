"""Read runs without warnings: pages report damage themselves, and the serving terminal stays quiet."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from cotenant.errors import IntegrityWarning


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress warnings about damaged trials."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntegrityWarning)
        yield
