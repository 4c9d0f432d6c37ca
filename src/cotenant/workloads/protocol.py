"""The workload protocol: build on a place, then serve requests singly, in named stages.

The measuring code runs and times the stages; a workload never reads a clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from cotenant.clients.openai_stream import AnswerTokens
from cotenant.workloads.servers.spec import ServerSpec

Dtype = Literal["float64", "float32", "float16", "bfloat16", "int8"]
Software = Literal["eager", "compile", "graphs", "onnxruntime", "tensorrt", "vllm"]
SOFTWARE: tuple[Software, ...] = get_args(Software)
"""How a model is executed: operator by operator, by torch.compile, replayed as CUDA graphs, by ONNX Runtime, by a
TensorRT engine, or by a language model server such as vLLM."""
Attention = Literal["fused", "unfused", "looped"]
ATTENTION: tuple[Attention, ...] = get_args(Attention)
Quantised = Literal["fp8", "int8", "int4"]
QUANTISED: tuple[Quantised, ...] = get_args(Quantised)
"""Weight formats with fewer bits than the arithmetic."""
MOST_PARALLEL = 8
DEFAULT_TOKENS = 16
"""Default number of tokens of `generate`."""


class WorkloadSpec(BaseModel):
    """A workload and its size. Pure data: can be checked, hashed, and sent to another process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    """A catalogue name, `package.module:function`, a directory, a file, `command:...` or an http(s) address."""
    batch: int = Field(default=1, ge=1)
    seq: int | None = Field(default=None, ge=1)
    """Tokens per item; None for the workload's default."""
    dtype: Dtype | None = None
    """None for the device's default."""
    tf32: bool = False
    """Whether products of float32 are rounded to TF32 for tensor cores (torch: float32 matmul precision "high")."""
    attention: Attention = "fused"
    """One kernel; `unfused`: products around a softmax in memory, as before torch 2.0 (`eager` in transformers);
    `looped`: these products one by one for every head and item, as with tensors that have the sequence first."""
    channels_last: bool = False
    """Whether images lie in memory pixel by pixel, as tensor cores take them (torch's memory format)."""
    mode: str | None = None
    """For decoders forward / prefill / decode / generate, for encoders embed / classify; None for the first."""
    tokens: int | None = Field(default=None, ge=1)
    """Number of tokens `generate` produces."""
    software: Software | None = None
    """The software that executes it; None for the workload's default, which for models is `eager`."""
    quantised: Quantised | None = None
    """Format of the layers' weights; None for the number format. Simulated only."""
    parallel: int = Field(default=1, ge=1, le=MOST_PARALLEL)
    """Number of GPUs each layer is split over (tensor parallelism). Simulated only."""
    at_once: int | None = Field(default=None, ge=1)
    """Most sequences, or waiting requests, that a server executes together; None for its default. Simulated only."""
    prefix_hits: float = Field(default=0.0, ge=0, lt=1)
    """Share of each prompt that an engine finds in its cache. Simulated only."""
    loading_s: float = Field(default=0.0, ge=0)
    """Host time per request besides launches, overlapping with the device: loading its data. Simulated only."""
    train: bool = False
    """A training step (forward, backward, optimiser) instead of inference."""
    layers: str = "full"
    """The blocks to keep: `full`, `last 50%`, `last 3`."""
    weights: str | None = None
    """None for random ones from the seed; else a directory of safetensors or a hub id."""
    params: Mapping[str, Any] = Field(default_factory=dict)
    """Options specific to this workload, e.g. `size: 2048` of a GEMM."""
    seed: int = 0
    server: ServerSpec | None = None
    """How to start the workload's server; None if it is already running, or there is none."""
    metrics: str | None = ""
    """Path or address of the metrics of a server that is already running; empty: the usual path; None: not read."""


def in_steps(spec: WorkloadSpec) -> bool:
    """Whether its software is an engine that serves many such requests at once, in steps of continuous batching."""
    return spec.software == "vllm" and spec.mode == "generate" and spec.batch == 1


def in_batches(spec: WorkloadSpec) -> bool:
    """Whether its server executes all requests that wait together, and it generates nothing: they end together."""
    return (spec.at_once or 1) > 1 and not in_steps(spec) and spec.mode != "generate" and not spec.train


_BATCHED_TOKENS, _BATCHED_SEQUENCES, _USUAL_LENGTH = 8192, 256, 128
"""Most tokens and sequences that vLLM embeds or classifies together; tokens of a request that doesn't say."""


