"""Forward passes of a running vLLM beside simulated steps."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.prediction.engines.alone import host_ns
from cotenant.prediction.engines.engine_profile import ENGINES
from cotenant.prediction.engines.layer_tables import EnginePart
from cotenant.prediction.engines.step import StepShape, StepTimes
from cotenant.prediction.kernels.columns import Floats, Ints
from validation.llm.data import model_of, read
from validation.measures import absolute_error
from validation.result import Measure, Result, Row, Target

_FILE = "llm/b200_vllm0.20_qwen3-32b_tp1_forward_passes.csv"
_COLUMNS = (
    "phase", "counter_id", "ctx_tokens", "ctx_requests", "ctx_kv_tokens", "decode_requests", "decode_kv_tokens",
    "latency_ms",
)  # fmt: skip
_SOURCE = "vLLM 0.20.1, Qwen3-32B in bfloat16, by its rate on a B200; ai-dynamo/aiconfigurator, Apache-2.0"
_SPLIT = (
    "Kernels have the constants of an H100, the engine those of chat load on an H100; of this file, only the B200's "
    "sustained clock is taken, from the rate of its prompts."
)
_MOST_TOKENS = 8192
_SLIPPED = 1.65
_PHASES = {"context": (10.0, 5.0), "decode": (12.0, 5.0), "mixed": (12.0, 8.0)}
_CHOSEN = 50
"""Passes that calibration may see."""
_SIMPLE = "weights at full bandwidth or peak rate"


@cache
def validate(data: Path) -> tuple[Result, ...]:
    """As simulated, and calibrated on a few passes."""
    frame = read(data, _FILE, _COLUMNS).sort_values("counter_id").reset_index(drop=True)
    measured = frame.latency_ms.to_numpy(float)
    parts = _parts(frame)
    plain = parts.sum(axis=1)
    chosen = _spread(frame)
    # Time slips between neighbouring passes: the scheduler's clock stops before the device does.
    kept = np.abs(np.log(plain / measured)) < np.log(_SLIPPED)
    fitted = parts @ _scales(parts[chosen], measured[chosen])
    slipped = f"{int((~kept).sum())} passes of {len(frame)} are off by more than {_SLIPPED}x and left out."
    simple = _simple(frame)
    return (
        _result(frame, kept, (measured, plain, simple), what="as they are", limit=0, split=_SPLIT, slipped=slipped),
        _result(
            frame,
            kept & ~np.isin(np.arange(len(frame)), chosen),
            (measured, fitted, simple),
            what=f"calibrated on {_CHOSEN} of them",
            limit=1,
            split=f"Times of host, products and attention are scaled to {_CHOSEN} passes of all phases with spread-out "
            "contexts; these are left out.",
            slipped=slipped,
        ),
    )


def _result(
    frame: Any,
    kept: np.ndarray[Any, np.dtype[np.bool_]],
    times: tuple[Floats, Floats, Floats],
    *,
    what: str,
    limit: int,
    split: str,
    slipped: str,
) -> Result:
    rows: list[Row] = []
    measures: list[Measure] = []
    for phase, limits in _PHASES.items():
        at = np.flatnonzero(kept & (frame.phase == phase).to_numpy())
        mine = [Row(phase, times[0][number], times[1][number], {_SIMPLE: times[2][number]}) for number in at]
        rows += mine
        measures.append(absolute_error(mine, of=f"forward passes, {phase}", target=Target(high=limits[limit])))
    what = f"forward passes of Qwen3-32B, {what}"
    return Result("passes", what, _SOURCE, split, "time", "ms", tuple(rows), tuple(measures), (slipped,))


def _parts(frame: Any) -> Floats:
    """Milliseconds of each pass: host, prompts' extra, products, attention of prompts, attention of decoding."""
    profile = ENGINES["vllm"]
    model = model_of("qwen3-32b")
    times = StepTimes(
        model, EnginePart(find_gpu("b200-sxm-180gb")), most_tokens=_MOST_TOKENS, attention=profile.attention
    )
    parts = np.zeros((len(frame), 5))
    for number, row in enumerate(frame.itertuples()):
        count = int(row.ctx_requests)
        step = StepShape(
            int(row.decode_requests),
            float(row.decode_kv_tokens),
            (row.ctx_tokens / count,) * count if count else (),
            (row.ctx_kv_tokens / count,) * count if count else (),
        )
        attended = [float(launch.duration_ns[0]) * model.layers for launch in times.attended(step)]
        prompt = attended[0] if count else 0.0
        extra = profile.prompt_us * 1e3 if count else 0.0
        products = times.device_ns(step) - sum(attended)
        parts[number] = (host_ns(profile, step) - extra, extra, products, prompt, sum(attended) - prompt)
    return parts / 1e6


def _scales(parts: Floats, measured: Floats) -> Floats:
    """Factors that fit the relative error, between a quarter and four."""
    solved = lsq_linear(parts / measured[:, None], np.ones(len(measured)), bounds=(0.25, 4.0))
    return np.asarray(solved.x)


def _spread(frame: Any) -> Ints:
    """Passes of all phases that differ in tokens and context: random ones don't determine attention."""
    chosen: list[int] = []
    for phase, count in (("context", 10), ("decode", 20), ("mixed", 20)):
        at = np.flatnonzero((frame.phase == phase).to_numpy())
        load = (frame.ctx_tokens + frame.ctx_kv_tokens + frame.decode_kv_tokens).to_numpy()[at]
        order = at[np.argsort(load, kind="stable")]
        chosen += order[np.linspace(0, order.size - 1, count).astype(int)].tolist()
    return np.array(chosen, np.int64)


def _simple(frame: Any) -> Floats:
    gpu, model = find_gpu("b200-sxm-180gb"), model_of("qwen3-32b")
    weights = model.layer_weights + model.table_weights
    tokens = (frame.ctx_tokens + frame.decode_requests).to_numpy(float)
    rate = gpu.tensor_rate("bfloat16")
    assert rate is not None
    return np.asarray(np.maximum(weights * 2 / gpu.bandwidth_gb_s / 1e6, tokens * 2 * weights / rate * 1e3))
