"""Time by stage."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Sums the seconds of each stage; of nested stages, only the inner one counts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time inside for this stage."""
        outer, self._inner = self._inner, 0.0
        begin = time.perf_counter()
        try:
            yield
        finally:
            whole = time.perf_counter() - begin
            self.seconds[name] = self.seconds.get(name, 0.0) + whole - self._inner
            self._inner = outer + whole
