"""What a workload is: it builds itself on a place, then serves one request at a time, in named stages.

The measuring code runs and times the stages; a workload never looks at a clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from cotenant.workloads.servers.spec import ServerSpec

Dtype = Literal["float64", "float32", "float16", "bfloat16", "int8"]
Software = Literal["eager", "compile", "graphs", "onnxruntime", "tensorrt", "vllm"]
SOFTWARE: tuple[Software, ...] = get_args(Software)
"""How a model is executed: operator by operator, by torch.compile, replayed as CUDA graphs, by ONNX Runtime, by a
TensorRT engine, or by a server of language models such as vLLM."""
Quantised = Literal["fp8", "int8", "int4"]
QUANTISED: tuple[Quantised, ...] = get_args(Quantised)
"""Formats of weights with fewer bits than arithmetic is done in."""
MOST_PARALLEL = 8


class WorkloadSpec(BaseModel):
    """Which workload, at which size. Pure data: it can be checked, hashed, and sent to another process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    """A catalogue name, `package.module:function`, a directory, a file, `command:...` or an http(s) address."""
    batch: int = Field(default=1, ge=1)
    seq: int | None = Field(default=None, ge=1)
    """Tokens per item; None: the workload's own default."""
    dtype: Dtype | None = None
    """None: the device's default."""
    mode: str | None = None
    """For decoders forward / prefill / decode / generate, for encoders embed / classify; None: the first."""
    tokens: int | None = Field(default=None, ge=1)
    """How many tokens `generate` makes."""
    software: Software | None = None
    """How it is executed; None: as the workload does by itself, which for models is `eager`."""
    quantised: Quantised | None = None
    """Format of the layers' weights; None: the number format. Simulated only."""
    parallel: int = Field(default=1, ge=1, le=MOST_PARALLEL)
    """Over how many GPUs of one kind each layer is cut (tensor parallelism). Simulated only."""
    train: bool = False
    """A training step (forward, backward, optimiser) instead of inference."""
    layers: str = "full"
    """Which blocks: `full`, `last 50%`, `last 3`."""
    weights: str | None = None
    """None: random from the seed; else a directory of safetensors or a hub id."""
    params: Mapping[str, Any] = Field(default_factory=dict)
    """Options that only this workload knows, e.g. `size: 2048` of a GEMM."""
    seed: int = 0
    server: ServerSpec | None = None
    """How to start the server that the workload talks to; None: it runs, or there is none."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One named part of a request. It takes what the stage before returned (the first one takes None)."""

    name: str
    run: Callable[[Any], Any]
    repeat: int = 1
    """How often it runs within a request, each time on its own last result (decode steps)."""
    first_output: bool = False
    """When this stage has ended for the first time, the request's first output exists."""


class Place(Protocol):
    """What a workload is told about where it runs. Devices implement it; see `cotenant.devices`."""

    @property
    def torch_device(self) -> str:
        """The name torch knows the device by."""
        ...

    @property
    def default_dtype(self) -> Dtype:
        """The number format this device does well."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server says of its answer. None: it has no tokens, or does not count them."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_reasoning: int | None = None
    """Of `tokens_out`, those that were reasoning and not answer."""


class Client(Protocol):
    """Sends requests to a server, several at once, all from one event loop in the tenant's thread."""

    slots: tuple[str, ...]
    """The timed parts of a request in order; a part that repeats (tokens) is named as often as it may come."""
    first_output: int | None
    """The slot at whose end the first output exists."""
    warm: int
    """Requests to serve before any is measured."""
    ramp_s: float
    """A closed load begins its requests one after another over this time, at most the lead, instead of all at once."""

    def begin(self, first_arrival: int) -> None:
        """A window begins; its requests are those of the trace from this place on, if the load is one."""
        ...

    def rest(self) -> None:
        """The window is over: use nothing of the machine until the next one."""
        ...

    async def request(self, number: int, mark: Callable[[int], None]) -> Answer:
        """See one request through; `mark(slot)` says that this part of it has just ended.

        Raises:
            RequestFailed: The answer was not what it should be, or never came.
        """
        ...

    async def close(self) -> None:
        """Drop every connection."""
        ...

    def pids(self) -> tuple[int, ...]:
        """The processes that serve, as far as they can be seen: what they use is the tenant's."""
        ...

    def gone(self) -> str | None:
        """How the server ended, with the last lines of its log; None: it runs, or is not ours."""
        ...


@dataclass(frozen=True, slots=True)
class Built:
    """A workload that stands on its place, ready to serve: in stages one after another, or through a client."""

    stages: tuple[Stage, ...]
    dtype: str
    weights: str = "none"
    seq: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able statements to be recorded: input distribution, versions, ..."""
    close: Callable[[], None] = lambda: None
    client: Client | None = None
    """Of a server: it takes several requests at once, and there are no stages."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a request, seen in a dry run: the raw material of a simulated device's kernels."""

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
    """What one stage of a request costs: operators of the device, and time of its host."""

    stage: str
    operators: tuple[Operator, ...] = ()
    host_s: float = 0.0
    """An estimate, for simulated devices."""
    beside: bool = False
    """The device goes on with what it was given while the host works; False: each waits for the other."""
    first_output: bool = False
    """When this stage has ended, the request's first output exists."""


@dataclass(frozen=True, slots=True)
class Properties:
    """What a request costs, known before it is run. None: can't be known for this kind of workload."""

    params: int | None
    weight_bytes: int | None
    flops: float | None
    bytes_moved: float | None
    peak_memory_bytes: int | None
    """Weights and the largest set of activations alive at once, with the kernels' own workspace."""
    input_bytes: int | None = None
    """Inputs of a request, which wait on the host: where the host is the device they come on top of the peak."""
    flops_by_operator: Mapping[str, float] = field(default_factory=dict)
    flops_by_dtype: Mapping[str, float] = field(default_factory=dict)
    operators: tuple[Operator, ...] = ()

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte moved."""
        if self.flops is None or not self.bytes_moved:
            return None
        return self.flops / self.bytes_moved


@runtime_checkable
class Staged(Protocol):
    """A workload whose host works too: it says which operators belong to which stage."""

    def stage_costs(self, spec: WorkloadSpec) -> tuple[StageCost, ...]:
        """The stages of one request in order."""
        ...


class Workload(Protocol):
    """One entry of the catalogue, or something of the user's."""

    @property
    def name(self) -> str:
        """The name it was found by."""
        ...

    @property
    def family(self) -> str:
        """encoder, decoder, vision, recommender, kernel, instrument, search, or yours."""
        ...

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse with a `WorkloadError` what can't be run, before any trial starts. Cheap: no weights are made."""
        ...

    def properties(self, spec: WorkloadSpec) -> Properties:
        """What one request of this spec costs, without making the weights."""
        ...

    def build(self, spec: WorkloadSpec, place: Place) -> Built:
        """Stand on the place, ready to serve."""
        ...


@runtime_checkable
class ExecutesToCheck(Protocol):
    """A workload whose check does something that its name says: imports code, or connects to a server."""

    def check_unexecuted(self, spec: WorkloadSpec) -> str:
        """Check what can be checked without that; gives what stays unknown. Raises WorkloadError."""
        ...
