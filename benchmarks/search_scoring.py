"""Is scoring ever the bottleneck of a search? 10,000 items, 512 features, 1000 classes, per candidate.

For comparison, from the same run: the time to extract features of as many images with the smallest full-size model, and
TransRate computed class by class. Run: python benchmarks/search_scoring.py
"""

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ITEMS, WIDTH, CLASSES, CANDIDATES = 10_000, 512, 1000, 3
SCORED = ("linear", "knn", "logme", "hscore", "transrate")
EXTRACTED = 32
LOOPED = 50
"""Classes sampled where the naive way takes too long."""
MODEL = "mobilenet-v2"


def measure() -> dict[str, Any]:
    """Seconds per candidate of each scorer, and of extraction."""
    import torch

    from cotenant.ranking.scorers import find_scorer

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(ITEMS, dtype=np.int64) % CLASSES)
    centres = rng.normal(size=(CLASSES, WIDTH))
    sets = [(centres[labels] + 3 * rng.normal(size=(ITEMS, WIDTH))).astype(np.float32) for _ in range(CANDIDATES)]
    rows = []
    for name in SCORED:
        scorer = find_scorer(name)
        times = [
            _timed(lambda one=one, scorer=scorer: scorer.score(one, labels, classes=CLASSES, seed=0)) for one in sets
        ]
        rows.append({"scorer": name, "seconds": statistics.median(times)})
    plain_s = _timed(lambda: _class_by_class(sets[0], labels)) * CLASSES / LOOPED
    extraction_s = _extraction_s()
    for row in rows:
        row["share_of_extraction"] = row["seconds"] / extraction_s
    seconds = {row["scorer"]: row["seconds"] for row in rows}
    return {
        "items": ITEMS,
        "width": WIDTH,
        "classes": CLASSES,
        "candidates": CANDIDATES,
        "model": MODEL,
        "extraction_s": extraction_s,
        "rows": rows,
        "class_by_class_ratio": plain_s / seconds["transrate"],
    }


def _timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _class_by_class(features: np.ndarray, labels: np.ndarray) -> None:
    """TransRate's determinants at full size, one class after the other."""
    centred = features.astype(np.float64) - features.mean(axis=0, dtype=np.float64)
    for kind in range(LOOPED):
        rows = centred[labels == kind]
        np.linalg.slogdet(np.eye(WIDTH) + rows.T @ rows / (len(rows) * 1e-4))


def _extraction_s() -> float:
    """Seconds to extract the features of all items on one thread, extrapolated from a few."""
    import torch

    from cotenant.ranking.candidates import find_candidate
    from cotenant.ranking.pipeline.extractor import assemble
    from cotenant.workloads.models.skeleton import materialise

    module = assemble(find_candidate(MODEL), cut=None, joined=None, heads=1, width=0, classes=0)
    materialise(module, device="cpu", dtype=torch.float32, seed=0)
    pixels = torch.randn(EXTRACTED, 3, 224, 224)
    with torch.inference_mode():
        module(pixel_values=pixels)
        times = [_timed(lambda: module(pixel_values=pixels)) for _ in range(3)]
    return statistics.median(times) * ITEMS / EXTRACTED


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
