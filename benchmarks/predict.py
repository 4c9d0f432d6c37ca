"""Speed of predictions: all pairs and triples of 30 tenants on 5 ways to share, and all pairs of 1,000 tenants.

Prints one JSON document. Seconds are CPU seconds, so other load on the machine doesn't count.
"""

import json
import resource
import time
from functools import partial
from typing import Any

import numpy as np

from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.prediction.contention.closed_form import log_slowdowns
from cotenant.prediction.contention.demand import demands_of
from cotenant.prediction.contention.trace import plain_trace
from cotenant.prediction.interference.correction import Evidence
from cotenant.prediction.interference.covariance import GPU, GPU_PRIOR_HALF
from cotenant.prediction.interference.gpu_mixes import GpuMixes
from cotenant.prediction.interference.predictor import Predictor
from cotenant.prediction.interference.profiles import profiles_of
from cotenant.prediction.interference.setting import Setting, by_victim, every_mix, setting_of
from cotenant.prediction.simulated_gpu import Controls
from cotenant.tenancy.sharing import Sharing
from cotenant.workloads.protocol import WorkloadSpec

WAYS = tuple(Sharing(mode=mode) for mode in ("processes", "mps", "streams", "green", "mig"))
NAMES = ("distilbert", "bert-base", "bge-small", "gpt2", "distilgpt2", "resnet18", "resnet50", "mobilenet-v2", "vgg16",
         "vit-b-16")  # fmt: skip
BATCHES = (1, 8, 32)


def measure() -> dict[str, Any]:
    """Both sizes."""
    gpu = open_simulated("sim:a100-sxm4-40gb")
    specs = [WorkloadSpec(name=name, batch=batch) for name in NAMES for batch in BATCHES]
    known = GpuMixes(gpu, specs, Controls())
    profiles = profiles_of(traces := [known.trace(number) for number in range(30)], [one.alone_ns() for one in traces])
    for way in WAYS:  # describes every tenant on every part of the GPU
        known.prior(way)(every_mix(30, 2))
        known.prior(way)(every_mix(30, 3))
    begin = time.process_time()
    mixes = 0
    for number, way in enumerate(WAYS):
        setting = setting_of([spec.name for spec in specs], profiles.features(), known.prior(way))
        predictor = Predictor(setting, _evidence(setting, 60, seed=number), GPU, prior_half=GPU_PRIOR_HALF)
        for size in (2, 3):
            asked = every_mix(30, size)
            predictor.slowdowns(asked)
            mixes += len(asked)
    small_s = time.process_time() - begin
    begin = time.process_time()
    setting = _setting(1000)
    predictor = Predictor(setting, _evidence(setting, 2000, seed=9), GPU, prior_half=GPU_PRIOR_HALF)
    asked = every_mix(1000, 2)
    found = predictor.slowdowns(asked)
    assert np.isfinite(found.estimate).all()
    return {
        "pairs_and_triples_of_30": {"mixes": mixes, "cpu_seconds": round(small_s, 2)},
        "pairs_of_1000": {"mixes": len(asked), "measured": 2000, "cpu_seconds": round(time.process_time() - begin, 2)},
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _setting(tenants: int) -> Setting:
    random = np.random.default_rng(tenants)
    traces = [
        plain_trace(
            kernels=int(random.integers(50, 2000)),
            device_ns=device,
            occupancy=random.uniform(0.6, 1.0),
            dram=random.uniform(0.0, 0.8),
            host_ns=device * random.uniform(0.1, 1.4),
        )
        for device in random.uniform(1e6, 1e8, tenants)
    ]
    profiles = profiles_of(traces, [trace.alone_ns() for trace in traces])
    families = [f"family {number // 4}" for number in range(tenants)]
    return setting_of(families, profiles.features(), partial(log_slowdowns, demands_of(traces)))


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
