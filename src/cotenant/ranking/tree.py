"""The tree of shared blocks: what several models have in common is computed once. Pure: numbers in, an order out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class TreeStep:
    """One piece of one model on its way from an item to its features."""

    digest: str
    """Names what is computed: architecture, position and weights (or, for the first step, the form of the data)."""
    label: str
    out_bytes: int
    """What it gives, per item."""
    held_bytes: int = 0
    """What stays beside that as long as anything behind it is to be computed, per item: masks, positions."""
    seconds: float = 0.0
    """What it takes, per item."""


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
class Node:
    """Steps that follow each other without a branch, and what branches off behind them."""

    steps: tuple[TreeStep, ...] = ()
    children: tuple["Node", ...] = ()
    candidates: tuple[int, ...] = ()
    """Whose features it ends in; several if they are the same model. Empty where it branches."""
    through: tuple[int, ...] = ()
    """Every candidate that needs it."""
    front: str | None = None
    """The digest of the first piece of the models that end here, if they have several."""

    @property
    def out_bytes(self) -> int:
        """What is kept of it while its children run, per item."""
        return self.steps[-1].out_bytes if self.steps and self.children else 0

    @property
    def need_bytes(self) -> int:
        """The least cache that its subtree can be computed with, per item, its children in their present order.

        While a child that is not the last runs, what comes into it is kept for the others; the last one gives it
        back batch by batch.
        """
        if not self.children:
            return 0
        held = sum(step.held_bytes for step in self.steps)
        *others, last = self.children
        beside = max((self.out_bytes + child.need_bytes for child in others), default=0)
        return held + max(beside, self.out_bytes, last.need_bytes)

    @property
    def seconds(self) -> float:
        """What an item takes through the whole subtree."""
        return sum(step.seconds for step in self.steps) + sum(child.seconds for child in self.children)

    def walk(self) -> Iterator["Node"]:
        """Every node, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


def grow(paths: Sequence[Path]) -> Node:
    """The tree of these paths, in the order that needs the least cache."""
    return _grown(tuple(paths), 0)


def steps_without_sharing(paths: Sequence[Path]) -> int:
    """How many steps an item takes if every model runs alone."""
    return sum(len(path.steps) for path in paths)


def steps_with_sharing(root: Node) -> int:
    """How many steps an item takes in the tree."""
    return sum(len(node.steps) for node in root.walk())


def _grown(paths: tuple[Path, ...], depth: int) -> Node:
    start, through = depth, tuple(path.candidate for path in paths)
    first = paths[0].steps
    while True:
        ended = [path for path in paths if len(path.steps) == depth]
        if ended:
            # Every path ends in its tail, whose digest no step in the middle can have: then all of them end here.
            return Node(first[start:depth], (), through, through, first[1].digest if len(first) > 2 else None)
        branches = _branches(paths, depth)
        if len(branches) > 1:
            children = sorted((_grown(branch, depth) for branch in branches), key=lambda node: node.need_bytes)
            return Node(first[start:depth], tuple(children), (), through)
        depth += 1


def _branches(paths: tuple[Path, ...], depth: int) -> list[tuple[Path, ...]]:
    by_digest: dict[str, list[Path]] = {}
    for path in paths:
        by_digest.setdefault(path.steps[depth].digest, []).append(path)
    return [tuple(branch) for branch in by_digest.values()]


def reversed_order(root: Node) -> Node:
    """The same tree with every node's children the other way round: the order that needs the most cache."""
    return replace(root, children=tuple(reversed_order(child) for child in reversed(root.children)))
