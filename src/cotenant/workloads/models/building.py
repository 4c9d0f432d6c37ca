"""Builds the model of a spec on its place."""

from typing import Any

import torch
from torch import nn

from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.execution import executed
from cotenant.workloads.models.inputs import Inputs, Tensors, hidden_inputs, host_of, make_inputs
from cotenant.workloads.models.serving import inference_stages, to_device_stage
from cotenant.workloads.models.skeleton import materialise, skeleton
from cotenant.workloads.models.watching import Watch
from cotenant.workloads.models.weights import load
from cotenant.workloads.protocol import Built, Place, Stage, WorkloadSpec
from cotenant.workloads.slices import Blocks, Tail, find_blocks, plan_cut


def build_model(entry: ModelEntry, spec: WorkloadSpec, place: Place) -> Built:
    """The model with its weights and inputs on the place, and the stages of a request."""
    if spec.quantised or spec.parallel > 1:
        raise WorkloadError(
            f"{entry.name}: `{'quantised' if spec.quantised else 'parallel'}` is simulated only",
            hint="measure a server that does it, such as vLLM, as a tenant: `workload: openai:http://...`",
        )
    if spec.tf32:
        torch.set_float32_matmul_precision("high")
    device = place.torch_device
    dtype_name = spec.dtype or place.default_dtype
    dtype: torch.dtype = getattr(torch, dtype_name)
    model, inputs = stand(entry, spec, device=device, dtype=dtype)
    if spec.attention == "unfused":
        _unfuse_attention(entry, model)
    if device.startswith("cuda"):
        inputs = Inputs(tuple({k: v.pin_memory() for k, v in one.items()} for one in inputs.ring), inputs.facts)
    model = executed(model, entry, spec, inputs, device)
    return Built(
        stages=stages_of(model, entry, spec, inputs, device),
        dtype=dtype_name,
        weights=spec.weights or f"random({spec.seed})",
        seq=spec.seq or entry.seq,
        facts={**inputs.facts, **_facts(model, mode_of(entry, spec)), "software": spec.software or "eager"},
    )


def stand(entry: ModelEntry, spec: WorkloadSpec, *, device: str, dtype: torch.dtype) -> tuple[nn.Module, Inputs]:
    """The model (or the slice the spec names) on a device, and its inputs on the host."""
    mode = mode_of(entry, spec)
    inputs = make_inputs(entry, spec, dtype=dtype, device=host_of(device))
    # A description only needs shapes: weights are never read for it.
    reads_weights = spec.weights is not None and device != "meta"
    model = (
        load(entry, mode, str(spec.weights), dtype=dtype, seed=spec.seed) if reads_weights else skeleton(entry, mode)
    )
    if spec.layers == "full":
        return _placed(model, device, dtype, spec.seed, loaded=reads_weights), inputs
    cut = plan_cut(_survey(entry, spec, mode, dtype), spec.layers)
    tail = Tail(model, cut)
    _placed(tail, device, dtype, spec.seed, loaded=reads_weights)
    tail.prompt = {name: value.to(device) for name, value in inputs.ring[0].items()}
    return tail, hidden_inputs(cut.hidden_shape, dtype=dtype, seed=spec.seed, device=host_of(device))


def _placed(model: nn.Module, device: str, dtype: torch.dtype, seed: int, *, loaded: bool) -> nn.Module:
    return model.to(device) if loaded else materialise(model, device=device, dtype=dtype, seed=seed)


def _survey(entry: ModelEntry, spec: WorkloadSpec, mode: str, dtype: torch.dtype) -> Blocks:
    whole = materialise(skeleton(entry, mode), device="meta", dtype=dtype, seed=spec.seed)
    inputs = make_inputs(entry, spec, dtype=dtype, device="meta")
    with Watch():
        return find_blocks(whole, inputs.ring[0])


def mode_of(entry: ModelEntry, spec: WorkloadSpec) -> str:
    """The mode that runs; training has its own."""
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


def _unfuse_attention(entry: ModelEntry, model: nn.Module) -> None:
    change = getattr(model, "set_attn_implementation", None)
    if change is None:
        raise WorkloadError(f"{entry.name}: its attention can't be unfused", hint="leave `attention` out")
    change("eager")


def _facts(model: nn.Module, mode: str) -> dict[str, Any]:
    import transformers

    facts: dict[str, Any] = {"mode": mode, "torch": torch.__version__, "transformers": transformers.__version__}
    attention = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if attention is not None:
        facts["attention"] = attention
    return facts


LEARNING_RATE = 1e-5
"""Small: a workload may take a million steps on the same batch and must stay finite."""


def training_stages(
    model: nn.Module, entry: ModelEntry, spec: WorkloadSpec, inputs: Inputs, *, device: str
) -> tuple[Stage, ...]:
    """The stages of one step on one batch, with AdamW."""
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    labelled = Inputs(tuple({**one, "labels": _labels(entry, spec, one)} for one in inputs.ring), inputs.facts)
    writes = entry.family in ("decoder", "seq2seq")
    extra = {"use_cache": False} if writes else {}

    def forward(batch: Tensors) -> torch.Tensor:
        labels = batch.pop("labels")
        logits = model(**batch, **extra).logits.float()
        if writes:
            logits = logits[:, :-1].flatten(0, 1)  # each position predicts the next token
        return nn.functional.cross_entropy(logits, labels)

    def backward(loss: torch.Tensor) -> torch.Tensor:
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def optimise(loss: torch.Tensor) -> Any:
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss

    return (
        to_device_stage(labelled, device),
        Stage("forward", forward),
        Stage("backward", backward),
        Stage("optimiser", optimise),
    )


def _labels(entry: ModelEntry, spec: WorkloadSpec, one: Tensors) -> torch.Tensor:
    example = next(iter(one.values()))
    if entry.family == "seq2seq":
        return one["decoder_input_ids"][:, 1:].flatten()
    if entry.family == "decoder":
        tokens = one.get("input_ids", torch.zeros(example.shape[:2], dtype=torch.long, device=example.device))
        return tokens[:, 1:].flatten()
    return torch.zeros(spec.batch, dtype=torch.long, device=example.device)
