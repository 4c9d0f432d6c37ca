"""Slices of models: the last blocks and what follows them, fed with a hidden state of the right shape.

Blocks are found by watching a dry run: they are the most numerous modules that pass their output directly to each
other. Residual blocks do; the layers inside them do not, since something is added in between.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import kept


@dataclass(frozen=True, slots=True)
class ModelBlocks:
    """A model's blocks in execution order, by name."""

    names: tuple[str, ...]
    front: str | None
    """The module that computes the first block's input."""
    shapes: tuple[tuple[int, ...], ...]
    """Shape of each block's input."""
    tuple_size: int
    """Size of the tuple that blocks return, beginning with the hidden state; 0 if they return the state itself."""


@dataclass(frozen=True, slots=True)
class ModelCut:
    """The modules of a model to remove, and the input that replaces them."""

    front: str
    skipped: tuple[str, ...]
    hidden_shape: tuple[int, ...]
    tuple_size: int
    kept: tuple[str, ...]
    """Blocks that stay."""

    @property
    def blocks(self) -> int:
        """Number of blocks that stay."""
        return len(self.kept)

    @property
    def first(self) -> str:
        """The first block that stays."""
        return self.kept[0]


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    kind: type[nn.Module]
    source: Any
    result: Any
    tuple_size: int


def find_blocks(model: nn.Module, inputs: Mapping[str, torch.Tensor]) -> ModelBlocks:
    """Run the model once (on `meta`) and find the modules that form a chain."""
    calls: list[_Call] = []
    handles = [
        module.register_forward_hook(_recorder(name, calls), with_kwargs=True)
        for name, module in model.named_modules()
        if name
    ]
    try:
        with torch.inference_mode():
            model(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    by_kind: dict[type[nn.Module], list[_Call]] = defaultdict(list)
    for call in calls:
        by_kind[call.kind].append(call)
    chains = [chain for chain in by_kind.values() if len(chain) > 1 and _hands_on(chain)]
    if not chains:
        raise WorkloadError("this model has no chain of blocks, so it can't be sliced", hint="leave `layers` out")
    # Of chains of equal length take the outermost: a block may contain a part that runs once in each block.
    chain = max(chains, key=lambda calls: (len(calls), -calls[0].name.count(".")))
    front = [call for call in calls if call.result is chain[0].source and call.source is not call.result]
    return ModelBlocks(
        names=tuple(call.name for call in chain),
        front=front[-1].name if front else None,
        shapes=tuple(tuple(call.source.shape) for call in chain),
        tuple_size=chain[0].tuple_size,
    )


def plan_cut(blocks: ModelBlocks, layers: str) -> ModelCut:
    """What to remove for `last 3` or `last 50%`."""
    count = kept(layers, len(blocks.names))
    if blocks.front is None:
        raise WorkloadError("the input of this model's first block can't be replaced, so it can't be sliced")
    first = len(blocks.names) - count
    return ModelCut(blocks.front, blocks.names[:first], blocks.shapes[first], blocks.tuple_size, blocks.names[first:])


class ModelTail(nn.Module):
    """The remaining blocks and what follows them; takes the hidden state before the first of them."""

    prompt: Mapping[str, torch.Tensor]
    """The full model's input: its values are ignored, but positions and masks depend on its shape."""

    def __init__(self, model: nn.Module, cut: ModelCut) -> None:
        super().__init__()
        self.given = _Given(model.get_submodule(cut.front))
        _replace(model, cut.front, self.given)
        for name in cut.skipped:
            _replace(model, name, _Passing(cut.tuple_size))
        self.model = model
        self.config = getattr(model, "config", None)

    def forward(self, hidden: torch.Tensor, **options: Any) -> Any:
        """The full model's output from here on."""
        self.given.hidden = hidden
        return self.model(**self.prompt, **options)


class Trunk(nn.Module):
    """The part before a cut: takes the full model's input, returns the hidden state at the cut."""

    def __init__(self, model: nn.Module, cut: ModelCut) -> None:
        super().__init__()
        _replace(model, cut.first, _Edge())
        for name in cut.kept[1:]:
            _replace(model, name, nn.Identity())
        self.model = model

    def forward(self, **batch: torch.Tensor) -> torch.Tensor:
        """The hidden state at the cut; what follows it is not run."""
        try:
            self.model(**batch)
        except _Reached as reached:
            return reached.hidden
        raise WorkloadError("the model never reached the block at which it was cut")


class _Reached(Exception):
    def __init__(self, hidden: torch.Tensor) -> None:
        super().__init__()
        self.hidden = hidden


class _Edge(nn.Module):
    """Placed where the trunk ends."""

    def forward(self, hidden: torch.Tensor, *_: Any, **__: Any) -> Any:
        raise _Reached(hidden)


class _Given(nn.Module):
    """Replaces the module that computed the hidden state, and returns the given state."""

    hidden: torch.Tensor

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        # Not a submodule: it is not part of the slice, but some models ask it for its dtype.
        object.__setattr__(self, "original", original)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(object.__getattribute__(self, "original"), name)

    def forward(self, *_: Any, **__: Any) -> torch.Tensor:
        return self.hidden


class _Passing(nn.Module):
    """Replaces a block and passes its input on."""

    def __init__(self, tuple_size: int) -> None:
        super().__init__()
        self.others = (None,) * (tuple_size - 1)
        self.bare = tuple_size == 0

    def forward(self, hidden: torch.Tensor, *_: Any, **__: Any) -> Any:
        return hidden if self.bare else (hidden, *self.others)


def _recorder(name: str, calls: list[_Call]) -> Any:
    def record(module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
        sources = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        results = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        if sources and results:
            calls.append(_Call(name, type(module), sources[0], results[0], len(out) if isinstance(out, tuple) else 0))

    return record


def _hands_on(chain: list[_Call]) -> bool:
    return all(later.source is earlier.result for earlier, later in pairwise(chain))


def _replace(model: nn.Module, name: str, stand_in: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    owner = model.get_submodule(parent)
    if isinstance(owner, nn.ModuleList | nn.Sequential):
        owner[int(child)] = stand_in
    else:
        setattr(owner, child, stand_in)
