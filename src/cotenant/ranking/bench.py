"""What extraction works on: data in a fixed order of batches, chains, and cached weights."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cotenant.ranking.candidates import Candidate
from cotenant.ranking.chain import Chain, State, Weights
from cotenant.ranking.protocol import Data, Features
from cotenant.ranking.reading import Read, piece_bytes, read


class Shelf:
    """Keeps pieces of weights in memory up to a limit; evicted ones are read again with their candidate."""

    def __init__(self, read: Callable[[int], Read], limit_bytes: int) -> None:
        self._read = read
        self._pieces: OrderedDict[str, Weights] = OrderedDict()
        self._sizes: dict[int, int] = {}
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def read(self, candidate: int) -> Read:
        """Read a candidate, and keep as much of it as there is room for."""
        self._shrink(max(0, self.limit_bytes - self._sizes.get(candidate, 0)))
        weights = self._read(candidate)
        self._sizes[candidate] = weights.bytes
        for digest, piece in weights.pieces.items():
            if digest not in self._pieces:
                self._pieces[digest] = piece
                self.held_bytes += piece_bytes(piece)
        self._shrink(self.limit_bytes)
        return weights

    def take(self, digests: Sequence[str], candidate: int) -> list[Weights]:
        """Pieces of this candidate, which is read at most once for all of them."""
        if all(digest in self._pieces for digest in digests):
            for digest in digests:
                self._pieces.move_to_end(digest)
            return [self._pieces[digest] for digest in digests]
        # From what was read, not from the shelf, which may have no room for it.
        pieces = self.read(candidate).pieces
        return [pieces[digest] for digest in digests]

    def _shrink(self, limit_bytes: int) -> None:
        while self._pieces and self.held_bytes > limit_bytes:
            _, piece = self._pieces.popitem(last=False)
            self.held_bytes -= piece_bytes(piece)


class Stopwatch:
    """Sums the seconds of each stage; of nested stages, only the inner one counts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time inside for this stage."""
        outer, self._inner = self._inner, 0.0
        begin = time.perf_counter()
        try:
            yield
        finally:
            whole = time.perf_counter() - begin
            self.seconds[name] = self.seconds.get(name, 0.0) + whole - self._inner
            self._inner = outer + whole


LARGEST_BATCH = 32

Tensors = Mapping[str, torch.Tensor]
Between = Any
"""A batch between two steps: item numbers, tensors on the host, a state, or features."""


@dataclass(frozen=True, slots=True)
class SearchBench:
    """One search's data and candidates on one device."""

    data: Data
    order: npt.NDArray[np.int64]
    """The items in the order they are shown."""
    candidates: tuple[Candidate, ...]
    device: str = "cpu"
    """Torch's name for it."""
    batch: int = LARGEST_BATCH
    logits: bool = False
    """True if the scorer uses the head's output instead of its input."""
    watch: Stopwatch = field(default_factory=Stopwatch)
    _chains: dict[str, Chain] = field(default_factory=dict)

    def chain(self, candidate: int) -> Chain:
        """How a candidate is run; shared by candidates of one architecture."""
        key = self.candidates[candidate].architecture
        if key not in self._chains:
            with self.watch.stage("plan"):
                self._chains[key] = Chain(self.candidates[candidate].entry, logits=self.logits)
        return self._chains[key]

    def read(self, candidate: int) -> Read:
        """A candidate's weights, from disk or from its seed, on the device."""
        chain = self.chain(candidate)
        with self.watch.stage("load_model"):
            weights = read(self.candidates[candidate], chain)
        if self.device == "cpu":
            return weights
        with self.watch.stage("model_to_device"):
            moved = {
                digest: {name: tensor.to(self.device) for name, tensor in piece.items()}
                for digest, piece in weights.pieces.items()
            }
        return Read(weights.digests, moved)

    def batches(self, first: int, end: int) -> list[npt.NDArray[np.int64]]:
        """The items from one position in the order to another, in batches aligned to multiples of the batch size."""
        assert first % self.batch == 0
        return [self.order[at : min(at + self.batch, end)] for at in range(first, end, self.batch)]

    def load(self, items: Sequence[int] | npt.NDArray[np.int64], candidate: int) -> Tensors:
        """The inputs of a batch in a candidate's form."""
        with self.watch.stage("load_data"):
            return self.data.load([int(item) for item in items], self.candidates[candidate].shape)

    def run(self, step: int, candidate: int, weights: Sequence[Any], between: Between) -> Between:
        """One step of a candidate (0 loads the data, 1 is its first piece), from the previous step's result."""
        if step == 0:
            return self.load(between, candidate)
        chain = self.chain(candidate)
        if step == 1:
            with self.watch.stage("data_to_device"):
                between = {name: value.to(self.device) for name, value in between.items()}
        elif self.device != "cpu":
            with self.watch.stage("data_to_device"):
                between = between.to(self.device)
        with self.watch.stage("inference"), torch.inference_mode():
            if not chain.blocks:
                return chain.whole(weights[0], between)
            if step == 1:
                return chain.front(weights[0], between)
            if step <= chain.blocks + 1:
                return chain.block(step - 2, weights[0], between)
            # Parts of the front may be called again on the way to the tail, with their results ignored.
            return chain.tail({**weights[1], **weights[0]}, between)

    def to_host(self, between: Between) -> Between:
        """Move a state to where it doesn't take the device's memory."""
        if self.device == "cpu" or not isinstance(between, State):
            return between
        with self.watch.stage("to_host"):
            return between.to("cpu")

    def features(self, rows: Sequence[torch.Tensor]) -> npt.NDArray[np.float32]:
        """The features of several batches as one array on the host."""
        with self.watch.stage("to_host"):
            return torch.cat([row.to("cpu", torch.float32) for row in rows]).numpy()


def new_shelf(bench: SearchBench, limit_bytes: int) -> Shelf:
    """A shelf for the bench's candidates."""
    return Shelf(bench.read, limit_bytes)


# --- the raw input as features: the baseline a model must beat

SIDE = 32
"""Side to which images are scaled, in pixels."""
WORDS = 2048
"""Columns that tokens are counted in."""


def raw_name(bench: SearchBench) -> str:
    """Name of the baseline."""
    return f"raw pixels ({SIDE} x {SIDE})" if bench.data.kind == "image" else "bag of tokens"


def raw_features(bench: SearchBench, items: Sequence[int] | npt.NDArray[np.int64], candidate: int) -> Features:
    """Pixels of a small image, or token counts (by the vocabulary of a candidate)."""
    numbers = [int(item) for item in items]
    if bench.data.kind == "image":
        pixels: torch.Tensor = bench.data.load(numbers, {"image": SIDE})["pixel_values"]
        return np.asarray(pixels.flatten(1).float().numpy(), dtype=np.float32)
    batch = bench.data.load(numbers, bench.candidates[candidate].shape)
    counts = torch.zeros(len(numbers), WORDS)
    mask = batch["attention_mask"].float()
    counts.scatter_add_(1, batch["input_ids"] * 2654435761 % WORDS, mask)
    return np.asarray(torch.log1p(counts).numpy(), dtype=np.float32)
