"""Kernels of vLLM beside tables of their measured times."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.prediction.calibration.kernel_tables import (
    COLUMNS,
    FORMATS,
    Table,
    Times,
    decoding_times,
    expert_times,
    product_times,
    prompt_times,
)
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.kernels.families import KernelFamily, family_of
from validation.llm.data import FILES, KERNELS, every_second, gpu_of, read
from validation.measures import absolute_error
from validation.result import Measure, Result, Row, Target

_ROOFLINE = "plain roofline"
_MEASURED_RANK = {"a100": 0.536, "h100": 0.75}
"""Load of the measured GPU among others with other experts, as a power of their number: fitted, not in the product,
which never splits experts over GPUs."""
_SPLIT = "Constants fitted on half of the shapes; the other half is held out."
_CROSS = "constants of the other GPU"


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
        table = read(data, FILES[name].format("gemm"), (*COLUMNS["gemm"], "latency"))
        for form in formats:
            frame = table[table.gemm_dtype == form]
            fitted = every_second(frame, ("n", "k"))
            mine = _compared(
                frame,
                fitted,
                product_times(gpu_of(name), family_of(gpu_of(name).architecture), FORMATS[form], _columns(frame)),
            )
            rows += mine
            measures.append(_error(mine, f"matrix products, {name.upper()}, {form}", limits[form]))
        frame = table[table.gemm_dtype == "bfloat16"]
        other = family_of(gpu_of(_other(name)).architecture)
        crossed = _compared(
            frame, np.zeros(len(frame), np.bool_), product_times(gpu_of(name), other, "half", _columns(frame))
        )
        measures.append(_error(crossed, f"the same, {name.upper()}, bfloat16, {_CROSS}", limits[_CROSS]))
    return _result("matrix products", measures, rows)


def _prompts(data: Path) -> Result:
    return _attention(data, "context_attention", time=prompt_times, what="attention of prompts", limits=(15.0, 14.0))


def _decoding(data: Path) -> Result:
    return _attention(
        data, "generation_attention", time=decoding_times, what="attention of decoding", limits=(18.0, 9.0)
    )


def _attention(
    data: Path,
    file: str,
    *,
    time: Callable[[GpuSpec, KernelFamily, Table], Times],
    what: str,
    limits: tuple[float, float],
) -> Result:
    rows: list[Row] = []
    measures: list[Measure] = []
    for name, limit in zip(("a100", "h100"), limits, strict=True):
        frame = read(data, FILES[name].format(file), (*COLUMNS[file], "latency"))
        if "window_size" in frame:
            frame = frame[(frame.window_size == 0) & (frame.kv_cache_dtype == "bfloat16")]
        fitted = every_second(frame, ("num_heads", "num_key_value_heads"))
        mine = _compared(frame, fitted, time(gpu_of(name), family_of(gpu_of(name).architecture), _columns(frame)))
        rows += mine
        measures.append(_error(mine, f"{what}, {name.upper()}", limit))
        other = family_of(gpu_of(_other(name)).architecture)
        crossed = _compared(frame, np.zeros(len(frame), np.bool_), time(gpu_of(name), other, _columns(frame)))
        measures.append(_error(crossed, f"the same, {name.upper()}, {_CROSS}", None))
    note = "The tables are measured in a loop, so that small contexts stay in L2; engines are simulated without that."
    return _result(what, measures, rows, notes=(note,))


def _experts(data: Path) -> Result:
    rows: list[Row] = []
    measures: list[Measure] = []
    for name, limits in (("a100", {"bfloat16": 22.0}), ("h100", {"bfloat16": 15.0, "fp8": 22.0, "fp8_block": 22.0})):
        table = read(data, FILES[name].format("moe"), (*COLUMNS["moe"], "latency"))
        for form, limit in limits.items():
            frame = table[table.moe_dtype == form]
            fitted = every_second(frame, ("hidden_size", "inter_size", "num_experts", "moe_tp_size", "moe_ep_size"))
            gpu = gpu_of(name)
            times = expert_times(
                gpu, family_of(gpu.architecture), FORMATS[form], _columns(frame), rank_power=_MEASURED_RANK[name]
            )
            mine = _compared(frame, fitted, times)
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


def _columns(frame: Any) -> Table:
    return {name: frame[name].to_numpy() for name in frame}


def _other(name: str) -> str:
    return "h100" if name == "a100" else "a100"


def _compared(frame: Any, fitted: Any, times: Times) -> list[Row]:
    return [
        Row("", measured, simulated / 1e6, {_ROOFLINE: simple / 1e6}, held_out=not used)
        for measured, simulated, simple, used in zip(frame.latency.tolist(), *times, fitted, strict=True)
    ]


def _error(rows: list[Row], of: str, at_most: float | None) -> Measure:
    return absolute_error(rows, of=of, target=None if at_most is None else Target(high=at_most))
