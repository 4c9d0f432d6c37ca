"""Memory growth of a runner per trial: thousands of short trials of an idle tenant.

    python benchmarks/growth.py [TRIALS] [DEVICE]

The first quarter is warm-up, in which allocators fill their pools. The slope over the rest counts.
"""

import gc
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import cotenant
from cotenant.measure.events import Event, TrialDone

STUDY = """name: growth
tenants:
  a: {{workload: {workload}}}
mixes: [solo]
window: 50ms
lead: 10ms
blocks: {trials}
"""
LOOKS = 80
PAGE_BYTES = 4096


def growth(trials: int, device: str) -> dict[str, float | int | str]:
    """Growth of the runner in bytes per trial, by a robust line through its resident memory."""
    seen: list[tuple[int, int]] = []
    done = 0

    def hear(event: Event) -> None:
        nonlocal done
        if isinstance(event, TrialDone):
            done += 1
            if done % max(1, trials // LOOKS) == 0:
                gc.collect()
                seen.append((done, PAGE_BYTES * int(Path("/proc/self/statm").read_text().split()[1])))

    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "growth.yaml"
        workload = "sgemm" if device.startswith("sim:") else "sleep"
        study.write_text(STUDY.format(workload=workload, trials=trials))
        cotenant.run(study, device=device, out=Path(folder) / "runs", listener=hear)
    return {
        "device": device,
        "trials": done,
        "resident_mib": round(seen[-1][1] / 2**20, 1),
        "bytes_per_trial": round(slope([one for one in seen if one[0] > trials / 4]), 1),
    }


def slope(points: Sequence[tuple[int, int]]) -> float:
    """Bytes per trial of a robust line through (trials, resident bytes): the median slope between distant points."""
    numbers, resident = np.array(points).T
    slopes = [
        (resident[j] - resident[i]) / (numbers[j] - numbers[i])
        for i in range(len(numbers))
        for j in range(i + len(numbers) // 2, len(numbers))
    ]
    return float(np.median(slopes))


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print(json.dumps(growth(number, sys.argv[2] if len(sys.argv) > 2 else "sim:t4"), indent=1))
