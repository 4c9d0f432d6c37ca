"""Concatenate requests along their first dimension, and split results again."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from cotenant.serving.engines.protocol import Call


def rows_of(call: Call) -> int | None:
    """Number of rows of a call's tensors; None if they disagree or there are none."""
    sizes = {value.shape[0] if value.dim() else None for value in _tensors(call)}
    return sizes.pop() if len(sizes) == 1 else None


def shape_of(call: Call) -> Any:
    """What must be equal for two calls to be batched: everything but the number of rows."""
    return tuple(_form(value) for value in call.args), tuple((k, _form(v)) for k, v in sorted(call.kwargs.items()))


def together(calls: Sequence[Call]) -> Call:
    """Concatenate calls into one."""
    if len(calls) == 1:
        return calls[0]
    first = calls[0]
    args = tuple(_joined([call.args[place] for call in calls]) for place in range(len(first.args)))
    return Call(args, {name: _joined([call.kwargs[name] for call in calls]) for name in first.kwargs})


def apart(result: Any, rows: Sequence[int]) -> list[Any]:
    """Split a result by the rows of each call."""
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
    raise ValueError(f"a result of type {type(result).__name__} can't be split by rows")


def copied(result: Any) -> Any:
    """A result whose tensors are copies."""
    if isinstance(result, torch.Tensor):
        return result.clone()
    if isinstance(result, Mapping):
        kind: Any = type(result)
        return kind(**{name: copied(value) for name, value in result.items()})
    if isinstance(result, tuple | list):
        return type(result)(copied(value) for value in result)
    return result


def _tensors(call: Call) -> list[torch.Tensor]:
    return [value for value in (*call.args, *call.kwargs.values()) if isinstance(value, torch.Tensor)]


def _form(value: Any) -> Any:
    return (value.shape[1:], value.dtype) if isinstance(value, torch.Tensor) else repr(value)


def _joined(values: Sequence[Any]) -> Any:
    return torch.cat(list(values)) if isinstance(values[0], torch.Tensor) else values[0]
