"""Times alone: vision models, NVIDIA's tables, language models, and the same by share of SMs."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.devices.simulated.simulated_gpu import request_of
from cotenant.errors import CotenantError
from cotenant.prediction.kernels.cost import plain_roofline_ns
from cotenant.prediction.trust import Class, Phase
from cotenant.tenancy.tenant_entry import TenantEntry
from cotenant.workloads import find
from cotenant.workloads.models.libraries import stand_in
from validation.product import ask, ask_on_share, window_s
from validation.reading import count, number, positive, read_table
from validation.result import Row
from validation.users import nvidia
from validation.users.row import UserRow

Tenant = Mapping[str, Any]
_TIMM = {"inference": "solo/vision_rtx3090_timm.csv", "training": "solo/training_rtx3090_timm.csv"}
_ATTENTION = {"inference": "fused", "training": "unfused"}
"""Trainings were measured before torch 2.0, inference after."""
_SAME_MODEL = 0.02
"""The data state the number of parameters (in millions): within this tolerance, the model is the same."""
_FITTED_TIMM = ("resnet50", "vit_base_patch16", "mobilenetv2_100", "efficientnet_b0")
_SHARES = "sharing/a100_sm_share_llama7b_muxserve.csv"
_GENERATIONS = "llm/a100_llm_inference_bench.csv"
_GENERATED = {
    "meta-llama/Llama-2-7b-hf": "llama-2-7b",
    "meta-llama/Meta-Llama-3-8B": "llama-3.1-8b",
    "meta-llama/Llama-2-70b-hf": "llama-2-70b",
    "mistralai/Mistral-7B-v0.1": "mistral-7b",
}
_PASSES = 200
"""Of thousands of passes of an engine, this many say as much."""
_MOST_GENERATED = 512
"""Longer generations take minutes to simulate."""
_MOST_TOKENS = 16_384
"""Longer prefills are left out: 64 GiB of logits and scores don't fit the simulated card."""


_PHASES: Mapping[Phase, str] = {"prefill": "prefill_ms", "decode": "decode_ms_per_token"}


def alone_ms(gpu: str, tenant: Tenant, expected_ms: float) -> float:
    """Mean latency of a tenant alone, from a study of it."""
    return ask(_study(gpu, tenant, expected_ms)).solo["tenant"].mean_ms


def features(gpu: str, tenant: Tenant) -> tuple[float, ...]:
    """Launches, and the time of its roofline, for the best simple law: milliseconds."""
    spec = TenantEntry(**tenant).spec()
    request = request_of(spec)
    roofline = float(plain_roofline_ns(request.kernels, find_gpu(gpu)).sum()) / 1e6
    return float(request.kernels.launches.sum()) / 1e3, roofline


def timm(data: Path) -> Iterator[UserRow]:
    """Inference and training of vision models in half precision at large batches."""
    for what, file in _TIMM.items():
        training = what == "training"
        short = "train" if training else "infer"
        columns = ("model", f"{short}_img_size", f"{short}_step_time", f"{short}_batch_size", "param_count")
        for line in read_table(data, file, columns):
            name, image, time, batch, params = (line[column] for column in columns)
            side, items = count(image, file, columns[1]), count(batch, file, columns[3])
            workload = f"timm:{name}" if stand_in(name, side) is not None else name
            if not workload.startswith(("timm:", "vgg", "densenet")):
                continue
            tenant: dict[str, Any] = {
                "workload": workload,
                "batch": items,
                "dtype": "float16",
                "params": {"image": side},
                "train": training,
                "attention": _ATTENTION[what],
            }
            try:
                described = find(workload).properties(TenantEntry(**{**tenant, "batch": 1, "train": False}).spec())
            except CotenantError:
                continue
            if abs((described.params or 0) / 1e6 / positive(params, file, "param_count") - 1) > _SAME_MODEL:
                continue
            measured = positive(time, file, columns[2])
            yield UserRow(
                data_set=f"timm {what}",
                case=f"{name}, {side} pixels, batch {items}",
                group=name.partition(".")[0].rstrip("0123456789_"),
                gpu="rtx-3090",
                kind=Class("ampere", "eager", "training" if training else "vision", "alone", calibrated=False),
                quantity="time",
                measured=measured,
                simulated=alone_ms("rtx-3090", tenant, measured),
                fitted=name.startswith(_FITTED_TIMM),
                features=features("rtx-3090", tenant),
            )


def nvidia_tables(data: Path) -> Iterator[UserRow]:
    """Inference of ResNet-50 and BERT as published by NVIDIA."""
    for case in nvidia.cases(data):
        tenant: dict[str, Any] = {"workload": case.model, "batch": case.batch, "dtype": case.dtype}
        tenant |= {"seq": case.seq} if case.seq else {}
        tenant |= {"tf32": True} if case.tf32 else {}
        tenant |= {"software": case.software} if case.software != "eager" else {}
        yield UserRow(
            data_set=f"NVIDIA's tables, {case.source}",
            case=f"{case.model}, {case.dtype}, batch {case.batch}, {case.seq or 'no'} tokens, {case.gpu}",
            group=case.model,
            gpu=case.gpu,
            kind=Class(
                find_gpu(case.gpu).architecture,
                nvidia.OWN_WORDS.get(case.source, case.software),
                "vision" if case.seq is None else "encoder",
                "alone",
                calibrated=False,
            ),
            quantity="time",
            measured=case.measured_ms,
            simulated=alone_ms(case.gpu, tenant, case.measured_ms),
            fitted=case.gpu.startswith("v100"),
            features=features(case.gpu, tenant),
        )


