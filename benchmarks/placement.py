"""Time of placement: ten thousand jobs on ten thousand GPUs, under every policy."""

import json
import time
from typing import Any

import numpy as np

from cotenant.planning.gpu_fleet import GpuFleet
from job_policies import POLICIES, draw_jobs, replay

GPUS = JOBS = 10_000


def measure() -> dict[str, Any]:
    """Seconds by policy; dies drawn with the spread of a real cluster."""
    times = 1 + 0.02 * np.random.default_rng(0).standard_normal(GPUS)
    fleet = GpuFleet(
        gpus=tuple(f"gpu{number}" for number in range(GPUS)),
        relative_time=times,
        clock_mhz=1365 / times,
        power_w=np.full(GPUS, 297.0),
        node=np.arange(GPUS) // 4,
    )
    jobs = draw_jobs(JOBS, GPUS, load=1.5, seed=1)
    seconds = {}
    for name, policy in POLICIES.items():
        begin = time.perf_counter()
        replay(fleet, jobs, policy(fleet, 1))
        seconds[name] = time.perf_counter() - begin
    return {"gpus": GPUS, "jobs": JOBS, "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
