"""A worker process whose models compute nothing: they sleep for EMPTY_S seconds (environment). Decoders are real."""

import os
import time
from functools import cache

import torch
from torch import nn

from cotenant.serving.tensors import Signature, TensorSpec
from cotenant.serving.workers import servable
from cotenant.serving.workers.child import main
from cotenant.workloads.protocol import WorkloadSpec

SLEEP_S = float(os.environ.get("EMPTY_S", "0"))
real = servable.build_servable


@cache
def zeros(rows: int) -> torch.Tensor:
    """Eight per row, made once: the peers' empty model makes no tensors either."""
    return torch.zeros(rows, 8)


class Empty(nn.Module):
    """Ignores its input."""

    def forward(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """Eight zeros per row."""
        if SLEEP_S:
            time.sleep(SLEEP_S)
        return {"made": zeros(next(iter(inputs.values())).shape[0])}


def build(spec: WorkloadSpec, *, device: str, dtype: str) -> servable.Servable:
    """In place of `build_servable`: the same inputs, another model."""
    found = real(spec, device=device, dtype=dtype)
    if found.signature.decodes:
        return found
    made = (TensorSpec("made", "FP32", (-1, 8)),)
    signature = Signature(found.signature.inputs, made, typical=found.signature.typical)
    return servable.Servable(Empty(), found.sample, signature, batches=False)


servable.build_servable = build
main()
