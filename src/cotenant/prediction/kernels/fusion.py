"""Which operators become one kernel: none (eager), neighbours that only move memory (compile), almost all (engine).

A dry run gives operators in order without saying who reads whose result; neighbours are taken to be connected when
the next one's input has the shape of the last one's result.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from cotenant.prediction.kernels.columns import Kernels
from cotenant.prediction.kernels.operators import Row, columns, rows_of
from cotenant.prediction.kernels.training_step import backward_begins, bundled
from cotenant.workloads.protocol import Operator

Fusion = Literal["eager", "compile", "engine", "served"]
FUSIONS: tuple[Fusion, ...] = get_args(Fusion)
Tf32 = Literal["convolutions", "all", "none"]
Attention = Literal["fused", "unfused"]

_POINTWISE = ("elementwise", "copy", "activation")
_MATRIX = ("gemm", "conv", "conv3x3", "depthwise", "weight_gradient")
_CACHE_COPIES = frozenset({"cat", "stack", "index_put_", "clone", "expand"})
"""How a cache that grows is copied from step to step; paged caches are written in place."""
_NOT_POINTWISE = frozenset({"cat", "max_pool2d_with_indices", "avg_pool2d", "upsample_bilinear2d"})


def kernels_of(
    operators: Sequence[Operator],
    *,
    fusion: Fusion = "eager",
    tf32: Tf32 = "convolutions",
    attention: Attention = "fused",
) -> Kernels:
    """The kernels that these operators become.

    Args:
        operators: In the order in which they run.
        fusion: `eager`: one by one, as PyTorch runs them. `compile`: chains of pointwise operators and the reductions
            that they end in are one kernel, as torch.compile makes them. `engine`: also what follows a product or a
            convolution is part of it, as in TensorRT. `served`: whatever lies between two products is one kernel, and
            keys and values stay where they are, as in servers of language models.
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
    # Forward and backward of a training step are compiled apart: nothing is fused across their border.
    border = backward_begins([row.name for row in rows])
    return columns(
        [row for part in (rows[:border], rows[border:]) for row in _fused(part, into_products=fusion == "engine")]
    )


@dataclass(slots=True)
class _Chain:
    """Rows that become one kernel."""

    rows: list[Row]

    def accepts(self, row: Row, *, into_products: bool) -> bool:
        first, last = self.rows[0], self.rows[-1]
        if row.kind not in (*_POINTWISE, "reduction") or row.name in _NOT_POINTWISE:
            return False
        if first.kind in _MATRIX:
            return into_products and row.kind in _POINTWISE and _hands_over(last, row)
        if first.kind not in (*_POINTWISE, "reduction") or first.name in _NOT_POINTWISE:
            return False
        if any(one.kind == "reduction" for one in self.rows):
            # What a reduction gives is spread over its input again (a norm): still one kernel, unless it reduces anew.
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
    """Kernels made by hand for language models: normalise, rotate, activate in one pass each."""
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
    """Reads the widest of what they read, writes what the last one writes."""
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
    """The next one works on the last one's result: the same numbers, however they are grouped."""
    return math.prod(last.gives) in (math.prod(row.takes), math.prod(row.gives))
