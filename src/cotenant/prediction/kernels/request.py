"""A request as seen by a GPU: its kernels and the stage of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotenant.prediction.contention.trace import Trace
from cotenant.prediction.gpu import Architecture
from cotenant.prediction.kernels.columns import TRANSFER, Floats, Ints, Kernels, joined
from cotenant.prediction.kernels.software import Execution
from cotenant.prediction.kernels.training_step import OPTIMISER, backward_begins
from cotenant.workloads.protocol import Operator, Properties, StageCost, WorkloadSpec

_NOTHING = Operator("_to_copy", "float32", ((1,),), ((1,),), 0.0, 4.0, 4.0)


@dataclass(frozen=True, slots=True)
class RequestKernels:
    """The kernels launched for one request."""

    spec: WorkloadSpec
    properties: Properties
    execution: Execution
    kernels: Kernels
    slot: Ints
    """Stage of each kernel."""
    stages: tuple[str, ...]
    first_output: int = -1
    """Index of the kernel that completes the first output; -1 if that is the end."""
    beside_ns: Floats | float = 0.0
    """Host work before a kernel's launch, overlapping with the device; an estimate."""
    waiting_ns: Floats | float = 0.0
    """Host work during which the device waits, at the first kernel of the stage; an estimate."""

    @property
    def waited_ns(self) -> float:
        """Time per request in which the device waits for host work."""
        return float(np.sum(self.waiting_ns))

    def launch_ns(self, architecture: Architecture) -> Floats:
        """Host time to launch each kernel, with a host of this GPU's generation."""
        begun = (
            self.spec.mode == "decode" if self.first_output < 0 else np.arange(len(self.kernels)) > self.first_output
        )
        generates = np.broadcast_to(np.asarray(begun), len(self.kernels))
        return self.execution.launch_ns(self.kernels, architecture, generates)

    def with_host(self, trace: Trace) -> Trace:
        """The trace with host work added: before launches, or in the device's queue where both wait."""
        return replace(
            trace, launch_ns=trace.launch_ns + self.beside_ns, duration_ns=trace.duration_ns + self.waiting_ns
        )


def inference(spec: WorkloadSpec, properties: Properties, execution: Execution, kernels: Kernels) -> RequestKernels:
    """Copy inputs, compute, copy outputs back."""
    return RequestKernels(spec, properties, execution, kernels, *_ends(kernels, "compute"))


def training(spec: WorkloadSpec, properties: Properties, execution: Execution, kernels: Kernels) -> RequestKernels:
    """Forward, backward and the optimiser."""
    forward = properties.operators[: backward_begins([operator.name for operator in properties.operators])]
    before = len(execution.kernels(forward))
    return RequestKernels(spec, properties, execution, kernels, *_training(kernels, before))


def generation(
    spec: WorkloadSpec, properties: Properties, execution: Execution, kernels: Kernels, *, prompt: Kernels, tokens: int
) -> RequestKernels:
    """A prompt, whose kernels are given separately, then token by token."""
    filled = min(len(prompt), len(kernels))
    return RequestKernels(spec, properties, execution, kernels, *_generating(kernels, filled, tokens))


def staged(
    spec: WorkloadSpec, properties: Properties, execution: Execution, costs: Sequence[StageCost]
) -> RequestKernels:
    """Stage by stage; a host-only stage is an empty copy that ends when the host is done."""
    known: dict[tuple[Operator, ...], Kernels] = {}
    parts = []
    for cost in costs:
        operators = cost.operators or (_NOTHING,)
        if operators not in known:
            known[operators] = execution.kernels(operators)
        parts.append(known[operators])
    sizes = [len(part) for part in parts]
    starts = np.cumsum(sizes) - np.array(sizes)
    beside_ns, waiting_ns = np.zeros(sum(sizes)), np.zeros(sum(sizes))
    beside_ns[starts] = [cost.host_s * 1e9 * cost.beside for cost in costs]
    waiting_ns[starts] = [cost.host_s * 1e9 * (not cost.beside) for cost in costs]
    first = [number for number, cost in enumerate(costs) if cost.first_output]
    return RequestKernels(
        spec,
        properties,
        execution,
        joined(parts),
        np.repeat(np.arange(len(parts)), sizes),
        tuple(cost.stage for cost in costs),
        first_output=int(starts[first[0]] + sizes[first[0]] - 1) if first else -1,
        beside_ns=beside_ns,
        waiting_ns=waiting_ns,
    )


def _ends(kernels: Kernels, middle: str) -> tuple[Ints, tuple[str, ...]]:
    """Make copies at the beginning and end separate stages."""
    moves = kernels.kind == TRANSFER
    work = np.flatnonzero(~moves)
    slot = np.ones(len(kernels), np.int64)
    if work.size:
        slot[: work[0]] = 0
        slot[work[-1] + 1 :] = 2
    return slot, ("to_device", middle, "to_host")


def _training(kernels: Kernels, forward: int) -> tuple[Ints, tuple[str, ...]]:
    """The stages of the real training step, which leaves its loss on the device."""
    ends, _ = _ends(kernels, "forward")
    optimising = np.array([OPTIMISER in kernels.names[name] for name in kernels.name])
    begins = int(np.argmax(optimising)) if optimising.any() else len(kernels)
    place = np.arange(len(kernels))
    slot = np.where(ends == 0, 0, 1 + (place >= forward).astype(np.int64) + (place >= begins))
    return slot, ("to_device", "forward", "backward", "optimiser")


def _generating(kernels: Kernels, filled: int, tokens: int) -> tuple[Ints, tuple[str, ...], int]:
    """The prompt, then token by token."""
    ends, _ = _ends(kernels, "decode")
    steps = max(tokens - 1, 0)
    inside = np.flatnonzero(ends == 1)
    prompt_end = max(int(np.searchsorted(inside, filled)), 1)
    slot = np.where(ends == 2, steps + 2, ends)
    left = inside.size - prompt_end
    if steps and left:
        slot[inside[prompt_end:]] = 2 + np.arange(left) * steps // left
    return slot, ("to_device", "prefill", *["decode"] * steps, "to_host"), int(inside[prompt_end - 1])
