"""Speed of predictions: all pairs and triples of 30 tenants on 5 ways to share, and all pairs of 1,000 tenants.

Prints one JSON document. Seconds are CPU seconds, so other load on the machine doesn't count.
"""

import json
import resource
import time
from functools import partial
from typing import Any

import numpy as np

from cotenant.prediction.interference.correction import Evidence
from cotenant.prediction.interference.fluid import in_turns, side_by_side
from cotenant.prediction.interference.gpu_profiles import GpuProfiles
from cotenant.prediction.interference.mixes import by_victim, every_mix
from cotenant.prediction.interference.predictor import Predictor
from cotenant.prediction.interference.setting import Setting, setting_of
from cotenant.prediction.interference.shipped import GPU, GPU_PRIOR_HALF

LAWS = (side_by_side, side_by_side, side_by_side, in_turns, in_turns)
"""Ways to share: two laws, each with separate evidence."""


def measure() -> dict[str, Any]:
    """Both sizes."""
    begin = time.process_time()
    mixes = 0
    for number, law in enumerate(LAWS):
        setting = _setting(30, law)
        predictor = Predictor(setting, _evidence(setting, 60, seed=number), GPU, prior_half=GPU_PRIOR_HALF)
        for size in (2, 3):
            asked = every_mix(30, size)
            predictor.slowdowns(asked)
            mixes += len(asked)
    small_s = time.process_time() - begin
    begin = time.process_time()
    setting = _setting(1000, side_by_side)
    predictor = Predictor(setting, _evidence(setting, 2000, seed=9), GPU, prior_half=GPU_PRIOR_HALF)
    asked = every_mix(1000, 2)
    found = predictor.slowdowns(asked)
    assert np.isfinite(found.estimate).all()
    return {
        "pairs_and_triples_of_30": {"mixes": mixes, "cpu_seconds": round(small_s, 2)},
        "pairs_of_1000": {"mixes": len(asked), "measured": 2000, "cpu_seconds": round(time.process_time() - begin, 2)},
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _setting(tenants: int, law: Any) -> Setting:
    random = np.random.default_rng(tenants)
    device = random.uniform(1e6, 1e8, tenants)
    serial = random.uniform(0.0, 3e7, tenants)
    profiles = GpuProfiles(
        solo_ns=device + serial,
        device_ns=device,
        work_ns=device * random.uniform(0.3, 0.95, tenants),
        occupancy=random.uniform(0.6, 1.0, tenants),
        dram=random.uniform(0.0, 0.8, tenants),
        launch_ns=device * random.uniform(0.1, 0.9, tenants),
        serial_ns=serial,
        kernels=random.integers(50, 2000, tenants).astype(float),
    )
    families = [f"family {number // 4}" for number in range(tenants)]
    return setting_of(families, profiles.features(), partial(law, profiles))


def _evidence(setting: Setting, pairs: int, *, seed: int) -> Evidence:
    """Random pairs, off the prior by a tenth."""
    random = np.random.default_rng(seed)
    every = every_mix(len(setting), 2)
    chosen = every[random.choice(len(every), pairs, replace=False)]
    which, place, rows = by_victim(chosen)
    count = len(rows)
    return Evidence(
        rows,
        setting.prior(chosen)[which, place] + random.normal(0.0, 0.1, count),
        variance=np.full(count, 0.01**2),
        cell=which,
        blocks=np.full(count, 5, np.int64),
        half=np.full(count, 0.02),
    )


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
