"""Fuse operators into kernels: none (eager), memory-bound neighbours (compile), almost all (engine).

A dry run lists operators in order but not their data flow. Neighbours count as connected if the input of one has the
shape of the previous one's result.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from cotenant.prediction.kernels.columns import Kernels
from cotenant.prediction.kernels.operators import Row, columns, rows_of
from cotenant.workloads.protocol import Attention, Operator

Fusion = Literal["eager", "compile", "engine", "served"]
FUSIONS: tuple[Fusion, ...] = get_args(Fusion)
Tf32 = Literal["convolutions", "all", "none"]

_POINTWISE = ("elementwise", "copy", "activation")
_MATRIX = ("gemm", "conv", "conv3x3", "depthwise", "weight_gradient")
_CACHE_COPIES = frozenset({"cat", "stack", "index_put_", "clone", "expand"})
"""Copies of a growing cache from step to step; paged caches are written in place."""
_NOT_POINTWISE = frozenset({"cat", "max_pool2d_with_indices", "avg_pool2d", "upsample_bilinear2d"})


def kernels_of(
    operators: Sequence[Operator],
    *,
    fusion: Fusion = "eager",
    tf32: Tf32 = "convolutions",
    attention: Attention = "fused",
) -> Kernels:
    """Fuse operators into kernels.

    Args:
        operators: In execution order.
        fusion: `eager`: no fusion, as in PyTorch. `compile`: chains of pointwise operators with a final reduction
            become one kernel, as in torch.compile. `engine`: also fuses the chain after a product or convolution into
            it, as in TensorRT. `served`: everything between two products becomes one kernel, and keys and values stay
            in place, as in language-model servers.
        tf32: Where float32 may be rounded for tensor cores.
        attention: One kernel, or several as in software from before 2022.
    """
    known: dict[Operator, tuple[Row, ...]] = {}
    rows: list[Row] = []
    for operator in operators:
        if operator not in known:
            known[operator] = rows_of(operator, tf32=tf32, attention=attention)
        rows.extend(known[operator])
    rows = bundled(rows)
    if fusion == "eager":
        return columns(rows)
    if fusion == "served":
        return columns(_served(rows))
    # The forward and backward passes of a training step are compiled separately: no fusion across.
    border = backward_begins([row.name for row in rows])
    return columns(
        [row for part in (rows[:border], rows[border:]) for row in _fused(part, into_products=fusion == "engine")]
    )


@dataclass(slots=True)
class _Chain:
    """Rows fused into a single kernel."""

    rows: list[Row]

    def accepts(self, row: Row, *, into_products: bool) -> bool:
        first, last = self.rows[0], self.rows[-1]
        if row.kind not in (*_POINTWISE, "reduction") or row.name in _NOT_POINTWISE:
            return False
        if first.kind in _MATRIX:
            return into_products and row.kind in _POINTWISE and _hands_over(last, row)
        if first.kind not in (*_POINTWISE, "reduction") or first.name in _NOT_POINTWISE:
            return False
        if any(row.kind == "reduction" for row in self.rows):
            # A reduction's result is broadcast over its input (a norm): still one kernel, unless it reduces again.
            again = math.prod(row.gives) == math.prod(first.takes)
            return row.kind != "reduction" and (again or _hands_over(last, row))
        return _hands_over(last, row)

    def joined(self) -> Row:
        first, last = self.rows[0], self.rows[-1]
        if len(self.rows) == 1:
            return first
        read = first.read
        for before, row in zip(self.rows, self.rows[1:], strict=False):
            read += max(0.0, row.read - before.written)
        head = first if first.kind in _MATRIX else max(self.rows, key=lambda row: (row.kind == "reduction", row.blocks))
        return replace(
            head,
            name=f"{first.name}+{last.name}" if first.kind in _MATRIX else f"fused {last.name}",
            flops=sum(row.flops for row in self.rows),
            read=read,
            written=last.written,
            gives=last.gives,
            takes=first.takes,
        )


def _fused(rows: Sequence[Row], *, into_products: bool) -> list[Row]:
    chains: list[_Chain] = []
    for row in rows:
        if chains and chains[-1].accepts(row, into_products=into_products):
            chains[-1].rows.append(row)
        else:
            chains.append(_Chain([row]))
    return [chain.joined() for chain in chains]


def _served(rows: Sequence[Row]) -> list[Row]:
    """Hand-written kernels for language models: normalise, rotate, activate in one pass each."""
    out: list[Row] = []
    between: list[Row] = []
    for row in rows:
        if row.kind in (*_POINTWISE, "reduction"):
            if row.name not in _CACHE_COPIES:
                between.append(row)
            continue
        if between:
            out.append(_one_pass(between))
            between = []
        out.append(row)
    return [*out, _one_pass(between)] if between else out


def _one_pass(rows: Sequence[Row]) -> Row:
    """Reads the widest of their inputs, writes the output of the last."""
    widest, last = max(rows, key=lambda row: row.read), rows[-1]
    return replace(
        widest,
        name=f"fused {last.name}",
        kind="elementwise",
        flops=sum(row.flops for row in rows),
        written=last.written,
        gives=last.gives,
    )


def _hands_over(last: Row, row: Row) -> bool:
    """Whether the next row works on the result of the last: same number of elements, in any shape."""
    return math.prod(last.gives) in (math.prod(row.takes), math.prod(row.gives))


# --- Parts of a training request: forward, backward, and an optimiser's step of many small operators
#
# A dry run lists operators in order; their names show where the backward pass begins, their kinds where the step does.

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
    first = next((number for number, name in enumerate(names) if "backward" in name), len(names))
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
