"""Measured tables of an engine's kernels: their times by law, and the scale of each kind that fits a table best.

The columns are those of ai-dynamo/aiconfigurator: matrix products by m, n and k, attention by batch, length and heads,
fused experts by tokens, sums over GPUs by bytes; times in ms.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotenant.errors import DeviceError
from cotenant.prediction.gpu import GpuSpec, KernelKind, KernelScale
from cotenant.prediction.kernels.attention import AttentionPart, Heads, decoding, prompts, prompts_launched
from cotenant.prediction.kernels.columns import Bools, Floats
from cotenant.prediction.kernels.cost import plain_roofline_ns, solo_costs
from cotenant.prediction.kernels.families import Format, KernelFamily, family_of, kernel_kind
from cotenant.prediction.kernels.layers import expert_matrices, matrix
from cotenant.prediction.kernels.operators import columns

FORMATS: Mapping[str, Format] = {"bfloat16": "half", "float16": "half", "fp8": "fp8", "fp8_block": "fp8 blocks"}
"""Number formats by their names in tables."""
HEADS = ("num_heads", "num_key_value_heads", "head_dim")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("gemm_dtype", "m", "n", "k"),
    "context_attention": ("batch_size", "isl", *HEADS),
    "generation_attention": ("batch_size", "step", *HEADS),
    "moe": (
        "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
        "distribution",
    ),
    "all_reduce": ("num_gpus", "message_size"),
}  # fmt: skip
"""Columns that a table needs besides `latency`, by its `op_name`."""
LEAST_ROWS = 8
"""Fewer rows of a kind of kernel don't tell its scale."""
_MOST_OFF = 20.0
"""A scale beyond this, or below its inverse, is one of another unit or GPU."""
_ROUNDS = 8

Table = Mapping[str, NDArray[Any]]
"""Columns of a table by name, of equal length."""
Times = tuple[Floats, Floats]
"""By law and by the plain roofline, ns."""


def product_times(gpu: GpuSpec, family: KernelFamily, form: Format, table: Table) -> Times:
    """Matrix products by rows, columns and length of the sums."""
    rounded = form != "half"
    sizes = zip(*(table[name].astype(float).tolist() for name in ("m", "n", "k")), strict=True)
    listed = [matrix("product", (*size, 1.0), weight_bytes=1.0 if rounded else 2.0, rounded=rounded) for size in sizes]
    kernels = columns(listed)
    costs = solo_costs(kernels, gpu, efficiency=family.products[form])
    return costs.duration_ns, plain_roofline_ns(kernels, gpu)


def prompt_times(gpu: GpuSpec, family: KernelFamily, table: Table) -> Times:
    """Attention of prompts."""

    def time(heads: Heads, part: AttentionPart, count: Floats, tokens: Floats) -> Times:
        work = prompts(family.prompts, heads, part, queries=tokens, contexts=np.zeros(tokens.size), count=count)
        flops = 2.0 * count * heads.query * tokens * tokens * heads.width
        moved = 2.0 * count * tokens * (heads.query + heads.cached) * heads.width * 2.0
        roofline = np.maximum(flops / (part.rate * part.sms), moved / part.bandwidth)
        return prompts_launched(family.prompts, part, work).duration_ns, roofline

    return _by_heads(gpu, table, "isl", time)


def decoding_times(gpu: GpuSpec, family: KernelFamily, table: Table) -> Times:
    """Attention of decoding."""

    def time(heads: Heads, part: AttentionPart, count: Floats, context: Floats) -> Times:
        moved = 2.0 * count * context * heads.cached * heads.width * 2.0
        return decoding(family.decoding, heads, part, count, context).duration_ns, moved / part.bandwidth

    return _by_heads(gpu, table, "step", time)


