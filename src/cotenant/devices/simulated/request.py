"""A workload's request for a simulated GPU: its kernels, and which stage each belongs to."""

from dataclasses import dataclass

import numpy as np

from cotenant.devices.simulated.fusion import Fusion
from cotenant.devices.simulated.kernels import TRANSFER, Ints, Kernels
from cotenant.devices.simulated.traces import kernels_for
from cotenant.workloads import find
from cotenant.workloads.protocol import Properties, WorkloadSpec


@dataclass(frozen=True, slots=True)
class Request:
    """What the host launches for one request."""

    spec: WorkloadSpec
    properties: Properties
    kernels: Kernels
    slot: Ints
    """Stage of each kernel."""
    stages: tuple[str, ...]
    first_output: int = -1
    """The kernel after which the first output exists; -1: there is none before the end."""


def request_of(spec: WorkloadSpec, fusion: Fusion) -> Request:
    """The request of this spec, whose dtype must be given.

    Raises:
        WorkloadError: Nobody knows what it runs before it runs.
    """
    kernels = kernels_for(spec, fusion=fusion)
    properties = find(spec.name).properties(spec)
    slot, stages = _ends(kernels, "step" if spec.train else "compute")
    if spec.mode != "generate":
        return Request(spec, properties, kernels, slot, stages)
    from cotenant.workloads.models.serving import DEFAULT_TOKENS

    prompt = kernels_for(spec.model_copy(update={"mode": "prefill", "tokens": None}), fusion=fusion)
    filled = min(len(prompt), len(kernels))
    return Request(spec, properties, kernels, *_generating(kernels, filled, spec.tokens or DEFAULT_TOKENS))


def _ends(kernels: Kernels, middle: str) -> tuple[Ints, tuple[str, ...]]:
    """Copies at the beginning and at the end are stages of their own."""
    moves = kernels.kind == TRANSFER
    work = np.flatnonzero(~moves)
    slot = np.ones(len(kernels), np.int64)
    if work.size:
        slot[: work[0]] = 0
        slot[work[-1] + 1 :] = 2
    return slot, ("to_device", middle, "to_host")


def _generating(kernels: Kernels, filled: int, tokens: int) -> tuple[Ints, tuple[str, ...], int]:
    """The prompt, then one token after the other."""
    ends, _ = _ends(kernels, "decode")
    steps = max(tokens - 1, 0)
    inside = np.flatnonzero(ends == 1)
    prompt_end = max(int(np.searchsorted(inside, filled)), 1)
    slot = np.where(ends == 2, steps + 2, ends)
    left = inside.size - prompt_end
    if steps and left:
        slot[inside[prompt_end:]] = 2 + np.arange(left) * steps // left
    return slot, ("to_device", "prefill", *["decode"] * steps, "to_host"), int(inside[prompt_end - 1])
