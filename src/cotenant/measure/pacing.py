"""Waits for a point in time: sleeps most of it and spins the rest, as briefly as this machine's timers allow."""

import ctypes
import sys
import time

PROBES = 25
PROBE_NS = 300_000
MARGIN_MIN_NS = 5_000
MARGIN_MAX_NS = 120_000
_PR_SET_TIMERSLACK = 29


def sharpen_timer() -> None:
    """Ask Linux to wake the calling thread on time, not up to 50 us later to save power."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def spin_margin_ns() -> int:
    """How long before the due time to wake up: the measured overshoot of sleeps on this machine (takes about 8 ms).

    Spinning takes the core from neighbours, so the margin is only the typical overshoot: the few
    sleeps that overshoot further end late.
    """
    overshoots = []
    for _ in range(PROBES):
        due = time.monotonic_ns() + PROBE_NS
        time.sleep(PROBE_NS / 1e9)
        overshoots.append(time.monotonic_ns() - due)
    overshoots.sort()
    typical = overshoots[int(PROBES * 0.8)]
    return min(max(typical, MARGIN_MIN_NS), MARGIN_MAX_NS)


def wait_until(due_ns: int, margin_ns: int) -> int:
    """Return as soon as the monotonic clock reaches ``due_ns``, with the time it then shows."""
    now = time.monotonic_ns
    current = now()
    left = due_ns - current
    if left > margin_ns:
        time.sleep((left - margin_ns) / 1e9)
        current = now()
    while current < due_ns:
        current = now()
    return current
