"""Speed of the simulation's engine: kernel completions per second of one core, over tenants, sharings and lengths.

Prints one JSON document. Seconds are CPU seconds, so other load on the machine doesn't count; the engine uses one
thread.
"""

import json
import time
import tracemalloc
from typing import Any

from cotenant.prediction.contention.layout import TURNS
from cotenant.prediction.contention.simulation import Outcome, Player, simulate
from cotenant.prediction.contention.trace import Trace, plain_trace

BUSY = plain_trace(kernels=200, device_ns=5e6, occupancy=0.8, dram=0.5, host_ns=2e6)
"""Keeps its device busy: the next kernel is always in the queue."""
STARVED = plain_trace(kernels=200, device_ns=2e6, occupancy=0.8, dram=0.5, host_ns=5e6)
"""Waits for its host before every kernel."""


def measure() -> dict[str, Any]:
    """Compile, then measure."""
    begin = time.perf_counter()
    _run([BUSY], 0.01)
    first_call_s = time.perf_counter() - begin
    return {
        "first_call_s": round(first_call_s, 2),
        "completions_per_cpu_s": {
            f"{name}, {count} tenants, {how}": round(_rate([trace] * count, turns=how == "in turns"))
            for name, trace in (("busy", BUSY), ("starved", STARVED))
            for count in (1, 2, 4, 8)
            for how in ("side by side", "in turns")
        },
        "seconds_by_simulated_seconds": _lengths(),
        "peak_bytes_by_simulated_seconds": {str(length): _peak(length) for length in (5, 50)},
    }


def _run(traces: list[Trace], seconds: float, *, turns: bool = False, shared_host: bool = False) -> Outcome:
    return simulate(
        [Player(trace, shared_host=shared_host) for trace in traces],
        window_end_ns=seconds * 1e9,
        slicing=TURNS if turns else None,
        host_spread=0.02,
        record=False,
    )


def _rate(traces: list[Trace], *, turns: bool) -> float:
    """Best of three: other load only makes it slower."""
    best = 0.0
    for _ in range(3):
        begin = time.process_time()
        outcome = _run(traces, 10.0, turns=turns)
        best = max(best, outcome.completions / (time.process_time() - begin))
    return best


def _lengths() -> dict[str, float]:
    """CPU seconds for increasing trial lengths: linear in the events."""
    found = {}
    for length in (5, 50, 500):
        begin = time.process_time()
        _run([BUSY, STARVED], float(length))
        found[str(length)] = round(time.process_time() - begin, 4)
    return found


def _peak(length: int) -> int:
    """Bytes of a run besides its results."""
    tracemalloc.start()
    _run([BUSY, STARVED], float(length))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
