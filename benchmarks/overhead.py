"""Overhead of timing a request: a small model served by the tenant's loop and by a bare loop, interleaved."""

import itertools
import json
import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

MODEL = "bert-base-mini"
ROUNDS = 40
SECONDS = 0.4


def measure() -> dict[str, Any]:
    """From one request's start to the next, in alternating rounds; medians within rounds, then over rounds."""
    import torch

    from cotenant import workloads
    from cotenant.devices import find_device
    from cotenant.workloads.protocol import WorkloadSpec

    core = min(os.sched_getaffinity(0))
    seat = find_device(f"cpu:{core}").seat({"cores": [core], "threads": 1, "clock": "process"})
    with seat.occupy():
        torch.set_num_threads(1)
        stages = workloads.find(MODEL).build(WorkloadSpec(name=MODEL), seat).stages
        _bare(stages)
        rounds = []
        for number in range(ROUNDS):  # alternate the order, so that warm-up favours neither
            if number % 2:
                rounds.append((_bare(stages), _served(stages, seat)))
            else:
                served = _served(stages, seat)
                rounds.append((_bare(stages), served))
    return {
        "bare_ms": statistics.median(bare for bare, _ in rounds) * 1e3,
        "served_ms": statistics.median(served for _, served in rounds) * 1e3,
        "ratio": statistics.median(served / bare for bare, served in rounds),
        "rounds": ROUNDS,
    }


def _bare(stages: Sequence[Any]) -> float:
    begins = [time.perf_counter()]
    while begins[-1] - begins[0] < SECONDS:
        value = None
        for stage in stages:
            value = stage.run(value)
        begins.append(time.perf_counter())
    return statistics.median(later - earlier for earlier, later in itertools.pairwise(begins))


def _served(stages: Sequence[Any], seat: Any) -> float:
    from cotenant.measure.tenants.arena import Board, opened, shared_memory_fd
    from cotenant.measure.tenants.serving import SeatOrder, serve

    arena_fd, board_fd = shared_memory_fd("arena"), shared_memory_fd("board")
    start = time.monotonic_ns()
    end = start + int(SECONDS * 1e9)
    order = SeatOrder(
        index=0, seats=1, start_ns=start, window_start_ns=start, window_end_ns=end, deadline_ns=end, outstanding=1,
        scheduled=0, synchronised=False, own_process=True,
    )  # fmt: skip
    board = Board(board_fd)
    with opened(arena_fd, capacity=100_000, slots=sum(stage.repeat for stage in stages)) as arena:
        served = serve(stages, seat, order, arena, board, 0)
        starts = arena.started[: served.recorded] / 1e9
        seconds = statistics.median(later - earlier for earlier, later in itertools.pairwise(starts.tolist()))
    board.close()
    os.close(arena_fd)
    os.close(board_fd)
    return seconds


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
