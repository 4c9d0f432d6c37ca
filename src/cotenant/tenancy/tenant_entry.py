"""A tenant in a file: what it runs, its requests, load and objective, and what verbs may do with it.

The same type for every verb. Each ignores the keys that it doesn't need.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from cotenant.tenancy.backend import BackendEntry
from cotenant.tenancy.jobs import JobEntry, is_described
from cotenant.tenancy.load import Load, LoadText, RateText
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.objective import ObjectivesText
from cotenant.tenancy.values import (
    AttentionName,
    Count,
    DtypeName,
    Frozen,
    Name,
    Options,
    Parallel,
    PartOfOne,
    Priority,
    QuantisedName,
    SecondsOrZero,
    Seed,
    Switch,
    Text,
    one_of,
)
from cotenant.tenancy.words import did_you_mean, expected, is_number, shown
from cotenant.text import rate
from cotenant.workloads.catalogue import generators
from cotenant.workloads.protocol import SOFTWARE, Software, WorkloadSpec, auto_at_once, in_steps
from cotenant.workloads.servers import SERVER_FORMS, ServerSpec, is_server

GROUP = "default"
Isolation = Literal["any", "process", "mig"]
"""Required isolation: none; its own process; its own MIG instance."""
_RANGE = re.compile(r"^(\d{1,6})\s*\.\.\s*(\d{1,6})$")
_PERCENT = re.compile(r"^(\d+(?:\.\d*)?)\s*%$")
_HASH = re.compile(r"^sha256:[0-9a-f]{64}$")


def _batch(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    if isinstance(value, list) or (isinstance(value, str) and _RANGE.match(value.strip())):
        raise ValueError(
            "batch is the number of items in one request; how many requests the software executes together is "
            f"at_once: {value if isinstance(value, str) else '1..16'}"
        )
    raise expected("a whole number of at least 1", value)


def _at_once(value: Any) -> tuple[int, ...] | None:
    if value is None or value == "auto":
        return None
    match = _RANGE.match(value.strip()) if isinstance(value, str) else None
    numbers = list(value) if isinstance(value, list | tuple) else [value]
    if match:
        low, high = int(match.group(1)), int(match.group(2))
        doubled = [low * 2**power for power in range(20) if low * 2**power < high]
        numbers = [*doubled, high] if 1 <= low <= high else []
    if not numbers or any(isinstance(number, bool) or not isinstance(number, int) or number < 1 for number in numbers):
        raise expected("a number of requests such as 8, a range such as 1..16, or auto", value)
    return tuple(sorted(set(numbers)))


def _one_or_list(values: tuple[Any, ...] | None) -> Any:
    return None if values is None else values[0] if len(values) == 1 else list(values)


def _software(value: Any) -> tuple[Software, ...] | None:
    if value is None:
        return None
    named: list[Any] = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
    if not named:
        raise expected(f"one of {', '.join(SOFTWARE)}, or a list of them", value)
    for software in named:
        if software not in SOFTWARE:
            near = did_you_mean(software, SOFTWARE) if isinstance(software, str) else ""
            raise expected(f"one of {', '.join(SOFTWARE)}", software, near)
    return tuple(dict.fromkeys(named))


def _share(value: Any) -> float | str | None:
    """Percent of the device, or a MIG profile."""
    if value is None:
        return None
    match = _PERCENT.match(value.strip()) if isinstance(value, str) else None
    if isinstance(value, str) and match is None and value.strip() and value.isprintable() and "%" not in value:
        return value.strip()
    number = float(match.group(1)) if match else value
    if match is None and is_number(number) and 0 < number < 1:
        raise expected("a share of the device such as 40% or 3g.20gb", value, f"; did you mean {number:.0%}?")
    if not is_number(number) or not 0 < number <= 100:
        raise expected("a share of the device such as 40% or 3g.20gb", value)
    return float(number)


def _names(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or any(not isinstance(name, str) for name in names):
        raise expected("a list of tenants such as [embed, rerank]", value)
    return tuple(dict.fromkeys(names))


def read_key_hash(value: Any) -> str:
    """The hash of an API key."""
    if not isinstance(value, str) or not _HASH.match(value):
        raise ValueError("expected the hash of a key (sha256:...); `cotenant serve --new-key` makes a key and its hash")
    return value


def _choice(*words: str) -> Any:
    return WithJsonSchema({"type": "string", "enum": list(words)})


_NAMES_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_SOFTWARE_SCHEMA = {"type": "string", "enum": list(SOFTWARE)}
KeyHash = Annotated[str, PlainValidator(read_key_hash), WithJsonSchema({"type": "string", "pattern": _HASH.pattern})]
NamesText = Annotated[
    tuple[str, ...], PlainValidator(_names), PlainSerializer(list, return_type=list), WithJsonSchema(_NAMES_SCHEMA)
]


class TenantEntry(Frozen):
    """A tenant in the file: a workload, its requests, its load, its objective."""

    workload: Text | None = Field(
        default=None,
        description="A catalogue name, `package.module:function`, a directory, a file, `command:...` or an address; "
        "required, except to serve with a backend and for a job that says what it is like.",
        examples=["bert-base-mini"],
    )
    batch: Annotated[int, PlainValidator(_batch), WithJsonSchema({"type": "integer", "minimum": 1})] = Field(
        default=1, description="Items per request.", examples=[8]
    )
    at_once: Annotated[
        tuple[int, ...] | None,
        PlainValidator(_at_once),
        PlainSerializer(_one_or_list),
        WithJsonSchema(
            {
                "anyOf": [
                    {"const": "auto"},
                    {"type": "integer", "minimum": 1},
                    {"type": "string", "pattern": r"^\s*\d+\s*\.\.\s*\d+\s*$"},
                    {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1},
                ]
            }
        ),
    ] = Field(
        default=None,
        description="How many requests the software executes together: a number; a range or list, of which a plan "
        "chooses; auto: 1, or what an engine such as vLLM does. Without an engine, `run` and `predict` execute "
        "them in sequence.",
        examples=["1..16"],
    )
    seq: Count | None = Field(default=None, description="Tokens per item; default: the workload's.", examples=[128])
    dtype: DtypeName | None = Field(default=None, description="Number format; default: what the device prefers.")
    tf32: Switch = Field(default=False, description="Round products of float32 to TF32 for tensor cores.")
    attention: AttentionName = Field(
        default="fused",
        description="`unfused`: several kernels, as in torch before 2.0; `looped`: one for each head and item, as with "
        "tensors that have the sequence first, on simulated GPUs.",
        examples=["unfused"],
    )
    channels_last: Switch = Field(
        default=False, description="Images lie in memory pixel by pixel (torch.channels_last): vision models."
    )
    mode: Text | None = Field(
        default=None,
        description="Decoders: forward, prefill, decode, generate; encoders: embed, classify.",
        examples=["generate"],
    )
    tokens: Count | None = Field(
        default=None, description="Number of tokens to generate; `mode: generate` of a decoder.", examples=[32]
    )
    software: Annotated[
        tuple[Software, ...] | None,
        PlainValidator(_software),
        PlainSerializer(_one_or_list),
        WithJsonSchema({"anyOf": [_SOFTWARE_SCHEMA, {"type": "array", "items": _SOFTWARE_SCHEMA, "minItems": 1}]}),
    ] = Field(
        default=None,
        description="Execution mode; default: operator by operator (eager). Of a list a plan chooses; other verbs "
        "take the first.",
        examples=["compile"],
    )
    quantised: QuantisedName | None = Field(
        default=None, description="Format of the layers' weights, on simulated GPUs.", examples=["int4"]
    )
    parallel: Parallel = Field(
        default=1,
        description="Number of GPUs to split layers over (tensor parallelism), on simulated GPUs.",
        examples=[2],
    )
    prefix_hits: PartOfOne | None = Field(
        default=None,
        description="Share of each prompt that an engine finds in its cache, such as a common beginning; on simulated "
        "GPUs.",
        examples=[0.6],
    )
    loading: SecondsOrZero = Field(
        default=0.0,
        description="Host time per request besides launches, while the device computes, such as loading and preparing "
        "a batch; on simulated GPUs.",
        examples=["40ms"],
    )
    train: Switch = Field(default=False, description="A training step instead of inference.")
    layers: Text = Field(
        default="full", description="Which blocks of the model: full, last 50%, last 3.", examples=["last 50%"]
    )
    weights: Text | None = Field(
        default=None, description="Directory of safetensors or hub id; default: random from the seed."
    )
    params: Options = Field(
        default_factory=dict, description="Options specific to this workload.", examples=[{"size": 2048}]
    )
    seed: Seed = Field(default=0, description="Seed of the weights and inputs.")
    server: ServerSpec | None = Field(
        default=None,
        description="How to start the server that the workload talks to, inside the sharing under test; or, if it runs "
        "already, where its metrics are.",
        examples=[{"start": "python serve.py --port {port}"}],
    )
    backend: BackendEntry | None = Field(
        default=None,
        description="`serve`: another server that executes the requests: {openai: ADDRESS} or {v2: ADDRESS}.",
    )
    rate: RateText | None = Field(
        default=None,
        exclude=True,
        description="Requests per second, of `batch` items each: short for a Poisson load.",
        examples=["20/s"],
    )
    load: LoadText | None = Field(
        default=None, description="When its requests arrive; overrides the file's loads.", examples=["poisson(70%)"]
    )
    slo: ObjectivesText = Field(
        default=(),
        description="Its objective: quantiles of its latency, time to first token and time per output token; p99 "
        "where none is given.",
        examples=[{"p99": "50ms"}],
    )
    job: JobEntry | None = Field(default=None, description="Work with an end instead of requests, to plan for.")
    priority: Priority = Field(default=0, description="Higher goes first where the sharing supports priorities.")
    share: Annotated[
        float | str | None,
        PlainValidator(_share),
        WithJsonSchema({"anyOf": [{"type": "number", "minimum": 1, "maximum": 100}, {"type": "string"}]}),
    ] = Field(
        default=None,
        description="Guaranteed share of the device: of its SMs where the sharing divides them, of its time where "
        "requests take turns; or a MIG profile.",
        examples=["40%"],
    )
    threads: Count | None = Field(default=None, description="CPU threads per operator; default: set by the sharing.")
    own_cores: Switch = Field(
        default=False,
        description="On a GPU, beside others: a block of the host's cores, of equal size for each; on a CPU "
        "write `sharing: pinned`.",
    )
    timing: Annotated[
        Literal["pipelined", "synchronised"],
        PlainValidator(one_of("pipelined", "synchronised")),
        _choice("pipelined", "synchronised"),
    ] = Field(
        default="pipelined",
        description="synchronised: wait for the device after each stage, so that stage times add up.",
    )
    isolation: Annotated[Isolation, PlainValidator(one_of(*get_args(Isolation))), _choice(*get_args(Isolation))] = (
        Field(default="any", description="Required isolation: process, a process of its own; mig, an instance.")
    )
    near: NamesText = Field(
        default=(), description="`plan`: tenants that must be on the same device.", examples=[["embed"]]
    )
    apart: NamesText = Field(
        default=(), description="`plan`: tenants on other devices; itself: its replicas.", examples=[["train"]]
    )
    replicas: Count | None = Field(
        default=None,
        description="Number of replicas that divide its load. `run` measures them beside each other; by default `plan` "
        "uses as many as its rate needs.",
    )
    hard: Switch = Field(
        default=True, description="`serve`: refuse requests that can't be in time; false: serve them late."
    )
    best_effort: Switch = Field(default=False, description="`serve`: no share, idle time only.")
    group: Name = Field(default=GROUP, description="`serve`: tenants of a group share a worker process.")
    key: KeyHash | None = Field(default=None, description="`serve`: hash of the tenant's API key.")

    @model_validator(mode="before")
    @classmethod
    def _runs_something(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or is_described(data.get("job")):
            return data
        if data.get("workload") is None and data.get("backend") is None:
            raise ValueError("workload is missing, such as bert-base-mini")
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.server is not None and not is_server(self.workload or ""):
            raise ValueError(f"server is for workloads that talk to one: {', '.join(SERVER_FORMS)}")
        if self.workload is not None and self.backend is not None:
            raise ValueError("a tenant needs either a workload, executed here, or a backend")
        given = [name for name in ("rate", "load", "job") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"expected one of rate, load and job, not {' and '.join(given)}")
        if self.rate is not None:  # from here on, only the load holds the rate
            object.__setattr__(self, "load", Load(kind="poisson", rate_rps=self.rate))
            object.__setattr__(self, "rate", None)
        if self.tokens is not None and self.mode is None and not self.train and self.workload in generators():
            object.__setattr__(self, "mode", "generate")
        return self

    @property
    def arrivals(self) -> Load | None:
        """When its requests arrive; a job is always busy. None: as the file's loads say."""
        return Load(kind="closed") if self.job is not None else self.load

    @property
    def has_tokens(self) -> bool:
        """Whether its answers may be tokens: it generates, or a server answers."""
        return self.mode == "generate" or self.workload is None or is_server(self.workload)

    @property
    def most_at_once(self) -> int:
        """The most requests that are executed together."""
        return self.choices_at_once[-1]

    @property
    def choices_at_once(self) -> tuple[int, ...]:
        """Numbers of requests of which a plan chooses."""
        if self.at_once is not None:
            return self.at_once
        return (1,) if self.workload is None else auto_at_once(self._single())

    def spec(self, together: int = 1) -> WorkloadSpec:
        """The workload and the size of a request, or of several that are executed together."""
        assert self.workload is not None, "only serve has tenants without a workload"
        spec = self._single()
        if in_steps(spec):  # an engine batches by itself
            most = together if together > 1 else self.at_once[-1] if self.at_once else None
            return spec if most is None else spec.model_copy(update={"at_once": most})
        return spec.model_copy(update={"batch": self.batch * together}) if together > 1 else spec

    def _single(self) -> WorkloadSpec:
        assert self.workload is not None, "only serve has tenants without a workload"
        return WorkloadSpec(
            name=self.workload,
            batch=self.batch,
            seq=self.seq,
            dtype=self.dtype,
            tf32=self.tf32,
            attention=self.attention,
            channels_last=self.channels_last,
            loading_s=self.loading,
            mode=self.mode,
            tokens=self.tokens,
            software=self.software[0] if self.software else None,
            quantised=self.quantised,
            parallel=self.parallel,
            prefix_hits=self.prefix_hits or 0.0,
            train=self.train,
            layers=self.layers,
            weights=self.weights,
            params=self.params,
            seed=self.seed,
            server=self.server if self.server is not None and self.server.start else None,
            metrics="" if self.server is None or self.server.start else self.server.metrics,
        )

    def tenant(self, name: str, of: str, load: Load) -> Tenant:
        """As a tenant of a mix: with its name and load there."""
        spec = self.spec()
        if self.most_at_once > 1 and not in_steps(spec):
            spec = spec.model_copy(update={"at_once": self.most_at_once})
        return Tenant(
            name=name,
            of=of,
            workload=spec,
            load=load,
            slo=self.slo,
            priority=self.priority,
            share=self.share,
            at_once=self.most_at_once,
            hard=self.hard,
            best_effort=self.best_effort,
            own_cores=self.own_cores,
            threads=self.threads,
            synchronised=self.timing == "synchronised",
        )


def demand(name: str, entry: TenantEntry) -> str:
    """What a tenant asks for, in requests and in items; empty unless its load has a rate.

    `batch: 4` once meant other things, so every verb shows this before it works.
    """
    if entry.load is None or entry.load.rate_rps is None:
        return ""
    rate_rps = entry.load.rate_rps
    items = f" of {entry.batch} items" if entry.batch > 1 else ""
    return f"{name}: {rate(rate_rps, digits=4)}{items}, {rate(rate_rps * entry.batch, 'item', digits=4)}"


def demands(tenants: Mapping[str, TenantEntry], most: int = 20) -> list[str]:
    """A line for each tenant with a rate, up to this many."""
    lines = [line for name, entry in tenants.items() if (line := demand(shown(name)[1:-1], entry))]
    return lines if len(lines) <= most else [*lines[: most - 1], f"and {len(lines) - most + 1} more tenants"]
