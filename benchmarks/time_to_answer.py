"""Time to know solos and pairs of five small models: cotenant against the usual script.

The usual script: for each solo and each pair, five repeats, each in fresh processes, 10 warm-up and 100 timed
requests per tenant; slowdown = mean time beside the other / mean time alone. All of it takes ten minutes, so it runs
first on some pairs chosen at random and on their solos: the widths are those of these pairs, and the time of the whole
is the mean time of a launch, of one process and of two, times the exact number of launches.

Then cotenant measures all solos and pairs, also with one thread each, until its widest slowdown is as narrow as the
widest of the script, and at most twice as wide as the script's median, so that the medians are alike too.
"""

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

MODELS = ("bert-base-mini", "gpt2-mini", "resnet50-mini", "distilbert-mini", "vit-b-16-mini")
BUDGET = "3min"
WARM, TIMED, REPEATS = 10, 100, 5
ALL_PAIRS = tuple(itertools.combinations(MODELS, 2))
PAIRS_RUN, SEED = 3, 20


def ours(out: Path, target: float) -> dict[str, Any]:
    """The time of `cotenant run`, from its imports to its answer."""
    begin = time.monotonic()
    import cotenant
    from cotenant.study.files import study_from

    study = study_from(
        {
            "name": "five",
            "tenants": {name: {"workload": name, "threads": 1, "dtype": "float32"} for name in MODELS},
            "mixes": ["solo", "pairs"],
            "sharing": ["processes"],
            "until": {"interval": f"{target * 100:.3g}%"},
            "budget": BUDGET,
        }
    )
    result = cotenant.run(study, out=out)
    seconds = time.monotonic() - begin
    widths = [
        tenant.slowdown.relative_half_width
        for tenant in result.summary.tenants
        if not tenant.cell.solo and hasattr(tenant.slowdown, "relative_half_width")
    ]
    known = [width for width in widths if width is not None]
    return {"seconds": seconds, "why": result.why, "median_width": statistics.median(known), "widest": max(known)}


def usual() -> dict[str, Any]:
    """The time of the usual script, and its precision, from some of its pairs."""
    chosen = np.random.default_rng(SEED).choice(len(ALL_PAIRS), PAIRS_RUN, replace=False)
    pairs = [ALL_PAIRS[number] for number in sorted(chosen)]
    launch_s: dict[int, list[float]] = {1: [], 2: []}

    def launch(*names: str) -> list[float]:
        begin = time.monotonic()
        found = _fresh(list(names))
        launch_s[len(names)].append(time.monotonic() - begin)
        return found

    solos = {name: [launch(name)[0] for _ in range(REPEATS)] for name in dict.fromkeys(itertools.chain(*pairs))}
    widths = []
    for pair in pairs:
        repeats = [launch(*pair) for _ in range(REPEATS)]
        for position, name in enumerate(pair):
            shared, alone = np.log([repeat[position] for repeat in repeats]), np.log(solos[name])
            error = np.sqrt(shared.var(ddof=1) / REPEATS + alone.var(ddof=1) / REPEATS)
            widths.append(float(2.306 * error))  # Student t, 95 %, 8 degrees of freedom
    whole = {1: REPEATS * len(MODELS), 2: REPEATS * len(ALL_PAIRS)}
    return {
        "seconds": sum(statistics.mean(launch_s[size]) * number for size, number in whole.items()),
        "seconds_run": sum(sum(times) for times in launch_s.values()),
        "launches_run": sum(len(times) for times in launch_s.values()),
        "launches": sum(whole.values()),
        "pairs": ["+".join(pair) for pair in pairs],
        "median_width": statistics.median(widths),
        "widest": max(widths),
    }


def _fresh(names: list[str]) -> list[float]:
    """Mean seconds per request of each model, all in fresh processes that start timing together."""
    command = [sys.executable, str(Path(__file__).resolve()), "tenant"]
    tenants = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in names
    ]
    for tenant in tenants:
        assert tenant.stdout is not None
        tenant.stdout.readline()  # "ready"
    for tenant in tenants:
        assert tenant.stdin is not None
        tenant.stdin.write("go\n")
        tenant.stdin.flush()
    return [float(tenant.communicate()[0]) for tenant in tenants]


def _tenant(name: str) -> None:
    import torch

    from cotenant import workloads
    from cotenant.workloads.protocol import WorkloadSpec

    class Here:
        torch_device, default_dtype = "cpu", "float32"

    torch.set_num_threads(1)
    stages = workloads.find(name).build(WorkloadSpec(name=name), Here()).stages  # type: ignore[arg-type]

    def request() -> None:
        value = None
        for stage in stages:
            value = stage.run(value)

    for _ in range(WARM):
        request()
    print("ready", flush=True)
    sys.stdin.readline()
    begin = time.perf_counter()
    for _ in range(TIMED):
        request()
    print((time.perf_counter() - begin) / TIMED, flush=True)


def measure() -> dict[str, Any]:
    """Both, in one run."""
    theirs = usual()
    with tempfile.TemporaryDirectory() as folder:
        mine = ours(Path(folder), min(theirs["widest"], 2 * theirs["median_width"], 0.99))
    return {"budget": BUDGET, "cotenant": mine, "usual": theirs, "ratio": theirs["seconds"] / mine["seconds"]}


if __name__ == "__main__":
    if sys.argv[1:2] == ["tenant"]:
        _tenant(sys.argv[2])
    else:
        print(json.dumps(measure(), indent=2))
