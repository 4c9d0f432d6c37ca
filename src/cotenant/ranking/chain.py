"""A model as a chain: front -> block 1 ... block n -> tail -> features, run piece by piece.

The pieces are found by watching a dry run, and each is run by the model's own code with the others
disabled, so a chain's output is bit for bit the full model's. A chain holds no weights; they come with each call.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.utils._pytree import tree_leaves

from cotenant.errors import WorkloadError
from cotenant.ranking.survey import ModuleSurvey, hidden_of, mode_for, survey
from cotenant.workloads.models import ModelEntry, build_skeleton

Weights = Mapping[str, torch.Tensor]
Inputs = Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class State:
    """A batch between two pieces."""

    hidden: torch.Tensor
    extras: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), {})
    """What every block takes besides the hidden state: masks, positions. Made once by the front."""
    prompt: Inputs | None = None
    """The model's input, as far as the tail uses it."""

    @property
    def held_bytes(self) -> int:
        """Bytes besides the hidden state, shared by all states of the batch."""
        leaves = [*tree_leaves(self.extras), *(self.prompt or {}).values()]
        storages = {leaf.untyped_storage().data_ptr(): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}
        return sum(leaf.untyped_storage().nbytes() for leaf in storages.values())

    def to(self, device: str) -> "State":
        """The same state elsewhere; the extras stay in place."""
        return self if self.hidden.device.type == device else replace(self, hidden=self.hidden.to(device))


class Chain:
    """How one architecture is run in pieces. Piece 0 is the front, the last one the tail, blocks between."""

    def __init__(self, entry: ModelEntry, *, logits: bool = False) -> None:
        """With ``logits``, the head's output replaces the features."""
        self.entry = entry
        self.logits = logits
        self.mode = mode_for(entry, logits=logits)
        self._model = build_skeleton(entry, self.mode)
        self._ties = len([*self._model.parameters()]) < len([*self._model.named_parameters(remove_duplicate=False)])
        self.survey: ModuleSurvey = survey(entry, self.mode, logits=logits)
        self.pieces = self.survey.pieces

    @property
    def blocks(self) -> int:
        """Number of blocks between front and tail; 0 if the model runs as one piece."""
        return len(self.survey.blocks)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """What a weights file must contain: every parameter and persistent buffer of the pieces."""
        names = {piece.prefix + name for piece in self.pieces for name in piece.names}
        lasting = self._model.state_dict()
        return {name: tuple(lasting[name].shape) for name in names if name in lasting}

    def constants(self) -> dict[str, torch.Tensor]:
        """Computed buffers, which no file contains."""
        lasting = self._model.state_dict()
        return {name: buffer for name, buffer in self._model.named_buffers() if name not in lasting}

    def front(self, weights: Weights, inputs: Inputs) -> State:
        """From a batch to the first block's input."""
        if not self.blocks:
            raise WorkloadError(f"{self.entry.name} runs as one piece: it has no chain of blocks")
        reached = _Reached()
        with self._instead({self.survey.blocks[0]: reached.stop}):
            reached.run(lambda: self._call(weights, inputs))
        args, kwargs = reached.args, reached.kwargs
        hidden = hidden_of(args, kwargs)
        if args and args[0] is hidden:
            extras = (tuple(args[1:]), kwargs)
        else:
            extras = ((), {name: value for name, value in kwargs.items() if value is not hidden})
        return State(hidden, extras, _prompt(inputs))

    def block(self, number: int, weights: Weights, state: State) -> State:
        """Run one block, counted from 0."""
        block = self._model.get_submodule(self.survey.blocks[number])
        args, kwargs = state.extras
        if self.survey.hidden_name is None:
            out = self._run(block, weights, (state.hidden, *args), kwargs)
        else:
            out = self._run(block, weights, (), {self.survey.hidden_name: state.hidden, **kwargs})
        return replace(state, hidden=out[0] if isinstance(out, tuple) else out)

    def tail(self, weights: Weights, state: State) -> torch.Tensor:
        """From the last block's output to one row of features per item."""
        assert state.prompt is not None
        assert self.survey.front is not None

        def passed(hidden: torch.Tensor | None = None, *_: Any, **others: Any) -> Any:
            hidden = others[str(self.survey.hidden_name)] if hidden is None else hidden
            size = self.survey.tuple_size
            return (hidden, *(None,) * (size - 1)) if size else hidden

        instead: dict[str, Callable[..., Any]] = dict.fromkeys(self.survey.blocks, passed)
        instead[self.survey.front] = lambda *_, **__: state.hidden
        with self._instead(instead):
            return self._features(weights, state.prompt)

    def whole(self, weights: Weights, inputs: Inputs) -> torch.Tensor:
        """The features of a model that runs as one piece."""
        return self._features(weights, inputs)

    def _features(self, weights: Weights, inputs: Inputs) -> torch.Tensor:
        mask = inputs.get("attention_mask")
        if self.logits:
            return pooled(self._call(weights, inputs).logits, mask)
        if self.survey.head is None:
            return pooled(self._call(weights, inputs).last_hidden_state, mask)
        reached = _Reached()
        with self._instead({self.survey.head: reached.stop}):
            reached.run(lambda: self._call(weights, inputs))
        return pooled(hidden_of(reached.args, reached.kwargs), mask)

    def _call(self, weights: Weights, inputs: Inputs) -> Any:
        return self._run(self._model, weights, (), {**inputs, **self.survey.options})

    def _run(self, module: nn.Module, weights: Weights, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The module with these weights in place of its own."""
        # Searching for tied parameters in every call takes longer than a small block.
        return functional_call(module, dict(weights), args, dict(kwargs), tie_weights=self._ties)

    @contextmanager
    def _instead(self, forwards: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
        """Replace the forward functions of modules."""
        with ExitStack() as restored:
            for name, forward in forwards.items():
                module = self._model.get_submodule(name)
                module.forward = forward
                restored.callback(delattr, module, "forward")
            yield


def pooled(hidden: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """One row per item: tokens averaged if any (without padding), image positions likewise."""
    if hidden.dim() == 2:
        return hidden
    if hidden.dim() == 3:
        if mask is None:
            return hidden.mean(dim=1)
        share = mask.to(hidden.dtype).unsqueeze(-1)
        return (hidden * share).sum(dim=1) / share.sum(dim=1).clamp(min=1)
    return hidden.flatten(2).mean(dim=2)


class _Reached:
    """Stops a model before a module runs, and keeps the module's input."""

    def __init__(self) -> None:
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}

    def stop(self, *args: Any, **kwargs: Any) -> Any:
        self.args, self.kwargs = args, kwargs
        raise _Stopped

    @staticmethod
    def run(call: Callable[[], Any]) -> None:
        try:
            call()
        except _Stopped:
            return
        raise WorkloadError("the model ran differently than in its dry run, so it can't be run in pieces")


class _Stopped(BaseException):  # not an Exception, so that no code on the way out handles it
    pass


def _prompt(inputs: Inputs) -> Inputs:
    """Pixels are not used after the front: a view of a single zero has their shape."""
    return {
        name: torch.zeros((), dtype=value.dtype, device=value.device).expand(value.shape)
        if value.is_floating_point()
        else value
        for name, value in inputs.items()
    }
