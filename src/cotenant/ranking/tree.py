"""The tree of shared blocks: computes what models have in common once. Pure: numbers in, an order out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace


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
class Node:
    """Steps in sequence without a branch, and the branches after them."""

    steps: tuple[TreeStep, ...] = ()
    children: tuple["Node", ...] = ()
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

    def walk(self) -> Iterator["Node"]:
        """Every node, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


def grow(paths: Sequence[Path]) -> Node:
    """The tree of these paths, in the order that needs the least cache."""
    return _grown(tuple(paths), 0)


def steps_without_sharing(paths: Sequence[Path]) -> int:
    """Steps per item if every model runs alone."""
    return sum(len(path.steps) for path in paths)


def steps_with_sharing(root: Node) -> int:
    """Steps per item in the tree."""
    return sum(len(node.steps) for node in root.walk())


def _grown(paths: tuple[Path, ...], depth: int) -> Node:
    start, through = depth, tuple(path.candidate for path in paths)
    first = paths[0].steps
    while True:
        ended = [path for path in paths if len(path.steps) == depth]
        if ended:
            # Every path ends in its tail, whose digest no inner step can have: so all of them end here.
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
    """The same tree with every node's children reversed: the order that needs the most cache."""
    return replace(root, children=tuple(reversed_order(child) for child in reversed(root.children)))
