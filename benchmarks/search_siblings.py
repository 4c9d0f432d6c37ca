"""Rank 35 siblings that share a trunk: exhaustively, by halving alone, and by `cotenant search`, each in its process.

The other two are what a careful script does: one complete model after the other, batch by batch, with the library's own
loading and forward call. Halving alone keeps features, so no item is extracted twice there either.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

SIBLINGS, ITEMS, BATCH = 35, 2000, 32
CHANGED = (1,)
"""Of twelve blocks, this many of the last are specific to a sibling."""
MEMORY = 300 * 10**6
DATA, SCORER = "embedded:fashion", "knn"
SMALL_VIT = {
    "hidden_size": 64,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "patch_size": 8,
    "image_size": 48,
}


def main() -> None:
    """Make the siblings, run every way, compare."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make(folder / "models")
        ways = {way: _apart(way, folder) for way in ("exhaustive", "halving", "shared", "exact")}
    print(json.dumps(_compared(ways)))


def _compared(ways: dict[str, dict[str, Any]]) -> dict[str, Any]:
    seconds = {way: found["seconds"] for way, found in ways.items()}
    return {
        "siblings": SIBLINGS,
        "items": ways["exact"]["items"],
        "seconds": seconds,
        "cpu_s": {way: found["cpu_s"] for way, found in ways.items()},
        "shared_over_exhaustive": seconds["exhaustive"] / seconds["shared"],
        "shared_over_halving": seconds["halving"] / seconds["shared"],
        "exact_over_exhaustive": seconds["exhaustive"] / seconds["exact"],
        "same_features": ways["exact"]["same_features"],
        "same_exact_ranking": ways["exact"]["scores"] == ways["exhaustive"]["scores"],
        "same_halved_ranking": ways["shared"]["scores"] == ways["halving"]["scores"],
        "stages_s": {way: ways[way]["stages_s"] for way in ("shared", "exact")},
        "steps_alone": ways["exact"]["steps_alone"],
        "steps_shared": ways["exact"]["steps_shared"],
        "predicted_s": {way: ways[way]["predicted_s"] for way in ("shared", "exact")},
        "actual_s": {way: ways[way]["actual_s"] for way in ("shared", "exact")},
        "memory_bytes": MEMORY,
        "peak_bytes": max(ways[way]["peak_bytes"] for way in ("shared", "exact")),
    }


