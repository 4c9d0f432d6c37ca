"""The tree of shared blocks: computes what models have in common once. Pure: numbers in, an order out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cotenant.ranking.bench import Between, SearchBench, Shelf
from cotenant.ranking.chain import State, Weights
from cotenant.ranking.protocol import Features


@dataclass(frozen=True, slots=True)
class TreeStep:
    """One piece of one model on its way from an item to its features."""

    digest: str
    """Names what is computed: architecture, position and weights (or, for the first step, the form of the data)."""
    label: str
    out_bytes: int
    """Bytes of its result, per item."""
    held_bytes: int = 0
    """Bytes kept besides that while anything after it is computed, per item: masks, positions."""
    seconds: float = 0.0
    """Its time, per item."""


@dataclass(frozen=True, slots=True)
class Path:
    """A candidate and its steps."""

    candidate: int
    steps: tuple[TreeStep, ...]

    @property
    def leaf(self) -> str:
        """The identity of its features: equal for two candidates that are the same model."""
        from hashlib import blake2b

        return blake2b("/".join(step.digest for step in self.steps).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class TreeNode:
    """Steps in sequence without a branch, and the branches after them."""

    steps: tuple[TreeStep, ...] = ()
    children: tuple["TreeNode", ...] = ()
    candidates: tuple[int, ...] = ()
    """Candidates whose features it ends in; several if they are the same model. Empty where it branches."""
    through: tuple[int, ...] = ()
    """Every candidate that needs it."""
    front: str | None = None
    """The digest of the first piece of the models that end here, if they have several."""

    @property
    def out_bytes(self) -> int:
        """Bytes of it kept while its children run, per item."""
        return self.steps[-1].out_bytes if self.steps and self.children else 0

    @property
    def need_bytes(self) -> int:
        """The smallest cache for its subtree, per item, with its children in their present order.

        While a child other than the last runs, its input is kept for the others; the last one releases it
        batch by batch.
        """
        if not self.children:
            return 0
        held = sum(step.held_bytes for step in self.steps)
        *others, last = self.children
        beside = max((self.out_bytes + child.need_bytes for child in others), default=0)
        return held + max(beside, self.out_bytes, last.need_bytes)

    @property
    def seconds(self) -> float:
        """Time of an item through the entire subtree."""
        return sum(step.seconds for step in self.steps) + sum(child.seconds for child in self.children)

    def walk(self) -> Iterator["TreeNode"]:
        """Every node, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


def grow(paths: Sequence[Path]) -> TreeNode:
    """The tree of these paths, in the order that needs the least cache."""
    return _grown(tuple(paths), 0)


def steps_without_sharing(paths: Sequence[Path]) -> int:
    """Steps per item if every model runs alone."""
    return sum(len(path.steps) for path in paths)


def steps_with_sharing(root: TreeNode) -> int:
    """Steps per item in the tree."""
    return sum(len(node.steps) for node in root.walk())


def _grown(paths: tuple[Path, ...], depth: int) -> TreeNode:
    start, through = depth, tuple(path.candidate for path in paths)
    first = paths[0].steps
    while True:
        ended = [path for path in paths if len(path.steps) == depth]
        if ended:
            # Every path ends in its tail, whose digest no inner step can have: so all of them end here.
            return TreeNode(first[start:depth], (), through, through, first[1].digest if len(first) > 2 else None)
        branches = _branches(paths, depth)
        if len(branches) > 1:
            children = sorted((_grown(branch, depth) for branch in branches), key=lambda node: node.need_bytes)
            return TreeNode(first[start:depth], tuple(children), (), through)
        depth += 1


def _branches(paths: tuple[Path, ...], depth: int) -> list[tuple[Path, ...]]:
    by_digest: dict[str, list[Path]] = {}
    for path in paths:
        by_digest.setdefault(path.steps[depth].digest, []).append(path)
    return [tuple(branch) for branch in by_digest.values()]


def reversed_order(root: TreeNode) -> TreeNode:
    """The same tree with every node's children reversed: the order that needs the most cache."""
    return replace(root, children=tuple(reversed_order(child) for child in reversed(root.children)))


# --- extraction along the tree: depth first, each shared piece once, keeping in memory only what is still needed


def _ignore(_: TreeNode, __: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """Takes batches through trees of candidates."""

    bench: SearchBench
    shelf: Shelf
    done: Callable[[TreeNode, Features], None]
    """Called with each leaf and its features as soon as they are computed."""
    passed: Callable[[TreeNode, int], None] = _ignore
    """Called with each node and the number of items that have just passed it."""

    def run(self, root: TreeNode, batches: Sequence[npt.NDArray[np.int64]]) -> None:
        """Compute the features of every leaf for these batches of item numbers."""
        self._descend(root, 0, list(batches))

    def _descend(self, node: TreeNode, depth: int, waiting: list[Between]) -> None:
        """Run a node on its pending input (which is consumed), then its children."""
        candidate = node.through[0]
        weights = self._weights(node, depth)
        out: list[Between] = []
        for number in range(len(waiting)):
            between, waiting[number] = waiting[number], None
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

    def _weights(self, node: TreeNode, depth: int) -> list[list[Weights]]:
        """The weights for each of a node's steps; the very last step also gets those of the front."""
        digests = [step.digest for number, step in enumerate(node.steps, depth) if number > 0]
        if not digests:
            return [[] for _ in node.steps]
        front = [] if node.front is None or node.children else [node.front]
        pieces = self.shelf.take([*front, *digests], node.through[0])
        own = [[piece] for piece in pieces[len(front) :]]
        own[-1] += pieces[: len(front)]
        return [[], *own] if depth == 0 else own


def _items(between: Between) -> int:
    """Number of items in a value between two steps."""
    if isinstance(between, np.ndarray):
        return len(between)
    if isinstance(between, State):
        return len(between.hidden)
    return len(next(iter(between.values())))
