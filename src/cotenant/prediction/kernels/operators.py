"""Convert operators of a dry run to the kernels a GPU library would launch, before fusion."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from cotenant.prediction.gpu import DTYPES
from cotenant.prediction.kernels.columns import KINDS, Kernels
from cotenant.workloads.protocol import Operator

_FREE = frozenset({"detach", "detach_", "alias", "view", "t", "transpose", "permute", "expand", "lift_fresh", "arange"})
"""Operators that launch no significant kernel."""
_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "_grouped_mm"})
_GATHERS = frozenset(
    {"embedding", "_embedding_bag", "_embedding_bag_forward_only", "index", "index_select", "gather", "index_put_"}
)
_PICKED = {"nll_loss_forward": 1, "nll_loss_backward": 2}
"""A loss reads the score of each row's target; the place of the targets among its inputs."""
_TARGET_BYTES = 8
_COPIES = frozenset({"cat", "clone", "_to_copy", "copy_", "stack", "constant_pad_nd", "slice_scatter", "contiguous"})
_REDUCTIONS = frozenset(
    {
        "native_layer_norm",
        "native_group_norm",
        "_fused_rms_norm",
        "_softmax",
        "_safe_softmax",
        "_log_softmax",
        "mean",
        "sum",
        "amax",
        "max",
        "argmax",
        "var",
        "var_mean",
        "all",
        "any",
        "cumsum",
        "topk",
        "sort",
        "adaptive_avg_pool2d",
        "_adaptive_avg_pool2d",
        "native_layer_norm_backward",
        "native_batch_norm",
    }
)
_BY_CHANNEL = frozenset({"_native_batch_norm_legit", "native_batch_norm_backward"})
"""Norms over a batch while training: one thread block per channel, whatever the size of the batch. It reads its inputs
twice, once for the sums and once for the result."""
_ACTIVATIONS = frozenset(
    {"gelu", "silu", "tanh", "sigmoid", "exp", "erf", "softplus", "mish", "hardswish"}
    | {"gelu_backward", "silu_backward", "tanh_backward", "sigmoid_backward"}
)
_ELEMENTS_PER_BLOCK = 2048
"""Elements per block of a pointwise kernel: 256 threads with 8 elements each, as in vectorised kernels."""
_TILE = 128


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel, before it becomes a row of `Kernels`."""

    name: str
    kind: str
    dtype: str
    tensor: bool
    flops: float
    read: float
    weights: float
    written: float
    m: float = 0.0
    n: float = 0.0
    k: float = 0.0
    batches: float = 0.0
    blocks: float = 1.0
    launches: int = 1
    takes: tuple[int, ...] = ()
    """Shape of its first input, which a fused kernel would pass in registers."""
    gives: tuple[int, ...] = ()
    """Shape of its result."""


def rows_of(operator: Operator, *, tf32: str = "convolutions", attention: str = "fused") -> tuple[Row, ...]:
    """The kernels of an operator.

    Args:
        operator: As seen in a dry run.
        tf32: Operations that may round float32 for tensor cores: `convolutions` (torch's default), `all` or `none`.
        attention: `fused` into one kernel; `unfused`: two products around a softmax, as before 2022; `looped`: each
            of these products one by one for every head and item.
    """
    name = operator.name.removeprefix("aten.")
    operator = replace(operator, name=name)
    if name in _FREE or not operator.out_shapes or _switched_off_dropout(operator):
        return ()
    if name in ("convolution", "convolution_backward"):
        return _convolution(operator, tf32)
    if "scaled_dot_product" in name or name == "_flash_attention_forward":
        if attention == "fused":
            return (_attention(operator, tf32),)
        return _unfused_attention(operator, tf32, looped=attention == "looped")
    return (_single(operator, tf32),)


def columns(rows: Iterable[Row]) -> Kernels:
    """Rows as `Kernels`."""
    listed = list(rows)
    names = tuple(dict.fromkeys(row.name for row in listed))
    index = {name: number for number, name in enumerate(names)}

    def floats(field: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([getattr(row, field) for row in listed], dtype=np.float64)

    return Kernels(
        names=names,
        name=np.array([index[row.name] for row in listed], dtype=np.int64),
        kind=np.array([KINDS.index(row.kind) for row in listed], dtype=np.int64),
        dtype=np.array([DTYPES.index(row.dtype) for row in listed], dtype=np.int64),
        tensor=np.array([row.tensor for row in listed], dtype=np.bool_),
        flops=floats("flops"),
        read=floats("read"),
        weights=floats("weights"),
        written=floats("written"),
        m=floats("m"),
        n=floats("n"),
        k=floats("k"),
        batches=floats("batches"),
        blocks=floats("blocks"),
        working_set=floats("read") + floats("written"),
        launches=np.array([row.launches for row in listed], dtype=np.int64),
    )


def _single(operator: Operator, tf32: str) -> Row:
    name = operator.name
    if name in _PRODUCTS:
        return _product(operator, tf32)
    if name == "_to_copy" and operator.bytes_read == operator.bytes_written:
        return _plain(operator, "transfer")
    if name in _GATHERS:
        return replace(_plain(operator, "gather"), weights=operator.bytes_written)
    if name in _PICKED:
        # The dry run counts all scores as read, which one thread block would take milliseconds for.
        targets = operator.shapes[_PICKED[name]]
        return replace(
            _plain(operator, "elementwise"), read=math.prod(targets) * (_TARGET_BYTES + _width(operator.dtype))
        )
    if name in _BY_CHANNEL:
        row = _plain(operator, "reduction")
        return replace(row, read=2 * row.read, blocks=float(operator.shapes[0][1]))
    kinds = {"activation": _ACTIVATIONS, "copy": _COPIES, "reduction": _REDUCTIONS}
    return _plain(operator, next((kind for kind, names in kinds.items() if name in names), "elementwise"))


def _switched_off_dropout(operator: Operator) -> bool:
    """Inference has no dropout, but a dry run shows it as a copy; real copies of rank four and up regroup heads."""
    return (
        operator.name == "clone" and len(operator.out_shapes[0]) <= 3 and operator.shapes[0] == operator.out_shapes[0]
    )


def _plain(operator: Operator, kind: str) -> Row:
    elements = sum(math.prod(shape) for shape in operator.out_shapes[:1])
    if kind == "reduction":
        elements = max([elements, *(math.prod(shape) for shape in operator.shapes[:1])])
    return Row(
        name=operator.name,
        kind=kind,
        dtype=_dtype(operator.dtype),
        tensor=False,
        flops=operator.flops or float(elements),
        read=operator.bytes_read,
        weights=0.0,
        written=operator.bytes_written,
        blocks=max(1.0, elements / _ELEMENTS_PER_BLOCK),
        takes=operator.shapes[0] if operator.shapes else (),
        gives=operator.out_shapes[0],
    )


def _product(operator: Operator, tf32: str) -> Row:
    first, second = [shape for shape in operator.shapes if len(shape) >= 2][-2:]
    m, k, n = first[-2], first[-1], second[-1]
    batches = math.prod(first[:-2]) if len(first) > 2 else 1
    width = _width(operator.dtype)
    # In a batched product both inputs are activations; in a plain product the second is a layer's weights.
    weights = 0.0 if batches > 1 else float(k * n * width)
    cores = _may_use_cores(operator, tf32, convolution=False)
    return _tiled(operator, "gemm", product=(m, n, k, batches), weights=weights, tensor=cores)


def _attention(operator: Operator, tf32: str) -> Row:
    query, key = operator.shapes[0], operator.shapes[1]
    batch, heads, positions, width = query
    return Row(
        name="attention",
        kind="attention",
        dtype=_dtype(operator.dtype),
        tensor=_may_use_cores(operator, tf32, convolution=False),
        flops=operator.flops,
        read=operator.bytes_read,
        weights=0.0,
        written=operator.bytes_written,
        m=float(positions),
        n=float(key[-2]),
        k=float(width),
        batches=float(batch * heads),
        blocks=float(batch * heads * math.ceil(positions / _TILE)),
        takes=query,
        gives=operator.out_shapes[0],
    )


def _unfused_attention(operator: Operator, tf32: str, *, looped: bool) -> tuple[Row, ...]:
    """Scores are written, scaled, masked and normalised through memory each time; heads are regrouped around.

    Where the sequence comes first, heads of all items lie side by side: nothing is regrouped, but libraries have no
    batched product for it, and launch one for each head and item.
    """
    batch, heads, positions, width = operator.shapes[0]
    context = operator.shapes[1][-2]
    size = _width(operator.dtype)
    scores = (batch, heads, positions, context)
    score_bytes, head_bytes = float(math.prod(scores) * size), float(math.prod(operator.shapes[0]) * size)
    context_bytes = float(batch * heads * context * width * size)
    cores = _may_use_cores(operator, tf32, convolution=False)

    def product(n: int, k: int, read: float, written: float, gives: tuple[int, ...]) -> Row:
        flops = 2.0 * batch * heads * positions * n * k
        plain = Operator("bmm", operator.dtype, operator.shapes[:2], (gives,), flops, read, written)
        count = batch * heads
        row = _tiled(plain, "gemm", product=(positions, n, k, 1 if looped else count), weights=0.0, tensor=cores)
        return replace(row, launches=count) if looped else row

    def pass_over(name: str, kind: str, shape: tuple[int, ...], moved: float) -> Row:
        return _plain(Operator(name, operator.dtype, (shape,), (shape,), 0.0, moved, moved), kind)

    if operator.name.endswith("_backward"):
        half = operator.out_shapes[0]
        return (
            product(width, positions, score_bytes + head_bytes, context_bytes, half),  # values
            product(context, width, head_bytes + context_bytes, score_bytes, scores),  # weights
            pass_over("softmax_backward", "reduction", scores, 1.5 * score_bytes),
            pass_over("scale", "elementwise", scores, score_bytes),
            product(width, context, score_bytes + context_bytes, head_bytes, half),  # queries
            product(width, positions, score_bytes + head_bytes, context_bytes, half),  # keys
            *(pass_over("heads", "copy", operator.shapes[0], head_bytes) for _ in range(1 if looped else 4)),
        )
    return (
        *(pass_over("heads", "copy", operator.shapes[0], head_bytes) for _ in range(0 if looped else 3)),
        product(context, width, head_bytes + context_bytes, score_bytes, scores),
        pass_over("scale", "elementwise", scores, score_bytes),
        pass_over("mask", "elementwise", scores, score_bytes),
        pass_over("softmax", "reduction", scores, score_bytes),
        product(width, context, score_bytes + context_bytes, head_bytes, operator.out_shapes[0]),
        pass_over("heads", "copy", operator.out_shapes[0], head_bytes),
    )


def _convolution(operator: Operator, tf32: str) -> tuple[Row, ...]:
    backward = operator.name == "convolution_backward"
    given, source, weight = operator.shapes[:3] if backward else (operator.out_shapes[0], *operator.shapes[:2])
    groups = max(1, source[1] // weight[1])
    m = given[0] * math.prod(given[2:])
    n, k = weight[0] // groups, math.prod(weight[1:])
    weights = float(math.prod(weight) * _width(operator.dtype))
    depthwise = groups > 1 and weight[1] == 1
    cores = _may_use_cores(operator, tf32, convolution=True) and not depthwise
    small = weight[2:] == (3, 3) and given[2:] == source[2:] and groups == 1
    kind = "depthwise" if depthwise else "conv3x3" if small else "conv"
    forward = _tiled(operator, kind, product=(m, n, k, groups), weights=weights, tensor=cores)
    if not backward:
        return (forward,)
    half = replace(forward, flops=forward.flops / 2, read=forward.read / 2, written=forward.written / 2)
    if len(operator.out_shapes) < 2 or math.prod(operator.out_shapes[0]) == 0:
        return (_weight_gradient(half, n, k, m),)
    return (replace(half, name="convolution_input_gradient", n=float(k), k=float(n)), _weight_gradient(half, n, k, m))


def _weight_gradient(half: Row, m: int, n: int, k: int) -> Row:
    """A product with few results, each a sum over all positions of the batch."""
    kind = "depthwise" if half.kind == "depthwise" else "weight_gradient"
    return replace(half, name="convolution_weight_gradient", kind=kind, m=float(m), n=float(n), k=float(k))


def _tiled(operator: Operator, kind: str, *, product: tuple[int, int, int, int], weights: float, tensor: bool) -> Row:
    m, n, k, batches = product
    return Row(
        name=operator.name,
        kind=kind,
        dtype=_dtype(operator.dtype),
        tensor=tensor,
        flops=operator.flops,
        read=operator.bytes_read,
        weights=min(weights, operator.bytes_read),
        written=operator.bytes_written,
        m=float(m),
        n=float(n),
        k=float(k),
        batches=float(batches),
        blocks=max(1.0, math.ceil(m / _TILE) * math.ceil(n / _TILE) * float(batches)),
        takes=operator.shapes[0],
        gives=operator.out_shapes[0],
    )


def _may_use_cores(operator: Operator, tf32: str, *, convolution: bool) -> bool:
    if operator.dtype != "float32":
        return operator.dtype in DTYPES
    return tf32 == "all" or (tf32 == "convolutions" and convolution)


def _dtype(name: str) -> str:
    """Non-arithmetic formats (indices, masks) count as float32."""
    return name if name in DTYPES else "float32"


def _width(name: str) -> int:
    return {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "bool": 1}.get(name, 4)
