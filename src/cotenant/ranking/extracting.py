"""Extraction along the tree: depth first, each shared piece once, keeping in memory only what is still needed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.ranking.bench import Between, SearchBench, Shelf
from cotenant.ranking.chain import State, Weights
from cotenant.ranking.protocol import Features
from cotenant.ranking.tree import Node


def _ignore(_: Node, __: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """Takes batches through trees of candidates."""

    bench: SearchBench
    shelf: Shelf
    done: Callable[[Node, Features], None]
    """Called with each leaf and its features as soon as they are computed."""
    passed: Callable[[Node, int], None] = _ignore
    """Called with each node and the number of items that have just passed it."""

    def run(self, root: Node, batches: Sequence[npt.NDArray[np.int64]]) -> None:
        """Compute the features of every leaf for these batches of item numbers."""
        self._descend(root, 0, list(batches))

    def _descend(self, node: Node, depth: int, waiting: list[Between]) -> None:
        """Run a node on its pending input (which is consumed), then its children."""
        candidate = node.through[0]
        weights = self._weights(node, depth)
        out: list[Between] = []
        for place in range(len(waiting)):
            between, waiting[place] = waiting[place], None
            items = _items(between)
            for offset in range(len(node.steps)):
                between = self.bench.run(depth + offset, candidate, weights[offset], between)
            out.append(self.bench.to_host(between) if node.children else between)
            del between
            self.passed(node, items)
        del weights
        if not node.children:
            self.done(node, self.bench.features(out))
            return
        for number, child in enumerate(node.children):
            last = number == len(node.children) - 1
            self._descend(child, depth + len(node.steps), out if last else list(out))

    def _weights(self, node: Node, depth: int) -> list[list[Weights]]:
        """The weights for each of a node's steps; the very last step also gets those of the front."""
        wanted = [step.digest for number, step in enumerate(node.steps, depth) if number > 0]
        if not wanted:
            return [[] for _ in node.steps]
        front = [] if node.front is None or node.children else [node.front]
        found = self.shelf.take([*front, *wanted], node.through[0])
        own = [[piece] for piece in found[len(front) :]]
        own[-1] += found[: len(front)]
        return [[], *own] if depth == 0 else own


def _items(between: Between) -> int:
    """Number of items in a value between two steps."""
    if isinstance(between, np.ndarray):
        return len(between)
    if isinstance(between, State):
        return len(between.hidden)
    return len(next(iter(between.values())))
