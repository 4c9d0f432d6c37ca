"""The parts of a training request: forward, backward, and an optimiser's step of many small operators.

A dry run lists operators in order; their names show where the backward pass begins, their kinds where the step does.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from cotenant.prediction.kernels.operators import Row

OPTIMISER = "optimiser "
"""Prefix of the names of the step's kernels."""

_LONG = 64
"""A final sequence of more pointwise operators than this is an optimiser's step."""
_KINDS = 3
"""Minimum number of distinct operators in it."""
_CHUNKS = 32.0
"""Its thread blocks process 65,536 elements each (torch's chunk), those of plain pointwise kernels 2,048."""
_BUNDLE = 36
"""Tensors per launch: multi-tensor kernels take their addresses as arguments."""


def backward_begins(names: Sequence[str]) -> int:
    """Index of the first operator of the backward pass; the number of operators if there is none."""
    first = next((place for place, name in enumerate(names) if "backward" in name), len(names))
    # The gradient of the loss with respect to itself.
    return first - 1 if 0 < first < len(names) and names[first - 1] == "ones_like" else first


def bundled(rows: Sequence[Row]) -> list[Row]:
    """The same work, with the optimiser's step as one kernel per operator over all parameters."""
    begin = len(rows)
    while begin > 0 and rows[begin - 1].kind in ("elementwise", "transfer") and "backward" not in rows[begin - 1].name:
        begin -= 1
    step = [row for row in rows[begin:] if row.kind == "elementwise"]
    if begin == 0 or len(step) <= _LONG or len({row.name for row in step}) < _KINDS:
        return list(rows)
    groups: dict[str, list[Row]] = {}
    for row in step:
        groups.setdefault(row.name, []).append(row)
    others = [row for row in rows[begin:] if row.kind != "elementwise"]
    return [*rows[:begin], *(_bundle(group) for group in groups.values()), *others]


def _bundle(group: Sequence[Row]) -> Row:
    return replace(
        group[0],
        name=f"{OPTIMISER}{group[0].name}",
        flops=sum(row.flops for row in group),
        read=sum(row.read for row in group),
        # Parameters and moments of an entire model: none of it is in cache.
        weights=sum(row.read for row in group),
        written=sum(row.written for row in group),
        blocks=max(1.0, sum(row.blocks for row in group) / _CHUNKS),
        launches=math.ceil(len(group) / _BUNDLE),
        takes=(),
        gives=(),
    )
