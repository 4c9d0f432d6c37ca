"""The cost of each step of each candidate, measured on one batch, and the duration of a plan."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import numpy.typing as npt
import torch

from cotenant.ranking.bench import Between, SearchBench, Stopwatch
from cotenant.ranking.chain import State
from cotenant.ranking.protocol import Labels
from cotenant.ranking.reading import Read
from cotenant.ranking.tree import Path, TreeStep, grow

# --- successive halving: each round doubles the data and keeps the better half of the models


@dataclass(frozen=True, slots=True)
class Round:
    """One round: the number of items each model has seen at its end, and the number of models kept."""

    items: int
    models: int
    keep: int


def rounds(models: int, items: int, *, batch: int, least: int) -> tuple[Round, ...]:
    """Plan ceil(log2 models) rounds; the last one sees all items.

    Args:
        models: Number of ranked models.
        items: Number of items.
        batch: Rounds end between batches, so that batches are the same in every mode.
        least: Fewer items give no useful score.
    """
    count = max(1, math.ceil(math.log2(models))) if models > 1 else 1
    plan, left = [], models
    for number in range(count):
        share = math.ceil(items / 2 ** (count - 1 - number) / batch) * batch
        shown = min(items, max(share, math.ceil(min(least, items) / batch) * batch))
        keep = math.ceil(left / 2) if number < count - 1 else left
        plan.append(Round(shown, left, keep))
        left = keep
    return tuple(plan)


def all_at_once(models: int, items: int) -> tuple[Round, ...]:
    """One round with everything: an exhaustive search."""
    return (Round(items, models, models),)


def even_order(labels: Labels, seed: int) -> npt.NDArray[np.int64]:
    """The items in a random order in which every prefix has its share of each class."""
    rng = np.random.default_rng(seed)
    order = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        order[rng.permutation(members)] = (np.arange(len(members)) + rng.random()) / len(members)
    return np.argsort(order, kind="stable").astype(np.int64)


TIMED = 2
"""Timed runs of the probe, after a warm-up run."""
DRAWS = 8
"""Which models survive is unknown in advance: the prediction is a mean over this many random outcomes."""


@dataclass(frozen=True, slots=True)
class Probed:
    """The cost per item of a candidate's steps, independent of the weights."""

    seconds: tuple[float, ...]
    out_bytes: tuple[int, ...]
    held_bytes: tuple[int, ...]
    width: int
    """Numbers per row of features."""


def probe(bench: SearchBench, candidate: int, read: Read) -> Probed:
    """Run one batch through a candidate, step by step."""
    bench = replace(bench, watch=Stopwatch())
    items = bench.order[: bench.batch]
    count = len(read.digests) + 1
    best = [float("inf")] * count
    sizes, held, width = [0] * count, [0] * count, 0
    for _ in range(1 + TIMED):
        between: Between = items
        before = 0
        for step in range(count):
            weights = [] if step == 0 else [read.pieces[read.digests[step - 1]], read.pieces[read.digests[0]]]
            begin = _now(bench.device)
            between = bench.run(step, candidate, weights, between)
            best[step] = min(best[step], _now(bench.device) - begin)
            sizes[step] = _bytes(between) // len(items)
            beside = between.held_bytes // len(items) if isinstance(between, State) else 0
            held[step], before = max(0, beside - before), beside
        width = int(between.shape[1])
    return Probed(tuple(second / len(items) for second in best), tuple(sizes), tuple(held), width)


def path_of(candidate: int, shape_key: str, digests: Sequence[str], labels: Sequence[str], probed: Probed) -> Path:
    """A candidate's steps from an item to its features, with their costs."""
    names = [("data", f"data {shape_key}"), *zip(labels, digests, strict=True)]
    return Path(
        candidate,
        tuple(
            TreeStep(digest, label, probed.out_bytes[number], probed.held_bytes[number], probed.seconds[number])
            for number, (label, digest) in enumerate(names)
        ),
    )


@dataclass(frozen=True, slots=True)
class SearchDuration:
    """Duration of a search, in seconds."""

    extract_s: float
    read_again_s: float
    score_s: float

    @property
    def seconds(self) -> float:
        """The sum."""
        return self.extract_s + self.read_again_s + self.score_s


def predict(
    paths: Mapping[int, Path],
    plan: Sequence[Round],
    *,
    read_s: float,
    parts: Callable[[Sequence[Path], int], int],
    score_s: Callable[[int], float],
    seed: int = 0,
) -> SearchDuration:
    """The duration of a plan.

    Args:
        paths: Those of all ranked candidates.
        plan: The rounds.
        read_s: Time to read one candidate again; 0 if all weights stay in memory.
        parts: Number of parts that many items are split into for these paths.
        score_s: Time to score one candidate on that many items.
        seed: Seed of the random outcomes.
    """
    rng = np.random.default_rng(seed)
    draws = DRAWS if len(plan) > 1 else 1
    extract, again, score = [], [], []
    for _ in range(draws):
        alive, shown = list(paths), 0
        extract_s, again_s, scored_s = 0.0, 0.0, 0.0
        for step in plan:
            some = [paths[candidate] for candidate in alive]
            extract_s += grow(some).seconds * (step.items - shown)
            again_s += read_s * len(alive) * parts(some, step.items - shown)
            scored_s += score_s(step.items) * len(alive)
            shown = step.items
            alive = sorted(rng.choice(alive, size=step.keep, replace=False).tolist())
        extract.append(extract_s)
        again.append(again_s)
        score.append(scored_s)
    return SearchDuration(fmean(extract), fmean(again), fmean(score))


def _bytes(between: Between) -> int:
    if isinstance(between, State):
        return between.hidden.nbytes
    if isinstance(between, torch.Tensor):
        return between.nbytes
    return sum(tensor.nbytes for tensor in between.values())


def _now(device: str) -> float:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()