def _make(folder: Path) -> None:
    """Siblings of one small ViT; the names reveal nothing about their order."""
    from cotenant.workloads import find
    from siblings import write_siblings

    entry = replace(find("vit-b-16-mini").entry, image=48)
    entry = replace(entry, config={**entry.config, **SMALL_VIT})
    folder.mkdir()
    number = 0
    for changed in CHANGED:
        for made in write_siblings(folder / f"by-{changed}", entry, SIBLINGS // len(CHANGED) + 2, changed=changed):
            if number < SIBLINGS and not (number and made.name == "sibling-00"):
                made.rename(folder / f"model-{number:02d}")
                number += 1
    assert number == SIBLINGS, number


def _apart(way: str, folder: Path) -> dict[str, Any]:
    """In a separate process, on one thread."""
    done = subprocess.run(
        [sys.executable, __file__, way, str(folder)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _models(folder: Path) -> list[Path]:
    return sorted((folder / "models").glob("model-*"))


class _Clock:
    """Wall and CPU time; the same on a quiet machine, since one thread works."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def taken(self) -> dict[str, float]:
        """Time since the clock was created."""
        return {"seconds": time.perf_counter() - self._wall, "cpu_s": time.process_time() - self._cpu}


class _Script:
    """A careful script."""

    def __init__(self, folder: Path) -> None:
        from cotenant.ranking.costs import even_order
        from cotenant.ranking.data import open_data
        from cotenant.ranking.scorers import find_scorer

        self.folder, self.data, self.scorer = folder, open_data(DATA), find_scorer(SCORER)
        self.order = even_order(self.data.labels, 0)

    def features(self, model: Path, first: int, last: int) -> np.ndarray:
        import torch
        from transformers import AutoModelForImageClassification

        network = AutoModelForImageClassification.from_pretrained(model, use_safetensors=True).eval()
        rows: list[torch.Tensor] = []
        network.classifier.register_forward_pre_hook(lambda _, args: rows.append(args[0]))
        with torch.inference_mode():
            for at in range(first, last, BATCH):
                items = [int(item) for item in self.order[at : min(last, at + BATCH)]]
                network(**self.data.load(items, {"image": SMALL_VIT["image_size"]}))
        return torch.cat(rows).numpy()

    def score(self, features: np.ndarray) -> float:
        labels = self.data.labels[self.order[: len(features)]]
        return float(self.scorer.tested(features, labels, classes=len(self.data.classes), seed=0).mean())


def exhaustive(folder: Path) -> dict[str, Any]:
    """Every model sees every item."""
    clock = _Clock()
    script = _Script(folder)
    scores, kept = {}, {}
    for model in _models(folder):
        kept[model.name] = script.features(model, 0, len(script.data))
        scores[model.name] = script.score(kept[model.name])
    taken = clock.taken()
    np.savez(folder / "exhaustive.npz", **kept)
    return {**taken, "scores": scores}


def halving(folder: Path) -> dict[str, Any]:
    """Successive halving, one model after the other; features of earlier rounds are kept."""
    from cotenant.ranking.costs import rounds

    clock = _Clock()
    script = _Script(folder)
    alive = _models(folder)
    kept: dict[str, np.ndarray] = {}
    scores: dict[str, float] = {}
    shown = 0
    least = max(2 * BATCH, 8 * len(script.data.classes))
    for step in rounds(len(alive), len(script.data), batch=BATCH, least=least):
        scores = {}
        for model in alive:
            new = script.features(model, shown, step.items)
            kept[model.name] = np.concatenate([kept[model.name], new]) if shown else new
            scores[model.name] = script.score(kept[model.name])
        alive = sorted(alive, key=lambda model: -scores[model.name])[: step.keep]
        alive.sort()
        shown = step.items
    return {**clock.taken(), "scores": scores}


def search(folder: Path, *, exact: bool) -> dict[str, Any]:
    """`cotenant search` until its last round ends."""
    from cotenant.api.search import search as verb
    from cotenant.ranking.folder import SearchFolder
    from cotenant.ranking.outcome import Event, RoundEnded

    taken: dict[str, float] = {}
    models = [str(model) for model in _models(folder)]
    clock = _Clock()

    def listener(event: Event) -> None:
        if isinstance(event, RoundEnded):
            taken.update(clock.taken())

    out = folder / ("exact" if exact else "shared")
    outcome = verb(DATA, models, scorer=SCORER, exact=exact, memory_bytes=MEMORY, top=3, out=out, listener=listener)
    found = {
        **taken,
        "items": outcome.items,
        "scores": outcome.rounds[-1]["scores"],
        "stages_s": dict(outcome.stages_s),
        "steps_alone": outcome.steps_alone,
        "steps_shared": outcome.steps_shared,
        "predicted_s": outcome.predicted_s,
        "actual_s": outcome.actual_s,
        "peak_bytes": outcome.peak_bytes,
    }
    if exact:
        kept = SearchFolder.open(outcome.folder)
        expected = np.load(folder / "exhaustive.npz")
        leaves = kept.known["inputs"]["candidates"]
        found["same_features"] = all(
            np.array_equal(kept.features(leaf, outcome.items), expected[name]) for name, leaf in leaves.items()
        )
    return found


def _warm() -> None:
    """Load code before anything is timed, in every way."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification
    from transformers.utils import logging

    from cotenant.ranking.chain import Chain
    from cotenant.workloads import find

    logging.disable_progress_bar()
    torch.set_num_threads(1)
    Chain(find("vit-b-32-mini").entry)
    with torch.inference_mode():
        ViTForImageClassification(ViTConfig(**SMALL_VIT)).eval()(torch.zeros(1, 3, 48, 48))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        _warm()
        place = Path(sys.argv[2])
        ways = {
            "exhaustive": exhaustive,
            "halving": halving,
            "shared": lambda folder: search(folder, exact=False),
            "exact": lambda folder: search(folder, exact=True),
        }
        result = ways[sys.argv[1]](place)
        print(f"{sys.argv[1]}: {result['seconds']:.1f} s, {result['cpu_s']:.1f} s of CPU", file=sys.stderr)
        print(json.dumps(result))