def generations(data: Path) -> Iterator[UserRow]:
    """Whole generations of batches, prompt and output of equal length, with vLLM on 1 to 4 A100s."""
    gpu = "a100-sxm4-40gb"
    columns = ("Num of Hardware", "Framework", "Model", "Input Output Length", "Batch Size", "Latency")
    times: dict[tuple[str, int, int, int], list[float]] = defaultdict(list)
    for line in read_table(data, _GENERATIONS, columns):
        if line["Framework"] == "vLLM" and line["Model"] in _GENERATED:
            gpus, tokens, batch = (count(line[name], _GENERATIONS, name) for name in (columns[0], *columns[3:5]))
            if tokens > _MOST_GENERATED:
                continue
            times[line["Model"], gpus, tokens, batch].append(positive(line["Latency"], _GENERATIONS, "Latency"))
    for (name, gpus, tokens, batch), seconds in times.items():
        tenant: dict[str, Any] = {
            "workload": _GENERATED[name],
            "batch": batch,
            "seq": tokens,
            "tokens": tokens,
            "mode": "generate",
            "dtype": "float16",
            "software": "vllm",
            **({"parallel": gpus} if gpus > 1 else {}),
        }
        measured = float(np.median(seconds)) * 1e3
        study = _study(gpu, tenant, measured) | {"window": f"{window_s([measured * 1.5], requests=2):.6f}s"}
        simulated = ask(study).solo["tenant"].mean_ms
        if math.isnan(simulated):
            continue  # it doesn't fit the simulated memory
        yield UserRow(
            data_set="llm_inference_bench",
            case=f"{name}, {gpus} GPUs, batch {batch}, {tokens} + {tokens} tokens",
            group=_GENERATED[name] + (f" x{gpus}" if gpus > 1 else ""),
            kind=Class("ampere", "vllm", "decode", "alone", calibrated=False, parallel=gpus > 1),
            quantity="time",
            measured=measured,
            simulated=simulated,
            gpu=gpu,
        )


def engines(data: Path) -> Iterator[UserRow]:
    """Times between tokens under chat load on an H100, and passes of a running engine on a B200 (validation/llm)."""
    from validation.llm import chat, passes

    for row in chat.validate(data)[0].rows:
        yield _engine_row("mlenergy_chat", row.case, "h100-sxm5-80gb", "decode", row)
    kept = passes.validate(data)[0].rows
    for row in kept[:: len(kept) // _PASSES]:
        phase: Phase = "prefill" if row.case == "context" else "decode"
        yield _engine_row("aiconfigurator_passes", "qwen3-32b", "b200-sxm-180gb", phase, row)


def _engine_row(data_set: str, model: str, gpu: str, phase: Phase, row: Row) -> UserRow:
    kind = Class(find_gpu(gpu).architecture, "vllm", phase, "alone", calibrated=False)
    case = f"{model}, {row.case}, {gpu}"
    return UserRow(data_set, case, model, kind, "time", float(row.measured), float(row.simulated), gpu=gpu)


def muxserve(data: Path) -> Iterator[UserRow]:
    """Llama-7B as served, alone: prefill and decode, then both by share of SMs relative to all of them."""
    gpu = "a100-sxm4-80gb"
    whole: dict[tuple[str, int, int], tuple[float, float]] = {}
    lines = read_table(data, _SHARES, ("sm_percent", "batch", "prompt_tokens", "prefill_ms", "decode_ms_per_token"))
    for line in sorted(lines, key=lambda line: -int(line["sm_percent"])):
        share, batch, tokens = (count(line[name], _SHARES, name) for name in ("sm_percent", "batch", "prompt_tokens"))
        for phase, column in _PHASES.items():
            measured = number(line[column], _SHARES, column)
            if measured <= 0 or batch * tokens > _MOST_TOKENS:
                continue
            served: dict[str, Any] = {
                "workload": "llama-2-7b",
                "batch": batch,
                "seq": tokens,
                "mode": phase,
                "dtype": "float16",
                "software": "vllm",
            }
            key = (phase, batch, tokens)
            kind = Class("ampere", "vllm", phase, "alone", calibrated=False)
            case = f"Llama-7B {phase}, batch {batch}, {tokens} tokens"
            if share == 100:
                whole[key] = measured, alone_ms(gpu, served, measured)
                yield UserRow(
                    "muxserve", case, "llama-2-7b", kind, "time", *whole[key],
                    fitted=phase == "prefill" or batch in (1, 64), features=features(gpu, served), gpu=gpu,
                )  # fmt: skip
            elif key in whole:
                simulated = ask_on_share(_study(gpu, served, measured), float(share)).mean_ms
                shares = Class("ampere", "vllm", phase, "mps with shares", calibrated=False)
                yield UserRow(
                    "muxserve", f"{case}, {share} % of SMs", "llama-2-7b", shares, "slowdown",
                    measured / whole[key][0], simulated / whole[key][1], features=(100 / share,), gpu=gpu,
                )  # fmt: skip


def _study(gpu: str, tenant: Tenant, expected_ms: float) -> dict[str, Any]:
    return {
        "device": f"sim:{gpu}",
        "tenants": {"tenant": tenant},
        "mixes": ["solo"],
        "window": f"{window_s([expected_ms * 1.5], requests=5):.6f}s",
        "lead": "0.002s",
    }
