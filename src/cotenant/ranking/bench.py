"""What extraction works on: data in a fixed order of batches, chains, and cached weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cotenant.ranking.candidates import Candidate
from cotenant.ranking.chain import Chain, State
from cotenant.ranking.protocol import Data
from cotenant.ranking.reading import Read, read
from cotenant.ranking.shelf import Shelf
from cotenant.ranking.stopwatch import Stopwatch

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
            found = read(self.candidates[candidate], chain)
        if self.device == "cpu":
            return found
        with self.watch.stage("model_to_device"):
            moved = {
                digest: {name: tensor.to(self.device) for name, tensor in piece.items()}
                for digest, piece in found.pieces.items()
            }
        return Read(found.digests, moved)

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
