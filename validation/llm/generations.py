"""Whole generations of batches on A100s with vLLM of 2024."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.errors import DoesNotFit
from cotenant.prediction.engines.alone import serve
from cotenant.prediction.engines.continuous_batching import Batching, EngineSettings
from cotenant.prediction.engines.engine_profile import ENGINES
from cotenant.prediction.engines.language_model import LanguageModel, language_model
from cotenant.prediction.engines.layer_tables import EnginePart
from cotenant.prediction.engines.on_gpu import cache_blocks
from cotenant.prediction.engines.step import StepShape, StepTimes
from cotenant.prediction.kernels.columns import Floats
from validation.llm.data import model_of, read
from validation.measures import absolute_error
from validation.result import Measure, Result, Row, Target

_FILE = "llm/a100_llm_inference_bench.csv"
_COLUMNS = ("Num of Hardware", "Framework", "Model", "Input Output Length", "Batch Size", "Latency")
_SOURCE = "vLLM of 2024 on A100s of 40 GB, argonne-lcf/LLM-Inference-Bench, BSD-3-Clause"
_SPLIT = (
    "Host time per step, per sequence and step, and per GPU and step are fitted on the other models, for one GPU and "
    "for several."
)
_MOST_TOKENS = 8192
_SIMPLE = "weights and cache at full bandwidth"
_MISTRAL = {
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 32000, "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}  # fmt: skip
_OTHERS = {
    "Qwen/Qwen2-7B": {
        **_MISTRAL, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    },
    "Deci/DeciLM-7B": {**_MISTRAL, "num_key_value_heads": 2},
    "mistralai/Mistral-7B-v0.1": _MISTRAL,
    "mistralai/Mixtral-8x7B-v0.1": {**_MISTRAL, "num_local_experts": 8, "num_experts_per_tok": 2},
}  # fmt: skip
"""Dimensions of models outside the catalogue, from their configurations."""
_OURS = {
    "meta-llama/Llama-2-7b-hf": "llama-2-7b",
    "meta-llama/Llama-2-70b-hf": "llama-2-70b",
    "meta-llama/Meta-Llama-3-8B": "llama-3.1-8b",
    "meta-llama/Meta-Llama-3-70B": "llama-3.1-70b",
}


def validate(data: Path) -> tuple[Result, ...]:
    """Each model with the host's constants fitted on the others."""
    rows, left_out = rows_of(data)
    measures: list[Measure] = []
    for title, limit, single in (("one GPU", 8.0, True), ("2 to 4 GPUs", 14.0, False)):
        mine = [row for gpus, row in rows if (gpus == 1) == single]
        measures.append(
            absolute_error(mine, of=f"whole generations, {title}, left-out model", target=Target(high=limit))
        )
    listed = tuple(row for _, row in rows)
    return (
        Result(
            "generations",
            "whole generations of a batch",
            _SOURCE,
            _SPLIT,
            "latency",
            "s",
            listed,
            tuple(measures),
            left_out=left_out,
        ),
    )


@cache
def rows_of(data: Path) -> tuple[list[tuple[int, Row]], tuple[str, ...]]:
    """Number of GPUs and row of every generation; what was left out."""
    frame = read(data, _FILE, _COLUMNS)
    frame = frame[frame.Framework == "vLLM"]
    frame = frame.groupby(list(_COLUMNS[:-1]), as_index=False).Latency.median()
    times: dict[tuple[str, int], StepTimes] = {}
    parts, kept, refused = [], [], 0
    for row in frame.itertuples(index=False):
        name, gpus, tokens, batch = row.Model, int(row[0]), int(row[3]), int(row[4])
        if (name, gpus) not in times:
            times[name, gpus] = _times(_model(name), gpus)
        try:
            parts.append((*_simulated(times[name, gpus], tokens, batch), gpus))
        except DoesNotFit:
            refused += 1
            kept.append(False)
        else:
            kept.append(True)
    ran = frame[np.array(kept)].reset_index(drop=True)
    inputs, measured = np.array(parts), ran.Latency.to_numpy(float)
    models = ran.Model.to_numpy()
    found = np.zeros(len(ran))
    alone = inputs[:, 3] == 1
    for name in np.unique(models):
        for several in (alone, ~alone):
            mine, others = (models == name) & several, (models != name) & several
            if mine.any():
                found[mine] = _total(inputs[mine], _host(inputs[others], measured[others]))
    simple = _simple(ran)
    rows = [
        (int(inputs[at, 3]), Row(models[at], measured[at], found[at], {_SIMPLE: simple[at]})) for at in range(len(ran))
    ]
    why = f"{refused} generations that ran don't fit the simulated memory." if refused else ""
    return rows, (why,) if why else ()


def _model(name: str) -> LanguageModel:
    return model_of(_OURS[name]) if name in _OURS else language_model(name, _OTHERS[name])


def _times(model: LanguageModel, gpus: int) -> StepTimes:
    part = EnginePart(find_gpu("a100-sxm4-40gb"), gpus=gpus)
    return StepTimes(model, part, most_tokens=_MOST_TOKENS)


def _simulated(times: StepTimes, tokens: int, batch: int) -> tuple[float, float, float]:
    """Device time of a batch in s, steps, and steps times sequences."""
    profile = ENGINES["vllm"]
    blocks = cache_blocks(times.model, times.part, profile, most_tokens=_MOST_TOKENS)
    batching = Batching(EngineSettings(256, _MOST_TOKENS, blocks, profile.block_tokens))

    def device(step: StepShape) -> tuple[float, float]:
        time = times.device_ns(step)
        return time, time

    record = serve(batching, device, lambda _: (tokens, tokens), until_ns=float("inf"), arrivals_ns=np.zeros(batch))
    return record.step_end[-1] / 1e9, float(len(record.step_end)), float(sum(record.step_sequences))


def _total(inputs: Floats, host: Floats) -> Floats:
    device, steps, sequences, gpus = inputs.T
    return np.asarray(device + steps * host[0] + sequences * host[1] + steps * (gpus - 1) * host[2])


def _host(inputs: Floats, measured: Floats) -> Floats:
    """Seconds of host per step, per sequence and step, and per further GPU and step."""
    device, steps, sequences, gpus = inputs.T
    columns = np.stack([steps, sequences, steps * (gpus - 1)], axis=1) / measured[:, None]
    share = 1.0 - device / measured
    weights = np.ones(len(measured))
    solved = np.zeros(3)
    for _ in range(20):  # least absolute errors: a few generations ran out of memory and took many times as long
        solved = lsq_linear(columns * weights[:, None], share * weights, bounds=(0.0, 0.1)).x
        weights = 1.0 / np.sqrt(np.maximum(np.abs(columns @ solved - share), 0.01))
    return np.asarray(solved)


def _simple(frame: Any) -> Floats:
    fitted = []
    gpu = find_gpu("a100-sxm4-40gb")
    for row in frame.itertuples(index=False):
        model, gpus, tokens, batch = _model(row.Model), int(row[0]), int(row[3]), int(row[4])
        moved = 2 * (model.layer_weights + model.table_weights) + batch * 1.5 * tokens * model.cached_bytes
        fitted.append(tokens * moved / gpus / gpu.bandwidth_gb_s / 1e9)
    return np.array(fitted)