def _by_heads(
    gpu: GpuSpec, table: Table, length: str, time: Callable[[Heads, AttentionPart, Floats, Floats], Times]
) -> Times:
    rate = gpu.tensor_rate("bfloat16") or gpu.tensor_rate("float16")
    if rate is None:
        raise DeviceError(f"{gpu.title} has no tensor cores, which tables of attention need")
    part = AttentionPart(float(gpu.sms), rate / gpu.sms * 1e-9, gpu.bandwidth_gb_s, gpu.l2_bytes)
    count, lengths = (table[name].astype(float) for name in ("batch_size", length))
    law, simple = np.empty(count.size), np.empty(count.size)
    shapes, which = np.unique(np.stack([table[name].astype(float) for name in HEADS]), axis=1, return_inverse=True)
    for number, (query, cached, width) in enumerate(shapes.T.tolist()):
        at = np.flatnonzero(which.ravel() == number)
        law[at], simple[at] = time(Heads(query, cached, width), part, count[at], lengths[at])
    return law, simple


def expert_times(gpu: GpuSpec, family: KernelFamily, form: Format, table: Table, *, rank_power: float = 1.0) -> Times:
    """Fused mixtures of experts.

    Args:
        gpu: The GPU.
        family: Constants of kernels.
        form: Number format.
        table: The shapes.
        rank_power: Load of the measured GPU among others with other experts, as a power of their number.
    """
    law, rounded = family.experts[form], form != "half"
    tokens, active, ranks, inside = (
        table[name].astype(float) for name in ("num_tokens", "topk", "moe_ep_size", "num_experts")
    )
    experts = inside / ranks
    balanced = table["distribution"] == "balanced"
    assigned = np.maximum(1.0, tokens * active * np.where(balanced, 1 / ranks, ranks**-rank_power))
    chosen = experts * (1 - (1 - 1 / np.maximum(experts, 1.0)) ** assigned)
    touched = np.clip(np.where(balanced, np.minimum(experts, np.ceil(assigned)), chosen), 1.0, experts)
    width, inner = table["hidden_size"].astype(float), table["inter_size"] / table["moe_tp_size"].astype(float)
    each = np.maximum(assigned / touched, 1.0)
    pairs = [
        expert_matrices(w, i, touched=t, tokens=e, weight_bytes=1.0 if rounded else 2.0, rounded=rounded)
        for w, i, t, e in zip(width, inner, touched, each, strict=True)
    ]
    times, simple = np.zeros(tokens.size), np.zeros(tokens.size)
    for which in (0, 1):
        kernels = columns([pair[which] for pair in pairs])
        times += solo_costs(kernels, gpu, efficiency=law.products).duration_ns
        simple += plain_roofline_ns(kernels, gpu)
    return times + law.routed_ns(tokens * active, width, inner, gpu.bandwidth_gb_s), simple


@dataclass(frozen=True, slots=True)
class FittedKernels:
    """Kernels of a kind beside a table."""

    kind: KernelKind
    rows: int
    scale: KernelScale
    before: float
    """Mean relative error of the laws as they are."""
    held_out: float
    """The same with a scale from every second row, on the others."""


def fit_kernels(gpu: GpuSpec, tables: Mapping[str, Table]) -> tuple[FittedKernels, ...]:
    """The scale of each kind of kernel.

    Args:
        gpu: The GPU that they were measured on, as it is simulated.
        tables: By operation (`op_name`), with measured times in the column `latency`, ms.

    Raises:
        DeviceError: No table has enough rows, or times can't be of this GPU.
    """
    fitted, pieces = [], dict[KernelKind, list[tuple[Floats, Floats]]]()
    for kind, *times in _kinds(gpu, tables):
        pieces.setdefault(kind, []).append((times[0], times[1]))
    for kind, some in pieces.items():
        law_ns, measured_ns = (np.concatenate(part) for part in zip(*some, strict=True))
        if measured_ns.size < LEAST_ROWS:
            continue
        scale = _scale(law_ns, measured_ns)
        if not 1 / _MOST_OFF < scale.times < _MOST_OFF:
            raise DeviceError(
                f"the table's {kind} take {scale.times:.3g} times what {gpu.title} is simulated to need",
                hint="times are milliseconds of one kernel, on this GPU",
            )
        learnt = _scale(law_ns[::2], measured_ns[::2])
        rest = learnt.ns(law_ns[1::2]) / measured_ns[1::2]
        before = float(np.abs(law_ns / measured_ns - 1).mean())
        fitted.append(FittedKernels(kind, measured_ns.size, scale, before, float(np.abs(rest - 1).mean())))
    if not fitted:
        raise DeviceError(f"no kind of kernel has {LEAST_ROWS} rows of {gpu.title}")
    return tuple(fitted)


