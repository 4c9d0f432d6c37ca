"""A model's structure from a dry run: its blocks, its head, and the parameters of each piece."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from cotenant.errors import WorkloadError
from cotenant.workloads.models import ModelEntry, Watch, build_skeleton, make_inputs, materialise
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.slices import ModelBlocks, find_blocks


@dataclass(frozen=True, slots=True)
class ModulePiece:
    """A part of a model and the names of its parameters and buffers, relative to ``prefix``."""

    label: str
    prefix: str
    names: tuple[str, ...]

    def take(self, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """This piece's weights, out of the full model's."""
        return {name: weights[self.prefix + name] for name in self.names}


@dataclass(frozen=True, slots=True)
class ModuleSurvey:
    """How a model runs."""

    pieces: tuple[ModulePiece, ...]
    """Front, blocks, tail; or the full model alone."""
    blocks: tuple[str, ...] = ()
    front: str | None = None
    head: str | None = None
    """The last linear layer, which computes scores of classes or tokens: features are its input."""
    tuple_size: int = 0
    hidden_name: str | None = None
    """The argument that takes the hidden state; None for the first one."""
    options: Mapping[str, Any] = field(default_factory=dict)


def mode_for(entry: ModelEntry, *, logits: bool) -> str:
    """The mode in which a model gives features, or the logits of its head."""
    if not logits:
        return entry.modes[0]
    if "classify" not in entry.modes:
        raise WorkloadError(f"{entry.name} has no classification head, which this scorer uses", hint="--scorer linear")
    return "classify"


def survey(entry: ModelEntry, mode: str, *, logits: bool = False) -> ModuleSurvey:
    """Watch a dry run on `meta`."""
    model = materialise(build_skeleton(entry, mode), device="meta", dtype=torch.float32, seed=0)
    inputs: dict[str, Any] = {**_inputs(entry)}
    options: dict[str, Any] = {"use_cache": False} if entry.family == "decoder" else {}
    with Watch():
        run = _watched(model, {**inputs, **options})
        try:
            blocks = find_blocks(model, {**inputs, **options})
        except WorkloadError:
            blocks = None
    head = None if logits else run.head(model)
    all_names = [name for name, _ in (*model.named_parameters(), *model.named_buffers())]
    names = [name for name in all_names if head is None or not name.startswith(f"{head}.")]
    if blocks is None or blocks.front is None or not run.same_extras(blocks):
        return ModuleSurvey((ModulePiece("whole", "", tuple(names)),), head=head, options=options)
    return ModuleSurvey(
        pieces=_pieces(names, blocks, run),
        blocks=blocks.names,
        front=blocks.front,
        head=head,
        tuple_size=blocks.tuple_size,
        hidden_name=run.hidden_name(blocks.names[0]),
        options=options,
    )


def hidden_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor:
    """The first tensor among a call's arguments."""
    return next(leaf for leaf in tree_leaves((args, dict(kwargs))) if isinstance(leaf, torch.Tensor))


def _inputs(entry: ModelEntry) -> dict[str, torch.Tensor]:
    inputs = dict(
        make_inputs(entry, WorkloadSpec(name=entry.name, batch=2), dtype=torch.float32, device="meta").ring[0]
    )
    if entry.family == "encoder":  # a decoder inspects its mask's values, which a dry run lacks
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    return inputs


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    begin: int
    end: int
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any


class _Run:
    """The calls of one run, with their start and end."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self.out: Any = None

    def of(self, name: str) -> list[_Call]:
        return [call for call in self.calls if call.name == name]

    def head(self, model: nn.Module) -> str | None:
        logits = getattr(self.out, "logits", None)
        makers = [call.name for call in self.calls if logits is not None and call.result is logits]
        linear = [name for name in makers if isinstance(model.get_submodule(name), nn.Linear)]
        if logits is not None and not linear:
            raise WorkloadError("this model does not end in a linear layer, so its features can't be located")
        return linear[0] if linear else None

    def same_extras(self, blocks: ModelBlocks) -> bool:
        """Every block takes the same arguments besides the hidden state, and is called once."""
        calls = [self.of(name) for name in blocks.names]
        if any(len(call) != 1 for call in calls):
            return False
        first, *others = ([*_beside(call[0])] for call in calls)
        return all(len(first) == len(other) and all(map(_same, first, other)) for other in others)

    def hidden_name(self, block: str) -> str | None:
        call = self.of(block)[0]
        hidden = hidden_of(call.args, call.kwargs)
        return next((name for name, value in call.kwargs.items() if value is hidden), None)


def _watched(model: nn.Module, inputs: Mapping[str, Any]) -> _Run:
    run, clock = _Run(), iter(range(1 << 40))
    begun: dict[str, int] = {}

    def before(name: str) -> Any:
        return lambda *_: begun.__setitem__(name, next(clock))

    def after(name: str) -> Any:
        def note(_: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
            run.calls.append(_Call(name, begun[name], next(clock), args, kwargs, out))

        return note

    handles = []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(before(name)))
        handles.append(module.register_forward_hook(after(name), with_kwargs=True))
    try:
        with torch.inference_mode():
            run.out = model(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    return run


def _pieces(names: list[str], blocks: ModelBlocks, run: _Run) -> tuple[ModulePiece, ...]:
    begin, end = run.of(blocks.names[0])[0].begin, run.of(blocks.names[-1])[0].end
    within = {name: block for name in names for block in blocks.names if name.startswith(f"{block}.")}
    outside = [name for name in names if name not in within]
    # A module that is never called itself, or encloses the blocks, may be used before and after them.
    before = [name for name in outside if not _calls(name, run) or any(c.begin < begin for c in _calls(name, run))]
    after = [name for name in outside if not _calls(name, run) or any(c.end > end for c in _calls(name, run))]
    middle = [
        ModulePiece(
            f"block {number + 1}",
            f"{block}.",
            tuple(name.removeprefix(f"{block}.") for name in names if within.get(name) == block),
        )
        for number, block in enumerate(blocks.names)
    ]
    return (ModulePiece("front", "", tuple(before)), *middle, ModulePiece("tail", "", tuple(after)))


def _calls(parameter: str, run: _Run) -> list[_Call]:
    return run.of(parameter.rpartition(".")[0])


def _beside(call: _Call) -> list[Any]:
    hidden = hidden_of(call.args, call.kwargs)
    named = [item for name in sorted(call.kwargs) for item in (name, call.kwargs[name])]
    return [value for value in (*call.args, *named) if value is not hidden]


def _same(argument: Any, other: Any) -> bool:
    if argument is other:
        return True
    if isinstance(argument, tuple) and isinstance(other, tuple) and len(argument) == len(other):
        return all(map(_same, argument, other))
    return isinstance(argument, str | int | float | bool | type(None)) and argument == other
