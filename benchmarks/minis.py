"""Short against long windows on every small model of the catalogue, alone.

    python benchmarks/minis.py [SECONDS] [MODEL ...]

Each model stays up while blocks of four short windows and a long one, in random order, are measured: the windows that a
study would choose, and those that it compares them with. A ratio above 1: requests take longer in long windows. The
time is divided among the models, with three blocks at least.
"""

import json
import math
import sys
import time
from typing import Any

import numpy as np

import cotenant
from cotenant.analyse.estimates.autocorrelation import common_correlation
from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.analyse.estimates.robust import adjusted
from cotenant.devices import find_device
from cotenant.measure.bench import DeviceBench, bench_for
from cotenant.measure.locking import device_lock
from cotenant.store.observe import observe_trial
from cotenant.study import windows
from cotenant.study.expand import expand
from cotenant.study.files import study_from
from cotenant.tenancy.interval import Estimate
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TenantObservation

SHORT_ONES = 4
FEWEST_BLOCKS = 3
WARM_S = (0.25, 0.5)


def compared(bench: DeviceBench, model: str, until: float, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Log ratios of long to short windows of a model, block by block: of its requests, and of the canary."""
    [trial] = expand(
        study_from({"name": "minis", "tenants": {model: {"workload": model, "threads": 1}}, "mixes": ["solo"]}), 0, ()
    ).trials
    bench.prepare([trial])
    [alone_s] = bench.request_times([trial]).values()
    short = windows.chosen(alone_s)
    long_s = min(windows.LONG_TIMES * short.window_s, windows.LONGEST_COMPARED_S)
    lengths = [short.window_s] * SHORT_ONES + [long_s]
    found: list[tuple[float, float]] = []
    while len(found) < FEWEST_BLOCKS or time.monotonic() < until:
        ordered = [
            trial.model_copy(update={"number": place, "window_s": lengths[one], "lead_s": short.lead_s})
            for place, one in enumerate(rng.permutation(len(lengths)))
        ]
        found.append(_means(bench, ordered, long_s))
    return found


def _means(bench: DeviceBench, trials: list[Trial], long_s: float) -> tuple[float, float]:
    """Log of the long window's mean over the short ones': of requests, and of the canary."""
    seen: list[TenantObservation] = []
    while len(seen) < len(trials):
        seen += [
            observe_trial(one, "minis")[0] for one in bench.carry_out_some(trials[len(seen) :], session=0, rates={})
        ]
    found = []
    for values in ([one.mean_latency_ns for one in seen], [one.canary_us or math.nan for one in seen]):
        logs = np.log(np.array(values, dtype=np.float64))
        is_long = np.array([one.window_s == long_s for one in seen])
        found.append(float(logs[is_long].mean() - logs[~is_long].mean()))
    return found[0], found[1]


def measure(seconds: float = 240.0, *models: str) -> dict[str, Any]:
    """All models, or some."""
    chosen = models or tuple(one.entry.mini for one in cotenant.list_workloads() if one.entry.mini is not None)
    device, rng = find_device("cpu"), np.random.default_rng(60)
    begin = time.monotonic()
    series: dict[str, list[tuple[float, float]]] = {}
    with device_lock(device.lock_keys(), run="minis"):
        bench = bench_for(device, run="minis", warm_s=WARM_S)
        try:
            for number, model in enumerate(chosen):
                series[model] = compared(bench, model, begin + seconds * (number + 1) / len(chosen), rng)
                bench.refresh()
        finally:
            bench.kill()
    logs = {model: [ratio for ratio, _ in rows] for model, rows in series.items()}
    common = common_correlation(np.array(one) for one in logs.values())
    found = {model: ratio_interval(one, common=common) for model, one in logs.items()}
    apart = [model for model, one in found.items() if one.lo is None or one.hi is None or not one.lo <= 1 <= one.hi]
    every = [row for rows in series.values() for row in rows]
    canaries = {place: canary for place, (_, canary) in enumerate(every) if math.isfinite(canary)}
    calmed = adjusted({place: ratio for place, (ratio, _) in enumerate(every)}, canaries)
    return {
        "seconds": time.monotonic() - begin,
        "models": {model: _row(one) for model, one in found.items()},
        "all": _row(ratio_interval(list(calmed.values()), common=common)),
        "intervals_without_one": apart,
    }


def _row(one: Estimate) -> dict[str, Any]:
    return {"long_over_short": one.est, "lo": one.lo, "hi": one.hi, "blocks": one.n}


if __name__ == "__main__":
    print(json.dumps(measure(float(sys.argv[1]), *sys.argv[2:]) if sys.argv[1:] else measure(), indent=1))
