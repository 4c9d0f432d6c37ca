"""A clock that starts too late does not see a server hang.

A server needs 5 ms per request and hangs once, for 2 s, within a minute. 100 requests come each second. If the clock
starts when a request is sent, and the client sends the next one when the last is done, only a single request sees the
hang. If it starts when the request was due, all that waited do.
"""

import numpy as np

from cotenant.reporting.elements.markdown import table
from cotenant.tenancy.load import Load, arrivals_ns

HEAD = ("clock starts when", "p50, ms", "p99, ms", "slowest, ms", "requests over 100 ms")
SERVICE_MS, HANG_MS, HANGS_AT_MS = 5.0, 2000.0, 20_000.0


def rows() -> list[tuple[str, ...]]:
    """The same minute by two clocks."""
    intended = arrivals_ns(Load(kind="poisson", rate_rps=100), seed=1, horizon_s=60) / 1e6
    started, done = _served(intended)
    return [_row("the request is sent", done - started), _row("the request was due", done - intended)]


def _served(intended: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    started, done = np.empty_like(intended), np.empty_like(intended)
    free, hung = 0.0, False
    for number, due in enumerate(intended):
        started[number] = max(due, free)
        free = started[number] + SERVICE_MS
        if not hung and free > HANGS_AT_MS:
            free, hung = free + HANG_MS, True
        done[number] = free
    return started, done


def _row(name: str, latency: np.ndarray) -> tuple[str, ...]:
    p50, p99 = np.quantile(latency, (0.5, 0.99))
    return name, f"{p50:.1f}", f"{p99:.0f}", f"{latency.max():.0f}", f"{np.count_nonzero(latency > 100):,}"


if __name__ == "__main__":
    print(table(HEAD, rows()))
