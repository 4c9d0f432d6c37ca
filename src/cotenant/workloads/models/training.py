"""A training step: forward, backward, optimiser."""

from typing import Any

import torch
from torch import nn

from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.inputs import Inputs, Tensors
from cotenant.workloads.models.serving import to_device_stage
from cotenant.workloads.protocol import Stage, WorkloadSpec

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
