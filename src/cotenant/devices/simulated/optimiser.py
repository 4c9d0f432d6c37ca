"""An optimiser's step at the end of a training request: many small operators, which torch bundles on a GPU."""

import math
from collections.abc import Sequence
from dataclasses import replace

from cotenant.devices.simulated.operators import Row

_LONG = 64
"""A run of pointwise operators at the end that is longer than this is an optimiser's step."""
_KINDS = 3
"""It consists of at least this many different ones."""
_BUNDLE = 36
"""Tensors that one launch works on (multi-tensor kernels take their addresses as arguments)."""


def bundled(rows: Sequence[Row]) -> list[Row]:
    """The same work, with the optimiser's step as one kernel for each of its operators over all parameters."""
    begin = len(rows)
    while begin > 0 and rows[begin - 1].kind in ("elementwise", "transfer"):
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
        name=f"optimiser {group[0].name}",
        flops=sum(row.flops for row in group),
        read=sum(row.read for row in group),
        # Parameters and moments of a whole model: nothing of it was used a moment ago.
        weights=sum(row.read for row in group),
        written=sum(row.written for row in group),
        blocks=sum(row.blocks for row in group),
        launches=math.ceil(len(group) / _BUNDLE),
        takes=(),
        gives=(),
    )