def _kinds(gpu: GpuSpec, tables: Mapping[str, Table]) -> Iterator[tuple[KernelKind, Floats, Floats]]:
    """Kind of kernel, times by law, measured times; only rows that the simulation has."""
    family = family_of(gpu.architecture)
    for operation, table in tables.items():
        for kind, rows, time in _laws(gpu, family, operation, table):
            kept = {name: column[rows] for name, column in table.items()}
            if rows.any():
                yield kind, time(kept), np.asarray(kept["latency"].astype(float) * 1e6)


def _laws(
    gpu: GpuSpec, family: KernelFamily, operation: str, table: Table
) -> Iterator[tuple[KernelKind, Bools, Callable[[Table], Floats]]]:
    """Kinds of kernels in a table, the rows of each, and their law."""
    if operation == "context_attention":
        yield "prompts", _plain_attention(table), _first(partial(prompt_times, gpu, family))
    elif operation == "generation_attention":
        yield "decoding", _plain_attention(table), _first(partial(decoding_times, gpu, family))
    elif operation == "all_reduce":
        graphs = np.char.find(np.asarray(table.get("backend", table["num_gpus"]), dtype=str), "eager") < 0
        for gpus in family.sums.small_gb_s:
            yield "sums", graphs & (table["num_gpus"].astype(int) == gpus), partial(_sums, family, gpus)
    else:
        product = operation == "gemm"
        forms = np.array([FORMATS.get(str(name), "") for name in table[COLUMNS[operation][0]]])
        one_gpu = np.ones(forms.size, np.bool_) if product else table["moe_ep_size"].astype(float) == 1.0
        for form in dict.fromkeys(FORMATS.values()):
            time = partial(product_times if product else expert_times, gpu, family, form)
            yield kernel_kind("products" if product else "experts", form), one_gpu & (forms == form), _first(time)


def _first(times: Callable[[Table], Times]) -> Callable[[Table], Floats]:
    return lambda table: times(table)[0]


def _sums(family: KernelFamily, gpus: int, table: Table) -> Floats:
    return family.sums.ns(table["message_size"].astype(float), gpus)


def _plain_attention(table: Table) -> Bools:
    """Rows without a window, with a cache in half precision: what the laws are of."""
    rows = np.ones(table["latency"].size, np.bool_)
    if "window_size" in table:
        rows &= table["window_size"].astype(float) == 0
    if "kv_cache_dtype" in table:
        rows &= np.isin(table["kv_cache_dtype"].astype(str), [name for name, form in FORMATS.items() if form == "half"])
    return rows


def _scale(law_ns: Floats, measured_ns: Floats) -> KernelScale:
    """Least mean relative error, by least squares that weigh rows which are far off less."""
    design = np.column_stack([law_ns, np.full(law_ns.size, 1e3)]) / measured_ns[:, None]
    weight, solved = np.ones(law_ns.size), np.array([1.0, 0.0])
    for _ in range(_ROUNDS):
        solved = np.linalg.lstsq(design * weight[:, None], weight, rcond=None)[0]
        weight = 1.0 / np.sqrt(np.maximum(np.abs(design @ solved - 1.0), 1e-3))
    return KernelScale(times=max(float(solved[0]), 1e-3), added_us=float(solved[1]))
