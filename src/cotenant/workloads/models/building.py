"""From a spec to a model that stands on its place."""

from typing import Any

import torch
from torch import nn

from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.filling import materialise
from cotenant.workloads.models.inputs import Inputs, make_inputs
from cotenant.workloads.models.serving import inference_stages
from cotenant.workloads.models.skeleton import skeleton
from cotenant.workloads.models.training import training_stages
from cotenant.workloads.protocol import Built, Place, Stage, WorkloadSpec


def build_model(entry: ModelEntry, spec: WorkloadSpec, place: Place) -> Built:
    """The model with its weights and inputs on the place, and the stages of a request."""
    device = place.torch_device
    dtype_name = spec.dtype or place.default_dtype
    dtype: torch.dtype = getattr(torch, dtype_name)
    mode = mode_of(entry, spec)
    model = materialise(skeleton(entry, mode), device=device, dtype=dtype, seed=spec.seed)
    inputs = make_inputs(entry, spec, dtype=dtype, device="meta" if device == "meta" else "cpu")
    if device.startswith("cuda"):
        inputs = Inputs(tuple({k: v.pin_memory() for k, v in one.items()} for one in inputs.ring), inputs.facts)
    return Built(
        stages=stages_of(model, entry, spec, inputs, device),
        dtype=dtype_name,
        weights=f"random({spec.seed})",
        seq=spec.seq or entry.seq,
        facts={**inputs.facts, **_facts(model, mode)},
    )


def mode_of(entry: ModelEntry, spec: WorkloadSpec) -> str:
    """The mode that runs: training has its own."""
    if spec.train and entry.architecture.trains:
        return entry.architecture.trains
    return spec.mode or entry.modes[0]


def stages_of(
    model: nn.Module, entry: ModelEntry, spec: WorkloadSpec, inputs: Inputs, device: str
) -> tuple[Stage, ...]:
    """The stages of one request of this spec, inference or training."""
    if spec.train:
        return training_stages(model, entry, spec, inputs, device=device)
    return inference_stages(model, entry, mode_of(entry, spec), inputs, device=device, tokens=spec.tokens)


def _facts(model: nn.Module, mode: str) -> dict[str, Any]:
    import transformers

    facts: dict[str, Any] = {"mode": mode, "torch": torch.__version__, "transformers": transformers.__version__}
    attention = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if attention is not None:
        facts["attention"] = attention
    return facts
