"""A count of iterations hides most of the slowdown.

Two tenants share a device evenly, so each of them is exactly twice as slow as alone. One request of the quick one
takes 2 ms; requests of the other take 1, 3, 10 and 30 times that. The usual script gives each tenant 100 iterations
and divides its time by the time of the same 100 iterations alone; a window counts only what happens while both are
active.
"""

import numpy as np

from cotenant.reporting.elements.markdown import table

HEAD = ("the slow one's request", "quick, 100 iterations", "slow, 100 iterations", "both, in a window", "truth")
ITERATIONS = 100
QUICK_MS = 2.0
SHARE = 0.5
WINDOW_MS = 1000.0


def rows() -> list[tuple[str, ...]]:
    """Slowdowns of both tenants by how different their requests are."""
    return [_row(factor) for factor in (1, 3, 10, 30)]


def _row(factor: int) -> tuple[str, ...]:
    work = {"quick": QUICK_MS * ITERATIONS, "slow": QUICK_MS * factor * ITERATIONS}
    together = work["quick"] / SHARE
    # From here on the slow tenant is alone, and still counts its iterations.
    slow = together + work["slow"] - together * SHARE
    return (
        f"{QUICK_MS * factor:g} ms",
        f"{together / work['quick']:.2f}",
        f"{slow / work['slow']:.2f}",
        f"{_in_a_window(QUICK_MS * factor):.2f}",
        f"{1 / SHARE:.2f}",
    )


def _in_a_window(alone_ms: float) -> float:
    """Mean time of the requests that begin and end while both tenants are active, over their time alone."""
    began = np.arange(0, WINDOW_MS, alone_ms / SHARE)
    done = began + alone_ms / SHARE
    inside = done <= WINDOW_MS
    return float((done - began)[inside].mean() / alone_ms)


if __name__ == "__main__":
    print(table(HEAD, rows()))
