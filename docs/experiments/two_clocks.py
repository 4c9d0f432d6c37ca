"""The device's clock does not see the queue.

A tenant needs the device for 5 ms per request. Requests come at random, ten minutes long, at rates up to 95 % of what
the device can do. The device's clock sees the same 5 ms at every rate; whoever sent the request does not.
"""

import numpy as np

from cotenant.reporting.elements.markdown import table
from cotenant.tenancy.load import Load, arrivals_ns
from cotenant.text import percent

HEAD = ("load", "device time, ms", "end to end, mean, ms", "end to end, p99, ms")
SERVICE_MS, MINUTES = 5.0, 10


def rows() -> list[tuple[str, ...]]:
    """By load."""
    return [_row(load) for load in (0.3, 0.6, 0.8, 0.95)]


def _row(load: float) -> tuple[str, ...]:
    due = arrivals_ns(Load(kind="poisson", rate_rps=load * 1e3 / SERVICE_MS), seed=1, horizon_s=60 * MINUTES) / 1e6
    # One server, first come, first served: a request is done one service after it is due or after the one before it.
    steps = SERVICE_MS * np.arange(1, due.size + 1)
    done = np.maximum.accumulate(due - steps + SERVICE_MS) + steps
    latency = done - due
    return percent(load), f"{SERVICE_MS:.1f}", f"{latency.mean():.1f}", f"{np.quantile(latency, 0.99):.1f}"


if __name__ == "__main__":
    print(table(HEAD, rows()))
