"""Requests put together along their first dimension, and results taken apart again."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from cotenant.serving.engines.protocol import Call


def rows_of(call: Call) -> int | None:
    """How many rows the tensors of a call have; None if they don't agree, or if there are none."""
    sizes = {value.shape[0] if value.dim() else None for value in _tensors(call)}
    return sizes.pop() if len(sizes) == 1 else None


def shape_of(call: Call) -> Any:
    """What has to be equal for two calls to run as one: everything but the number of rows."""
    return tuple(_form(value) for value in call.args), tuple((k, _form(v)) for k, v in sorted(call.kwargs.items()))


def together(calls: Sequence[Call]) -> Call:
    """One call for all of them."""
    if len(calls) == 1:
        return calls[0]
    first = calls[0]
    args = tuple(_joined([call.args[place] for call in calls]) for place in range(len(first.args)))
    return Call(args, {name: _joined([call.kwargs[name] for call in calls]) for name in first.kwargs})


def apart(result: Any, rows: Sequence[int]) -> list[Any]:
    """The part of a result that belongs to each call, by its rows."""
    if isinstance(result, torch.Tensor):
        if result.dim() and result.shape[0] == sum(rows):
            return list(torch.split_with_sizes(result, list(rows)))
        raise ValueError(f"a result of shape {list(result.shape)} has no row for each of {sum(rows)} inputs")
    if isinstance(result, Mapping):
        parts = {name: apart(value, rows) for name, value in result.items() if value is not None}
        kind = type(result)
        return [kind(**{name: part[place] for name, part in parts.items()}) for place in range(len(rows))]
    if isinstance(result, tuple | list):
        split = [apart(value, rows) for value in result]
        return [type(result)(part[place] for part in split) for place in range(len(rows))]
    raise ValueError(f"a result of type {type(result).__name__} can't be taken apart by rows")


def _tensors(call: Call) -> list[torch.Tensor]:
    return [value for value in (*call.args, *call.kwargs.values()) if isinstance(value, torch.Tensor)]


def _form(value: Any) -> Any:
    return (value.shape[1:], value.dtype) if isinstance(value, torch.Tensor) else repr(value)


def _joined(values: Sequence[Any]) -> Any:
    return torch.cat(list(values)) if isinstance(values[0], torch.Tensor) else values[0]
