"""What operators give on `meta`, computed once: the layers of a model repeat a few operators many times.

Torch computes shapes on `meta` in Python, which takes milliseconds for one normalisation. The outcome depends only on
the shapes, strides and types that come in, so the next operator of the same form gets tensors of the same form.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from cotenant.workloads.protocol import Operator

_MOST = 10_000
"""Forms that are kept. The whole catalogue has fewer."""


@dataclass(frozen=True, slots=True)
class OperatorResult:
    """What an operator of one form leaves."""

    template: Any
    operator: Operator
    beside: int
    """Bytes of workspace."""

    def fresh(self) -> Any:
        """New tensors of the same form."""
        if isinstance(self.template, _Form):  # nearly always; a tree takes longer to walk than a tensor to make
            return self.template.tensor()
        return tree_map_only(_Form, _Form.tensor, self.template)


@dataclass(frozen=True, slots=True)
class _Form:
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device="meta")


class Recurring:
    """The outcomes of operators seen so far, by form."""

    def __init__(self) -> None:
        self._outcomes: dict[Hashable, OperatorResult] = {}

    def find(self, form: Hashable | None) -> OperatorResult | None:
        """The outcome, if an operator of this form was seen."""
        return None if form is None else self._outcomes.get(form)

    def add(self, form: Hashable | None, out: Any, operator: Operator, beside: int) -> None:
        """Keep an outcome whose tensors can be made again: each has a storage of its own, of just its size."""
        if form is None:
            return
        template = tree_map_only(torch.Tensor, lambda one: _Form(tuple(one.shape), one.stride(), one.dtype), out)
        outcome = OperatorResult(template, operator, beside)
        if _storages(out) != _storages(outcome.fresh()):
            return
        if len(self._outcomes) >= _MOST:
            self._outcomes.clear()
        self._outcomes[form] = outcome


def form_of(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable | None:
    """All that the outcome depends on; None: it writes to its inputs, or has inputs beyond `meta`."""
    if func._schema.is_mutable:  # noqa: SLF001  the only place that says so
        return None
    tensors: list[torch.Tensor] = []
    form = (func, _frozen(args, tensors), _frozen(sorted(kwargs.items()), tensors))
    return form if tensors and all(map(_on_meta, tensors)) else None


def _frozen(value: Any, tensors: list[torch.Tensor]) -> Hashable:
    """What is not a tensor or a list of them is a number, a name, a type or a device, and can be hashed."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        if not _on_meta(value):
            return None
        # An expanded tensor has less memory behind it than its shape says, which counts as bytes read.
        return (value.shape, value.stride(), value.dtype, value.untyped_storage().nbytes())
    if isinstance(value, list | tuple):
        return tuple([_frozen(one, tensors) for one in value])
    return (type(value), value)  # 1 and 1.0 are equal, and give other types


def _on_meta(tensor: torch.Tensor) -> bool:
    return tensor.is_meta and tensor.layout is torch.strided


def _storages(out: Any) -> list[tuple[int, int]]:
    """Of each tensor: which of the storages it has, and its size."""
    storages = [leaf.untyped_storage() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
    numbers: dict[int, int] = {}
    return [(numbers.setdefault(one._cdata, len(numbers)), one.nbytes()) for one in storages]  # noqa: SLF001
