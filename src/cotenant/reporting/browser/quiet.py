"""Reading runs without warnings: pages say themselves what is damaged, and a terminal that serves them stays quiet."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from cotenant.errors import IntegrityWarning


@contextmanager
def quietly() -> Iterator[None]:
    """Leave out warnings about damaged trials."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntegrityWarning)
        yield
