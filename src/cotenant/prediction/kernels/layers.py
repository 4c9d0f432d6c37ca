"""Kernels of a language model's layer, written down from its dimensions instead of traced."""

import math

from cotenant.prediction.kernels.operators import Row

HALF_BYTES = 2.0
"""Bytes of a value in half precision."""
_HALF = "float16"
"""Of both formats: every GPU's tensor cores take it, and those that take bfloat16 are as fast."""
_TILE = 128
_ELEMENTS_PER_BLOCK = 2048


def matrix(
    name: str, product: tuple[float, float, float, float], *, weight_bytes: float = HALF_BYTES, rounded: bool = False
) -> Row:
    """A product with weights.

    Args:
        name: Its name.
        product: Rows, columns, length of the sums, and the number of such products (experts).
        weight_bytes: Bytes per weight.
        rounded: Whether both operands have 8 bits.
    """
    m, n, k, batches = product
    weights = n * k * batches * weight_bytes
    return Row(
        name=name,
        kind="gemm",
        dtype="int8" if rounded else _HALF,
        tensor=True,
        flops=2.0 * m * n * k * batches,
        read=weights + m * k * batches * (1.0 if rounded else HALF_BYTES),
        weights=weights,
        written=m * n * batches * HALF_BYTES,
        m=m,
        n=n,
        k=k,
        batches=batches,
        blocks=max(1.0, math.ceil(m / _TILE) * math.ceil(n / _TILE) * batches),
    )


def passing(name: str, tokens: float, width: float, *, reads: float, writes: float) -> Row:
    """A pass over activations: a norm, a rotation, an activation."""
    values = tokens * width
    return Row(
        name=name,
        kind="elementwise",
        dtype=_HALF,
        tensor=False,
        flops=values,
        read=values * reads * HALF_BYTES,
        weights=0.0,
        written=values * writes * HALF_BYTES,
        blocks=max(1.0, values / _ELEMENTS_PER_BLOCK),
    )


def summed(moved: float) -> Row:
    """An all-reduce of this many bytes."""
    return Row(
        name="all_reduce", kind="all_reduce", dtype=_HALF, tensor=False, flops=0.0, read=moved, weights=0.0,
        written=moved, batches=1.0,
    )  # fmt: skip


def expert_matrices(
    width: float,
    inner: float,
    *,
    touched: float,
    tokens: float,
    weight_bytes: float = HALF_BYTES,
    rounded: bool = False,
) -> tuple[Row, Row]:
    """The two grouped products of a mixture of experts.

    Args:
        width: Of the model.
        inner: Of an expert.
        touched: Distinct experts.
        tokens: Tokens of each of them.
        weight_bytes: Bytes per weight.
        rounded: Whether both operands have 8 bits.
    """
    up = matrix("experts up", (tokens, 2 * inner, width, touched), weight_bytes=weight_bytes, rounded=rounded)
    down = matrix("experts down", (tokens, width, inner, touched), weight_bytes=weight_bytes, rounded=rounded)
    return up, down
