"""How software executes a model on a GPU: fusion, launch costs and per-request costs.

Fitted (docs/validation.md has the errors):

- eager: launches of convolutional networks on ParvaGPU's plateaus at small batches (ResNet-50, VGG-16, DenseNet-121,
  MobileNetV2), of transformers on three host-bound language models beside an A100 (batch 8, 128 tokens);
- onnxruntime, tensorrt, compile: BERT and ResNet-50 on V100s (NVIDIA/DeepLearningExamples);
- vllm: Llama-7B on a full A100, batches of 1 and 64 (MuxServe), where launches take less time than the kernels. While
  generating, graphs are replayed, vLLM's default since 2024; this matters for models split over several GPUs only;
- graphs: an estimate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cotenant.prediction.gpu import Architecture
from cotenant.prediction.kernels.columns import KINDS, Bools, Floats, Kernels
from cotenant.prediction.kernels.fusion import Fusion, Tf32, backward_begins, kernels_of
from cotenant.workloads.protocol import Attention, Operator, Software

_OLD_HOSTS: tuple[Architecture, ...] = ("kepler", "pascal", "volta", "turing")
_NEW_HOSTS: tuple[Architecture, ...] = ("ada", "hopper", "blackwell", "cdna3")
_NEW_HOST = 0.75
"""Time of a launch on hosts that came with these GPUs relative to those of the A100: one core does about a third more
per second. An estimate."""
_GEMM = KINDS.index("gemm")
_LOOPED_US = 4.0
"""Time of a launch that a library makes in a loop, without a module or a tensor of its own: what an item adds to small
batches of BERT on an A100 (ParvaGPU), 3.1 ms for 768 products of its heads."""


@dataclass(frozen=True, slots=True)
class Execution:
    """A software stack."""

    fusion: Fusion
    attention: Attention = "fused"
    tf32: Tf32 = "convolutions"
    """Operations for which it rounds float32 for tensor cores by default."""
    launch_us: float = 1.0
    """Host time per launch, overlapping with the device."""
    by_kind_us: Mapping[str, float] = field(default_factory=dict)
    """The same for kinds of kernels that differ: a layer's module and views cost more than an addition."""
    replay_us: float | None = None
    """The same per kernel while generating, if it then replays a captured graph; None if it doesn't."""
    backward: float = 1.0
    """Cost of a launch in the backward pass relative to the forward pass: no Python in between."""
    old_host: float = 1.0
    """Factor for hosts of the Kepler to Turing era."""
    gap_us: float = 0.0
    """Additional delay before each kernel on the device."""
    before_us: float = 30.0
    """Host time of a request before its first launch."""
    item_us: float = 0.0
    """Additional host time per item: a server schedules and samples by sequence."""
    after_us: float = 15.0
    """Host time of a request after its last kernel."""
    half_slower: float = 1.0
    """Factor on kernels in half precision relative to the best library: it converts to float32 and back between
    products. In float32, all software calls the same libraries."""

    def slower(self, dtype: str | None) -> float:
        """Factor on its kernels in this number format relative to the best library."""
        return 1.0 if dtype == "float32" else self.half_slower

    def kernels(self, operators: Sequence[Operator]) -> Kernels:
        """The kernels of these operators."""
        return kernels_of(operators, fusion=self.fusion, tf32=self.tf32, attention=self.attention)

    def launch_ns(self, kernels: Kernels, architecture: Architecture, generates: Bools) -> Floats:
        """Host time of each kernel's launches, with a host of this GPU's generation.

        Args:
            kernels: The kernels.
            architecture: The GPU's.
            generates: Kernels of steps that generate one output per sequence.
        """
        by_kind = np.array([self.by_kind_us.get(kind, self.launch_us) for kind in KINDS])[kernels.kind]
        if self.replay_us is not None:
            by_kind = np.where(generates, self.replay_us, by_kind)
        products = kernels.kind == _GEMM
        by_launch = np.where(products, by_kind + (kernels.launches - 1) * _LOOPED_US, kernels.launches * by_kind)
        names = [kernels.names[name] for name in kernels.name]
        passes = np.where(np.arange(len(kernels)) >= backward_begins(names), self.backward, 1.0)
        host = self.old_host if architecture in _OLD_HOSTS else _NEW_HOST if architecture in _NEW_HOSTS else 1.0
        return np.asarray(by_launch * passes * (host * 1e3))


_LAYERS_US = {"gemm": 50.0, "attention": 60.0, "conv": 42.0, "conv3x3": 42.0, "depthwise": 42.0, "reduction": 29.0}

EXECUTIONS: Mapping[Software, Execution] = {
    "eager": Execution("eager", launch_us=18.0, by_kind_us=_LAYERS_US, backward=0.5, old_host=2.5),
    "compile": Execution("compile", launch_us=10.0, before_us=150.0),
    "graphs": Execution("eager", launch_us=1.0, before_us=60.0),
    "onnxruntime": Execution(
        "eager", attention="unfused", tf32="all", launch_us=3.0, gap_us=1.0, before_us=300.0, half_slower=1.35
    ),
    "tensorrt": Execution("engine", tf32="all", launch_us=2.0, gap_us=1.0, before_us=400.0, half_slower=1.2),
    "vllm": Execution("served", launch_us=22.0, replay_us=1.0, before_us=1600.0, item_us=15.0),
}
