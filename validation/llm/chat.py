"""Chat load on an H100 at rising numbers of sequences: times between tokens, throughput, energy."""

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.prediction.engines.alone import serve, step_ns
from cotenant.prediction.engines.continuous_batching import Batching, EngineSettings
from cotenant.prediction.engines.engine_profile import ENGINES, EngineProfile
from cotenant.prediction.engines.layer_tables import EnginePart
from cotenant.prediction.engines.on_gpu import cache_blocks
from cotenant.prediction.engines.step import StepTimes
from cotenant.prediction.kernels.columns import Floats
from validation.llm.data import gpu_of, model_of, read
from validation.measures import absolute_error
from validation.result import Measure, Result, Row, Target

_FILE = "llm/h100_vllm_mlenergy_chat.csv"
_COLUMNS = (
    "model", "avg_batch_size", "avg_output_len", "median_itl_ms", "p90_itl_ms", "output_throughput_tokens_per_sec",
    "energy_per_token_joules", "avg_power_watts",
)  # fmt: skip
_SOURCE = "vLLM on an H100, LM Arena chats of three models; ML.ENERGY leaderboard, figures only (no licence found)"
_NAMES = {
    "Qwen/Qwen3-14B": "qwen3-14b",
    "Qwen/Qwen3-8B": "qwen3-8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
}
_LENGTHS = (
    "Prompt lengths aren't in the file: their mean is fitted, drawn from an exponential distribution. Outputs are "
    "drawn from a gamma distribution of the mean in the file."
)
_STEP_US, _SEQUENCE_US, _PROMPT = (700.0,), (40.0, 50.0, 60.0), (70, 100, 140)
_MOST_TOKENS = 8192
_DRAWN = 4096
"""Distinct lengths of requests."""
_WARM, _SPAN = 0.7, 1.0
"""Generations before and within the window."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """Constants of the engine, and the mean prompt, which the file doesn't have."""

    step_us: float
    sequence_us: float
    prompt: int

    @property
    def profile(self) -> EngineProfile:
        return replace(ENGINES["vllm"], step_us=self.step_us, sequence_us=self.sequence_us)


@cache
def validate(data: Path) -> tuple[Result, ...]:
    """Each model with constants chosen on the other two."""
    frame = read(data, _FILE, _COLUMNS)
    frame = frame[frame.model.isin(_NAMES)].reset_index(drop=True)
    times = {name: _times(ours) for name, ours in _NAMES.items()}
    settings = [_Setting(*values) for values in product(_STEP_US, _SEQUENCE_US, _PROMPT)]
    simulated = np.array(
        [[_simulated(row, times[row.model], setting) for row in frame.itertuples()] for setting in settings]
    )
    measured = frame[["median_itl_ms", "p90_itl_ms"]].to_numpy(float)
    error = np.abs(simulated[:, :, :2] / measured - 1.0).mean(axis=2)
    models = frame.model.to_numpy()
    chosen: dict[str, int] = {name: int(np.argmin(error[:, models != name].mean(axis=1))) for name in np.unique(models)}
    mine = np.array([simulated[chosen[model], number] for number, model in enumerate(models)])
    simple = _simple(frame)
    measures: list[Measure] = []
    rows: list[Row] = []
    for column, name, limit in ((0, "median", 10.0), (1, "p90", 15.0)):
        listed = [
            Row(
                models[number],
                measured[number, column],
                mine[number, column],
                {"line in the batch": simple[number, column]},
            )
            for number in range(len(frame))
        ]
        rows += listed
        target = Target(high=limit)
        measures.append(absolute_error(listed, of=f"time between tokens, {name}, left-out model", target=target))
    measures += _energy(frame, mine)
    names = "; ".join(
        f"{_NAMES[name]}: {settings[at].step_us:g} and {settings[at].sequence_us:g} us, {settings[at].prompt} tokens"
        for name, at in chosen.items()
    )
    return (
        Result(
            "chat",
            "chat load on an H100",
            _SOURCE,
            "Host time per step and per sequence and the mean prompt are chosen on the other two models.",
            "time between tokens",
            "ms",
            tuple(rows),
            tuple(measures),
            (
                f"Chosen without the model (host per step and sequence, prompt): {names}.",
                _LENGTHS,
                "Power is a line in the logarithm of tokens per second, fitted on the other two; runs don't use it.",
            ),
        ),
    )


def _times(name: str) -> StepTimes:
    part = EnginePart(gpu_of("h100"))
    return StepTimes(model_of(name), part, most_tokens=_MOST_TOKENS, attention=ENGINES["vllm"].attention)


def _simulated(row: Any, times: StepTimes, setting: _Setting) -> tuple[float, float, float]:
    """Median and p90 between tokens, ms; tokens per second."""
    in_flight = round(row.avg_batch_size)
    profile = setting.profile
    blocks = cache_blocks(times.model, times.part, profile, most_tokens=_MOST_TOKENS)
    batching = Batching(EngineSettings(in_flight, _MOST_TOKENS, blocks, profile.block_tokens))
    draw = np.random.default_rng(0)
    prompts = np.maximum(1, draw.exponential(setting.prompt, _DRAWN)).astype(int)
    outputs = np.maximum(2, draw.gamma(1.5, row.avg_output_len / 1.5, _DRAWN)).astype(int)
    generation_ns = row.median_itl_ms * row.avg_output_len * 1e6
    record = serve(
        batching,
        lambda step: step_ns(profile, times, step),
        lambda number: (int(prompts[number % _DRAWN]), int(outputs[number % _DRAWN])),
        until_ns=(_WARM + _SPAN) * generation_ns,
        in_flight=in_flight,
    )
    between = record.tokens().between(_WARM * generation_ns)
    span_s = (record.step_end[-1] - _WARM * generation_ns) / 1e9
    return float(np.median(between)) / 1e6, float(np.quantile(between, 0.9)) / 1e6, between.size / span_s


def _simple(frame: Any) -> Floats:
    """A line in the batch per size of model, fitted without the model."""
    fitted = np.zeros((len(frame), 2))
    weights = np.array([model_of(_NAMES[model]).layer_weights / 1e9 for model in frame.model])
    batch = frame.avg_batch_size.to_numpy(float)
    inputs = np.stack([weights, batch * weights, np.ones(len(frame))], axis=1)
    for name in frame.model.unique():
        mine = (frame.model == name).to_numpy()
        for column, quantity in enumerate(("median_itl_ms", "p90_itl_ms")):
            measured = frame[quantity].to_numpy(float)
            scaled = inputs[~mine] / measured[~mine, None]
            law = np.linalg.lstsq(scaled, np.ones(int((~mine).sum())), rcond=None)[0]
            fitted[mine, column] = np.maximum(inputs[mine] @ law, 0.1)
    return fitted


def _energy(frame: Any, mine: Floats) -> list[Measure]:
    """Energy per token from the simulated throughput and a power that is a line in its logarithm, without the model."""
    power, made = frame.avg_power_watts.to_numpy(float), np.log(mine[:, 2])
    measured = frame.energy_per_token_joules.to_numpy(float)
    rows: list[Row] = []
    for name in frame.model.unique():
        at = (frame.model == name).to_numpy()
        slope, level = np.polyfit(made[~at], power[~at], 1)
        constant = power[~at].mean()
        drawn = np.minimum(slope * made[at] + level, gpu_of("h100").power.limit_w)
        rows += [
            Row(name, energy, watts / rate, {"constant power": constant / rate})
            for energy, watts, rate in zip(measured[at], drawn, mine[at, 2], strict=True)
        ]
    return [absolute_error(rows, of="energy per token, left-out model", target=Target(high=12.0))]
