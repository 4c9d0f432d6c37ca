"""A candidate as a module that gives features: all of it, its last blocks, or one trunk with many heads."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from cotenant.errors import WorkloadError
from cotenant.ranking.candidates import feature_mode
from cotenant.workloads.models import ModelEntry, Watch, build_skeleton, make_inputs, materialise
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.slices import ModelBlocks, ModelCut, ModelTail, Trunk, find_blocks, plan_cut


class Extractor(nn.Module):
    """Gives features, one row per item: an image model's input to its head, a text model's mean over tokens."""

    def __init__(self, model: nn.Module, *, texts: bool) -> None:
        super().__init__()
        self.model, self.texts = model, texts

    def forward(self, **batch: torch.Tensor) -> torch.Tensor:
        """Features of a batch."""
        return pooled(self.model(**batch), batch.get("attention_mask") if self.texts else None, texts=self.texts)


class JoinedHeads(nn.Module):
    """One trunk, computed once, and many heads: the last blocks with their own weights, or a layer each."""

    def __init__(self, trunk: nn.Module, heads: Sequence[nn.Module], *, texts: bool) -> None:
        super().__init__()
        self.trunk, self.heads, self.texts = trunk, nn.ModuleList(heads), texts

    def forward(self, **batch: torch.Tensor) -> torch.Tensor:
        """Features of a batch: items x heads x width."""
        shared = self.trunk(**batch)
        mask = batch.get("attention_mask") if self.texts else None
        return torch.stack([self._one(head, shared, batch, mask) for head in self.heads], dim=1)

    def _one(
        self, head: nn.Module, shared: torch.Tensor, batch: Mapping[str, torch.Tensor], mask: torch.Tensor | None
    ) -> torch.Tensor:
        if not isinstance(head, ModelTail):
            layer: torch.Tensor = head(shared)
            return layer
        head.prompt = batch
        return pooled(head(shared), mask, texts=self.texts)


def pooled(out: Any, mask: torch.Tensor | None, *, texts: bool) -> torch.Tensor:
    """One row per item from a model's output."""
    if not texts:
        return torch.flatten(out.logits, 1)
    states: torch.Tensor = out.last_hidden_state
    if mask is None:
        return states.mean(dim=1)
    weights = mask.to(states.dtype).unsqueeze(-1)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def headless(entry: ModelEntry) -> nn.Module:
    """The model without weights and, if it classifies images, without its last layer."""
    model = build_skeleton(entry, feature_mode(entry))
    if entry.family == "vision":
        remove_head(model)
    return model


def remove_head(model: nn.Module) -> None:
    """Replace the last fully connected layer with an identity."""
    name = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)][-1]
    parent, _, child = name.rpartition(".")
    owner = model.get_submodule(parent)
    if isinstance(owner, nn.Sequential | nn.ModuleList):
        owner[int(child)] = nn.Identity()
    else:
        setattr(owner, child, nn.Identity())


@lru_cache(maxsize=64)
def survey(entry: ModelEntry, batch: int, seq: int | None) -> ModelBlocks:
    """The model's blocks, from a dry run; one serves all slices."""
    spec = WorkloadSpec(name=entry.name, batch=batch, seq=seq)
    model = materialise(headless(entry), device="meta", dtype=torch.float32, seed=0)
    inputs = make_inputs(entry, spec, dtype=torch.float32, device="meta")
    with Watch():
        return find_blocks(model, inputs.ring[0])


def assemble(
    entry: ModelEntry, *, cut: ModelCut | None, joined: ModelCut | str | None, heads: int, width: int, classes: int
) -> nn.Module:
    """The module without weights.

    Args:
        entry: The candidate.
        cut: Keep only what follows it; None for the full model.
        joined: Where heads start: a cut, or `options.HEAD`; None for no heads.
        heads: Number of heads.
        width: Width of the features, for heads of one layer.
        classes: Number of classes of such a layer.
    """
    texts = entry.family == "encoder"
    if cut is not None:
        return Extractor(ModelTail(headless(entry), cut), texts=texts)
    if joined is None:
        return Extractor(headless(entry), texts=texts)
    if isinstance(joined, str):
        with torch.device("meta"):
            layers = [nn.Linear(width, classes) for _ in range(heads)]
        return JoinedHeads(Extractor(headless(entry), texts=texts), layers, texts=texts).eval()
    tail = ModelTail(headless(entry), joined)
    # Copying what is left of a model takes less time than building all of it again.
    tails = [tail, *(deepcopy(tail) for _ in range(1, heads))]
    return JoinedHeads(Trunk(headless(entry), joined), tails, texts=texts).eval()


def cut_of(entry: ModelEntry, blocks: ModelBlocks, layers: str) -> ModelCut:
    """Where to cut for `last 3` or `last 50%`; a slice of all blocks would leave nothing out."""
    cut = plan_cut(blocks, layers)
    if not cut.skipped:
        raise WorkloadError(f"{entry.name} has {len(blocks.names)} blocks, so {layers!r} leaves nothing out")
    return cut


Batch = Mapping[str, Any]
Load = Callable[[int], Batch]
AHEAD = 2
"""Batches each thread may be ahead."""


@dataclass(slots=True)
class LoaderTimes:
    """Totals since the start: time spent loading, and time spent waiting for it."""

    busy_ns: int = 0
    waited_ns: int = 0

    def overlap(self) -> float | None:
        """Share of loading that overlapped with other work; None if nothing was loaded ahead."""
        return max(0.0, 1 - self.waited_ns / self.busy_ns) if self.busy_ns else None


class BatchesAhead:
    """Loads the batches of one request in order, several at a time and some ahead."""

    def __init__(self, load: Load, batches: int, workers: int, times: LoaderTimes) -> None:
        self._load, self._left, self._times = load, iter(range(batches)), times
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="loader")
        self._coming: deque[Future[tuple[Batch, int]]] = deque()
        for _ in range(min(batches, AHEAD * workers)):
            self._order()

    def next(self) -> Batch:
        """The next batch, as soon as it is loaded."""
        begin = time.perf_counter_ns()
        batch, busy_ns = self._coming.popleft().result()
        self._times.waited_ns += time.perf_counter_ns() - begin
        self._times.busy_ns += busy_ns
        self._order()
        return batch

    def close(self) -> None:
        """End the threads and discard what they still load."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _order(self) -> None:
        number = next(self._left, None)
        if number is not None:
            self._coming.append(self._pool.submit(self._timed, number))

    def _timed(self, number: int) -> tuple[Batch, int]:
        begin = time.perf_counter_ns()
        batch = self._load(number)
        return batch, time.perf_counter_ns() - begin


class Inline:
    """Loads each batch on demand."""

    def __init__(self, load: Load, batches: int) -> None:
        self._load, self._left = load, iter(range(batches))

    def next(self) -> Batch:
        """The next batch."""
        return self._load(next(self._left))

    def close(self) -> None:
        """A no-op."""
