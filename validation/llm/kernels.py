"""Kernels of vLLM beside tables of their measured times."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.kernels.attention import AttentionPart, Heads, decoding, prompts, prompts_launched
from cotenant.prediction.kernels.columns import Floats
from cotenant.prediction.kernels.cost import plain_roofline_ns, solo_costs
from cotenant.prediction.kernels.families import Format, KernelFamily, family_of
from cotenant.prediction.kernels.layers import expert_matrices, matrix
from cotenant.prediction.kernels.operators import columns
from validation.llm.data import FILES, KERNELS, every_second, gpu_of, read
from validation.measures import absolute_error
from validation.result import Measure, Result, Row, Target

_ROOFLINE = "plain roofline"
_FORMATS: Mapping[str, Format] = {"bfloat16": "half", "fp8": "fp8", "fp8_block": "fp8 blocks"}
_MEASURED_RANK = {"a100": 0.536, "h100": 0.75}
"""Load of the measured GPU among others with other experts, as a power of their number: fitted, not in the product,
which never splits experts over GPUs."""
_SPLIT = "Constants fitted on half of the shapes; the other half is held out."
_CROSS = "constants of the other GPU"

Times = tuple[Floats, Floats]
"""Simulated times and those of the plain roofline, ns."""


def validate(data: Path) -> tuple[Result, ...]:
    """All kernels."""
    return (_products(data), _prompts(data), _decoding(data), _experts(data))


def _result(
    what: str, measures: list[Measure], rows: list[Row], *, split: str = _SPLIT, notes: tuple[str, ...] = ()
) -> Result:
    return Result("kernels", what, KERNELS, split, "time", "ms", tuple(rows), tuple(measures), notes)


def _products(data: Path) -> Result:
    rows: list[Row] = []
    measures: list[Measure] = []
    for name, formats, limits in (
        ("a100", ("bfloat16",), {"bfloat16": 12.0, _CROSS: 17.0}),
        ("h100", ("bfloat16", "fp8", "fp8_block"), {"bfloat16": 9.0, "fp8": 22.0, "fp8_block": 22.0, _CROSS: 14.0}),
    ):
        table = read(data, FILES[name].format("gemm"), ("gemm_dtype", "m", "n", "k", "latency"))
        for form in formats:
            frame = table[table.gemm_dtype == form]
            fitted = every_second(frame, ("n", "k"))
            mine = _compared(
                frame, fitted, product_times(frame, gpu_of(name), family_of(gpu_of(name).architecture), form)
            )
            rows += mine
            measures.append(_error(mine, f"matrix products, {name.upper()}, {form}", limits[form]))
        frame = table[table.gemm_dtype == "bfloat16"]
        other = family_of(gpu_of(_other(name)).architecture)
        crossed = _compared(
            frame, np.zeros(len(frame), np.bool_), product_times(frame, gpu_of(name), other, "bfloat16")
        )
        measures.append(_error(crossed, f"the same, {name.upper()}, bfloat16, {_CROSS}", limits[_CROSS]))
    return _result("matrix products", measures, rows)


def product_times(frame: Any, gpu: GpuSpec, family: KernelFamily, form: str) -> Times:
    """Products by rows, columns and length of the sums."""
    rounded = form != "bfloat16"
    sizes = zip(frame.m.tolist(), frame.n.tolist(), frame.k.tolist(), strict=True)
    kernels = columns(
        [
            matrix(
                "product", (float(m), float(n), float(k), 1.0), weight_bytes=1.0 if rounded else 2.0, rounded=rounded
            )
            for m, n, k in sizes
        ]
    )
    costs = solo_costs(kernels, gpu, efficiency=family.products[_FORMATS[form]])
    return costs.duration_ns, plain_roofline_ns(kernels, gpu)


def _prompts(data: Path) -> Result:
    needed = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "latency")

    def time(family: KernelFamily, heads: Heads, part: AttentionPart, frame: Any) -> Times:
        tokens, count = frame.isl.to_numpy(float), frame.batch_size.to_numpy(float)
        work = prompts(family.prompts, heads, part, queries=tokens, contexts=np.zeros(len(frame)), count=count)
        flops = 2.0 * count * heads.query * tokens * tokens * heads.width
        moved = 2.0 * count * tokens * (heads.query + heads.cached) * heads.width * 2.0
        roofline = np.maximum(flops / (part.rate * part.sms), moved / part.bandwidth)
        return prompts_launched(family.prompts, part, work).duration_ns, roofline

    return _attention(data, "context_attention", needed, time=time, what="attention of prompts", limits=(15.0, 14.0))


def _decoding(data: Path) -> Result:
    needed = ("batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "latency")

    def time(family: KernelFamily, heads: Heads, part: AttentionPart, frame: Any) -> Times:
        count, context = frame.batch_size.to_numpy(float), frame.step.to_numpy(float)
        moved = 2.0 * count * context * heads.cached * heads.width * 2.0
        return decoding(family.decoding, heads, part, count, context).duration_ns, moved / part.bandwidth

    return _attention(data, "generation_attention", needed, time=time, what="attention of decoding", limits=(18.0, 9.0))


def _attention(
    data: Path,
    file: str,
    needed: tuple[str, ...],
    *,
    time: Callable[[KernelFamily, Heads, AttentionPart, Any], Times],
    what: str,
    limits: tuple[float, float],
) -> Result:
    rows: list[Row] = []
    measures: list[Measure] = []
    for name, limit in zip(("a100", "h100"), limits, strict=True):
        frame = read(data, FILES[name].format(file), needed)
        if "window_size" in frame:
            frame = frame[(frame.window_size == 0) & (frame.kv_cache_dtype == "bfloat16")]
        fitted = every_second(frame, ("num_heads", "num_key_value_heads"))
        mine = _compared(frame, fitted, _by_heads(frame, gpu_of(name), family_of(gpu_of(name).architecture), time))
        rows += mine
        measures.append(_error(mine, f"{what}, {name.upper()}", limit))
        other = family_of(gpu_of(_other(name)).architecture)
        crossed = _compared(frame, np.zeros(len(frame), np.bool_), _by_heads(frame, gpu_of(name), other, time))
        measures.append(_error(crossed, f"the same, {name.upper()}, {_CROSS}", None))
    note = "The tables are measured in a loop, so that small contexts stay in L2; engines are simulated without that."
    return _result(what, measures, rows, notes=(note,))


def _by_heads(
    frame: Any, gpu: GpuSpec, family: KernelFamily, time: Callable[[KernelFamily, Heads, AttentionPart, Any], Times]
) -> Times:
    rate = gpu.tensor_rate("bfloat16")
    assert rate is not None
    part = AttentionPart(float(gpu.sms), rate / gpu.sms * 1e-9, gpu.bandwidth_gb_s, gpu.l2_bytes)
    simulated, simple = np.empty(len(frame)), np.empty(len(frame))
    for (query, cached, width), at in frame.groupby(["num_heads", "num_key_value_heads", "head_dim"]).indices.items():
        heads = Heads(float(query), float(cached), float(width))
        simulated[at], simple[at] = time(family, heads, part, frame.iloc[at])
    return simulated, simple


def _experts(data: Path) -> Result:
    needed = (
        "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
        "distribution", "latency",
    )  # fmt: skip
    rows: list[Row] = []
    measures: list[Measure] = []
    for name, limits in (("a100", {"bfloat16": 22.0}), ("h100", {"bfloat16": 15.0, "fp8": 22.0, "fp8_block": 22.0})):
        table = read(data, FILES[name].format("moe"), needed)
        for form, limit in limits.items():
            frame = table[table.moe_dtype == form]
            fitted = every_second(frame, ("hidden_size", "inter_size", "num_experts", "moe_tp_size", "moe_ep_size"))
            mine = _compared(frame, fitted, _expert_times(frame, name, form))
            rows += mine
            measures.append(_error(mine, f"fused experts, {name.upper()}, {form}", limit))
            whole = (frame.moe_ep_size == 1).to_numpy()
            few = [row for row, is_whole in zip(mine, whole, strict=True) if is_whole]
            measures.append(_error(few, "the same, all experts on one GPU or split by columns", None))
    note = (
        "Of several GPUs with different experts, the tables have one with more than its share of tokens; its load is "
        "a fitted power of their number, which the product doesn't use."
    )
    return _result("mixtures of experts", measures, rows, notes=(note,))


def _expert_times(frame: Any, name: str, form: str) -> Times:
    gpu = gpu_of(name)
    law = family_of(gpu.architecture).experts[_FORMATS[form]]
    rounded = form != "bfloat16"
    tokens, active = frame.num_tokens.to_numpy(float), frame.topk.to_numpy(float)
    ranks = frame.moe_ep_size.to_numpy(float)
    experts = frame.num_experts.to_numpy(float) / ranks
    balanced = (frame.distribution == "balanced").to_numpy()
    assigned = np.maximum(1.0, tokens * active * np.where(balanced, 1 / ranks, ranks ** -_MEASURED_RANK[name]))
    chosen = experts * (1 - (1 - 1 / np.maximum(experts, 1.0)) ** assigned)
    touched = np.clip(np.where(balanced, np.minimum(experts, np.ceil(assigned)), chosen), 1.0, experts)
    width = frame.hidden_size.to_numpy(float)
    inner = frame.inter_size.to_numpy(float) / frame.moe_tp_size.to_numpy(float)
    each = np.maximum(assigned / touched, 1.0)
    pairs = [
        expert_matrices(w, i, touched=t, tokens=e, weight_bytes=1.0 if rounded else 2.0, rounded=rounded)
        for w, i, t, e in zip(width, inner, touched, each, strict=True)
    ]
    times, simple = np.zeros(len(frame)), np.zeros(len(frame))
    for which in (0, 1):
        kernels = columns([pair[which] for pair in pairs])
        times += solo_costs(kernels, gpu, efficiency=law.products).duration_ns
        simple += plain_roofline_ns(kernels, gpu)
    return times + law.routed_ns(tokens * active, width, inner, gpu.bandwidth_gb_s), simple


def _other(name: str) -> str:
    return "h100" if name == "a100" else "a100"


def _compared(frame: Any, fitted: Any, times: Times) -> list[Row]:
    return [
        Row("", measured, simulated / 1e6, {_ROOFLINE: simple / 1e6}, held_out=not used)
        for measured, simulated, simple, used in zip(frame.latency.tolist(), *times, fitted, strict=True)
    ]


def _error(rows: list[Row], of: str, at_most: float | None) -> Measure:
    return absolute_error(rows, of=of, target=None if at_most is None else Target(high=at_most))
