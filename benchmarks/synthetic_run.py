"""A synthetic run for benchmarks of storage and analysis: any number of requests, in seconds."""

import sys
import time
from pathlib import Path

import numpy as np

from cotenant.store.folder import RunFolder
from cotenant.tenancy.records import MISSING_NS, TrialRecords

TENANTS = ("encoder", "decoder")
MIXES = {"encoder": (0,), "decoder": (1,), "encoder+decoder": (0, 1)}
LATENCY_NS = (4_000_000, 9_000_000)
SLOWDOWN = 1.6
WINDOW_S = 10.0


def make(path: Path, trials: int, requests_per_trial: int, seed: int) -> RunFolder:
    """Write a run of ``trials`` trials with ``requests_per_trial`` requests each: solos and the pair, in blocks."""
    rng = np.random.default_rng(seed)
    folder = RunFolder.create(path, {"study": {"name": "synthetic"}, "seed": seed})
    for number in range(trials):
        folder.commit(_trial(rng, number, requests_per_trial))
    return folder


def _trial(rng: np.random.Generator, number: int, requests: int) -> TrialRecords:
    block, order = divmod(number, len(MIXES))
    mix = list(MIXES)[order]
    members = MIXES[mix]
    solo = len(members) == 1
    start = number * 60_000_000_000
    codes = np.repeat(
        np.arange(len(members), dtype=np.uint8), np.diff(np.linspace(0, requests, len(members) + 1, dtype=int))
    )
    slowdown = 1.0 if solo else SLOWDOWN
    typical = np.array([LATENCY_NS[member] for member in members])[codes] * slowdown
    latency = (typical * rng.gamma(25.0, 1 / 25.0, requests)).astype(np.int64)
    started = start + np.linspace(0, WINDOW_S * 1e9, requests, dtype=np.int64)
    return TrialRecords(
        trial={
            "trial": number,
            "block": block,
            "order": order,
            "session": 0,
            "mix": mix,
            "solo": solo,
            "device": "sim:none",
            "simulated": True,
            "sharing": "alone" if solo else "processes",
            "settings": "{}",
            "load": "closed(1)",
            "seed": number,
            "started_utc": "2000-01-01T00:00:00Z",
            "start_ns": start,
            "window_start_ns": start,
            "window_s": WINDOW_S,
            "verdict": "valid",
            "failed_checks": [],
            "reasons": [],
        },
        tenants=tuple(
            {
                "tenant": TENANTS[member],
                "of": TENANTS[member],
                "workload": TENANTS[member],
                "batch": 8,
                "load": "closed(1)",
            }
            for member in members
        ),
        requests={
            "tenant": codes,
            "seq": np.arange(requests),
            "intended_ns": started,
            "started_ns": started,
            "first_ns": np.full(requests, MISSING_NS),
            "done_ns": started + latency,
            "device_ns": latency * 9 // 10,
            "in_window": np.ones(requests, dtype=bool),
            "ok": rng.random(requests) > 1e-4,
        },
    )


def main() -> None:
    """`python benchmarks/synthetic_run.py PATH [TRIALS [REQUESTS_PER_TRIAL]]`."""
    path, *sizes = sys.argv[1:]
    trials, requests = [int(size) for size in sizes] + [200, 100_000][len(sizes) :]
    begin = time.perf_counter()
    make(Path(path), trials, requests, seed=0)
    print(f"{trials * requests:,} requests in {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