def auto_at_once(spec: WorkloadSpec) -> tuple[int, ...]:
    """Numbers of requests that its software may execute at once, of which a plan chooses: eager code takes one."""
    if in_steps(spec):
        return 64, 256
    if spec.software != "vllm" or spec.mode == "generate" or spec.train:
        return (1,)
    most = min(_BATCHED_TOKENS // (spec.seq or _USUAL_LENGTH), _BATCHED_SEQUENCES) // spec.batch
    return tuple(sorted({min(8, max(most, 1)), max(most, 1)}))


@dataclass(frozen=True, slots=True)
class Stage:
    """A named part of a request. It takes the previous stage's result (the first takes None)."""

    name: str
    run: Callable[[Any], Any]
    repeat: int = 1
    """How often it runs within a request, each time on its own last result (decode steps)."""
    first_output: bool = False
    """True if the request's first output exists when this stage ends for the first time."""


class Place(Protocol):
    """What a workload knows about where it runs. Devices implement it; see `cotenant.devices`."""

    @property
    def torch_device(self) -> str:
        """Torch's name for the device."""
        ...

    @property
    def default_dtype(self) -> Dtype:
        """A number format this device handles well."""
        ...


SENT = -1
"""In place of a slot: the request was about to be sent."""
Mark = Callable[[int, int], None]
"""Takes a slot and a time of the monotonic clock, in ns."""


class Client(Protocol):
    """Sends requests to a server, several at once, all from a single event loop in the tenant's thread."""

    slots: tuple[str, ...]
    """The timed parts of a request in order; a repeated part (tokens) is listed as often as it may occur."""
    first_output: int | None
    """The slot at whose end the first output exists."""
    warm: int
    """Requests to serve before measuring."""
    ramp_s: float
    """A closed load starts its requests spread over this time, at most the lead, instead of all at once."""

    def begin(self, first_arrival: int) -> None:
        """A window starts; its requests are those of the trace from this position on, if the load is a trace."""
        ...

    def rest(self) -> None:
        """The window is over: use no resources until the next."""
        ...

    async def request(self, number: int, mark: Mark) -> AnswerTokens:
        """Serve a request; `mark(slot, ns)` says when each part of it ended, `mark(SENT, ns)` when it was sent.

        A client that doesn't mark `SENT` sent it when this was called.

        Raises:
            RequestFailed: The answer was wrong or never came.
        """
        ...

    async def close(self) -> None:
        """Drop every connection."""
        ...

    def pids(self) -> tuple[int, ...]:
        """The serving processes, as far as visible: their resource use counts for the tenant."""
        ...

    def gone(self) -> str | None:
        """How the server ended, with the last lines of its log; None if it is running or not ours."""
        ...


@dataclass(frozen=True, slots=True)
class Built:
    """A workload built on its place, ready to serve: in consecutive stages, or through a client."""

    stages: tuple[Stage, ...]
    dtype: str
    weights: str = "none"
    seq: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able facts to record: input distribution, versions, ..."""
    close: Callable[[], None] = lambda: None
    client: Client | None = None
    """For a server: it takes several requests at once, and there are no stages."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a request, recorded in a dry run: the input of a simulated device's kernels."""

    name: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of its tensor inputs."""
    out_shapes: tuple[tuple[int, ...], ...]
    flops: float
    bytes_read: float
    bytes_written: float


@dataclass(frozen=True, slots=True)
class StageCost:
    """The cost of a stage of a request: operators on the device, and host time."""

    stage: str
    operators: tuple[Operator, ...] = ()
    host_s: float = 0.0
    """An estimate, for simulated devices."""
    beside: bool = False
    """True if the device continues with queued work while the host works; False if each waits for the other."""
    first_output: bool = False
    """True if the request's first output exists when this stage ends."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The main figures of a request's cost, known before it runs. None where unknown for this kind of workload."""

    params: int | None
    weight_bytes: int | None
    flops: float | None
    bytes_moved: float | None
    peak_memory_bytes: int | None
    """Weights and the largest set of live activations, with the kernels' own workspace."""

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte moved."""
        if self.flops is None or not self.bytes_moved:
            return None
        return self.flops / self.bytes_moved


@dataclass(frozen=True, slots=True)
class Properties(Figures):
    """The cost of a request in full, known before it runs."""

    input_bytes: int | None = None
    """Inputs of a request, held on the host: where the host is the device they add to the peak."""
    flops_by_operator: Mapping[str, float] = field(default_factory=dict)
    flops_by_dtype: Mapping[str, float] = field(default_factory=dict)
    operators: tuple[Operator, ...] = ()


@runtime_checkable
class StagedWorkload(Protocol):
    """A workload with host work: it assigns operators to stages."""

    def stage_costs(self, spec: WorkloadSpec) -> tuple[StageCost, ...]:
        """The stages of a request in order."""
        ...


class Workload(Protocol):
    """A catalogue entry, or a user's own workload."""

    @property
    def name(self) -> str:
        """The name it was found by."""
        ...

    @property
    def family(self) -> str:
        """encoder, decoder, vision, recommender, kernel, instrument, search, or yours."""
        ...

    def check(self, spec: WorkloadSpec) -> None:
        """Raise a `WorkloadError` for what can't run, before any trial starts. Cheap: no weights are made."""
        ...

    def properties(self, spec: WorkloadSpec) -> Properties:
        """The cost of a request of this spec, without making the weights."""
        ...

    def build(self, spec: WorkloadSpec, place: Place) -> Built:
        """Build it on the place, ready to serve."""
        ...


@runtime_checkable
class ExecutesToCheck(Protocol):
    """A workload whose check has side effects: imports code, or connects to a server."""

    def check_unexecuted(self, spec: WorkloadSpec) -> str:
        """Check what is possible without them; return what stays unknown. Raises WorkloadError."""
        ...
