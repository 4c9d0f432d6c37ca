"""Time and memory to build a workload, compared with transformers' own `from_config`.

Each build runs in a separate process; times and peaks are ratios of medians. Run: python benchmarks/building.py
"""

import json
import statistics
import subprocess
import sys
import time
from typing import Any

NAMES = ("bert-base", "gpt2", "resnet50", "vit-b-16")
REPEATS = 3


def measure() -> dict[str, Any]:
    """One row per model: medians of both sides, and their ratios."""
    rows = []
    for name in NAMES:
        runs: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
        for _ in range(REPEATS):  # interleaved, so that other load affects both
            for side, results in runs.items():
                done = subprocess.run([sys.executable, __file__, "--one", side, name], check=True, capture_output=True)
                results.append(json.loads(done.stdout))
        seconds = {side: statistics.median(run["seconds"] for run in results) for side, results in runs.items()}
        memory = {side: statistics.median(run["mib"] for run in results) for side, results in runs.items()}
        rows.append(
            {
                "model": name,
                "seconds": seconds,
                "time_ratio": seconds["ours"] / seconds["theirs"],
                "memory_ratio": memory["ours"] / memory["theirs"],
            }
        )
    return {"rows": rows, "repeats": REPEATS}


def build_one(side: str, name: str) -> None:
    """Build once, after all imports, and print the time and memory beyond them."""
    import torch
    import transformers

    from cotenant.workloads.catalogue import model_entries
    from cotenant.workloads.models.skeleton import build_skeleton, materialise

    torch.set_num_threads(1)
    entry = next(entry for entry in model_entries() if entry.name == name)
    model_class = getattr(transformers, entry.architecture.classes[entry.modes[0]])
    config = getattr(transformers, entry.architecture.config)(**entry.config)
    before = _peak_mib()
    start = time.perf_counter()
    if side == "ours":
        model = materialise(build_skeleton(entry, entry.modes[0]), device="cpu", dtype=torch.float32, seed=0)
    else:
        model = model_class._from_config(config).eval()  # noqa: SLF001  what AutoModel.from_config calls
    seconds = time.perf_counter() - start
    assert sum(parameter.numel() for parameter in model.parameters()) > 0
    print(json.dumps({"seconds": seconds, "mib": _peak_mib() - before}))


def _peak_mib() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        build_one(*sys.argv[2:4])
    else:
        print(json.dumps(measure(), indent=2))
