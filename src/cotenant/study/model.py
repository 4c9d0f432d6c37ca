"""The typed study: what to measure, with a default for everything except the tenants."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, PlainValidator, PrivateAttr, Tag, WithJsonSchema, model_validator

from cotenant.study.loads_and_sharings import LoadText, Share, SharingText
from cotenant.study.mixes import LISTS, WORD, Mix, MixRule, members_of, mixes_of
from cotenant.study.objectives import SloEntry
from cotenant.study.places import Places
from cotenant.study.preconditions import Before
from cotenant.study.spread import ROLES, SPREADS, Role, Spread
from cotenant.study.values import (
    AttentionName,
    AutoSeconds,
    AutoSecondsOrZero,
    Controls,
    Count,
    DtypeName,
    Interval,
    Name,
    Options,
    Parallel,
    Priority,
    QuantisedName,
    Seconds,
    SecondsOrZero,
    Seed,
    Sentence,
    SoftwareName,
    StudyName,
    Switch,
    Text,
    one_of,
)
from cotenant.study.words import expected
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Frozen, Sharing, Tenant
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.servers.names import SERVER_FORMS, is_server
from cotenant.workloads.servers.spec import ServerSpec


class TenantEntry(Frozen):
    """A tenant in the file: a workload, its size, its load, its objective."""

    workload: Text = Field(
        description="A catalogue name, `package.module:function`, a directory, a file, `command:...` or an address.",
        examples=["bert-base-mini"],
    )
    batch: Count = Field(default=1, description="Items per request.", examples=[8])
    seq: Count | None = Field(default=None, description="Tokens per item; default: the workload's.", examples=[128])
    dtype: DtypeName | None = Field(default=None, description="Number format; default: the device's preferred one.")
    tf32: Switch = Field(default=False, description="Round products of float32 to TF32 for tensor cores.")
    attention: AttentionName = Field(
        default="fused", description="`unfused`: several kernels, as in torch before 2.0.", examples=["unfused"]
    )
    mode: Text | None = Field(
        default=None,
        description="Decoders: forward, prefill, decode, generate; encoders: embed, classify.",
        examples=["generate"],
    )
    tokens: Count | None = Field(default=None, description="Number of tokens that `generate` produces.", examples=[32])
    software: SoftwareName | None = Field(
        default=None, description="Execution mode; default: operator by operator (eager).", examples=["compile"]
    )
    quantised: QuantisedName | None = Field(
        default=None, description="Format of the layers' weights, on simulated GPUs.", examples=["int4"]
    )
    parallel: Parallel = Field(
        default=1,
        description="Number of GPUs to split layers over (tensor parallelism), on simulated GPUs.",
        examples=[2],
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
        description="How to start the server that the workload talks to, inside the sharing under test.",
        examples=[{"start": "python serve.py --port {port}"}],
    )
    load: LoadText | None = Field(
        default=None, description="When its requests arrive; overrides the study's loads.", examples=["poisson(70%)"]
    )
    slo: SloEntry | None = Field(
        default=None,
        description="Its objective: quantiles of its latency, time to first token and time per output token.",
        examples=[{"p99": "50ms"}],
    )
    priority: Priority = Field(default=0, description="Higher goes first where the sharing supports priorities.")
    share: Share | None = Field(
        default=None, description="Share of the device it is given where the sharing splits it.", examples=[40]
    )
    threads: Count | None = Field(default=None, description="CPU threads per operator; default: set by the sharing.")
    timing: Annotated[
        Literal["pipelined", "synchronised"],
        PlainValidator(one_of("pipelined", "synchronised")),
        WithJsonSchema({"type": "string", "enum": ["pipelined", "synchronised"]}),
    ] = Field(
        default="pipelined",
        description="synchronised: wait for the device after each stage, so that stage times add up.",
    )

    @model_validator(mode="after")
    def _server_has_a_client(self) -> Self:
        if self.server is not None and not is_server(self.workload):
            raise ValueError(f"server is for workloads that talk to one: {', '.join(SERVER_FORMS)}")
        return self

    def spec(self) -> WorkloadSpec:
        """The workload and its size."""
        return WorkloadSpec(
            name=self.workload,
            batch=self.batch,
            seq=self.seq,
            dtype=self.dtype,
            tf32=self.tf32,
            attention=self.attention,
            mode=self.mode,
            tokens=self.tokens,
            software=self.software,
            quantised=self.quantised,
            parallel=self.parallel,
            train=self.train,
            layers=self.layers,
            weights=self.weights,
            params=self.params,
            seed=self.seed,
            server=self.server,
        )

    def tenant(self, name: str, of: str, load: Load) -> Tenant:
        """As a tenant of a mix: with its name and load there."""
        return Tenant(
            name=name,
            of=of,
            workload=self.spec(),
            load=load,
            slo=self.slo.slo() if self.slo else None,
            priority=self.priority,
            share=self.share,
            threads=self.threads,
            synchronised=self.timing == "synchronised",
        )


class Until(Frozen):
    """When the answer is precise enough."""

    interval: Interval = Field(
        description="Relative half-width of every slowdown's interval at which the run stops.", examples=["3%"]
    )


class Blocks(Frozen):
    """Number of repetitions; `blocks: 5` is short for `{min: 5, max: 5}`."""

    min: Count = Field(default=3, description="At least this many blocks, however precise the answer is.")
    max: Count = Field(default=1000, description="At most this many blocks, however imprecise the answer is.")

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        if isinstance(value, dict | Blocks):
            return value
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise expected("a whole number of at least 1 or a mapping such as {min: 3, max: 30}", value)
        return {"min": value, "max": value}


def _fixed(blocks: Any) -> bool:
    if isinstance(blocks, dict):
        return "min" in blocks and blocks["min"] == blocks.get("max")
    return isinstance(blocks, int) or (isinstance(blocks, Blocks) and blocks.min == blocks.max)


def _all(value: Any) -> str:
    if value != "all":
        raise expected("all or a list such as [processes, threads]", value)
    return "all"


def _sharing_form(value: Any) -> str:
    return LISTS if isinstance(value, list | tuple) else WORD


SharingRule = Annotated[
    Annotated[Literal["all"], PlainValidator(_all), WithJsonSchema({"type": "string", "const": "all"}), Tag(WORD)]
    | Annotated[tuple[SharingText, ...], Tag(LISTS)],
    Discriminator(_sharing_form),
]


class Study(Frozen):
    """What to measure. See `files.load_study` for how a file becomes one."""

    name: StudyName = Field(default="study", description="Names the run's folder; default: the file's name.")
    about: Sentence = Field(default="", description="One sentence about the question the study answers.")
    device: Text = Field(
        default="cpu", description="Where it runs; `--device` overrides it.", examples=["cpu", "cuda:0"]
    )
    tenants: Mapping[Name, TenantEntry] = Field(
        description="The tenants, by name.",
        examples=[{"bert-mini": {"workload": "bert-base-mini", "batch": 4}}],
    )
    mixes: tuple[MixRule, ...] = Field(
        default=("solo", "pairs"),
        description="Which tenants run at the same time. Solo trials of all of them are always measured.",
        examples=[["solo", "pairs"]],
    )
    sharing: SharingRule = Field(
        default=(Sharing(mode="processes"),),
        description="How they share the device: a list of ways, or `all` that the device supports.",
        examples=[["processes", "threads"]],
    )
    shares: (
        Annotated[
            Literal["given", "searched"],
            PlainValidator(one_of("given", "searched")),
            WithJsonSchema({"type": "string", "enum": ["given", "searched"]}),
        ]
        | None
    ) = Field(
        default=None,
        description="Of MPS and MIG: as given, or searched: also every partition of a simulated GPU that fits a mix, "
        "and on any GPU caps of MPS that favour a tenant; default: searched with `sharing: all` on a simulated GPU.",
        examples=["searched"],
    )
    settings: tuple[Controls, ...] = Field(
        default=({},),
        description="Settings of the device's controls (clocks, power limit); everything is measured at each.",
        examples=[[{}, {"power_limit_w": 250}]],
    )
    spread: (
        Annotated[Spread, PlainValidator(one_of(*SPREADS)), WithJsonSchema({"type": "string", "enum": list(SPREADS)})]
        | None
    ) = Field(
        default=None,
        description="Over the members of a group of devices: each in turn, all together, all combinations of up to "
        "four, or auto by the group's size; default: each.",
        examples=["each"],
    )
    devices: (
        Annotated[Role, PlainValidator(one_of(*ROLES)), WithJsonSchema({"type": "string", "enum": list(ROLES)})] | None
    ) = Field(
        default=None,
        description="Role of several machines (`--on ray`): replicates run the same blocks, workers divide "
        "the blocks, compare is replicates that may differ in kind; default: replicates with a `spread`, else workers.",
        examples=["workers"],
    )
    turns: Text | None = Field(
        default=None,
        description="A label of nodes (`--on ray`): devices whose nodes have the same value take turns.",
        examples=["rack"],
    )
    before: Before | None = Field(
        default=None,
        description="Condition before each trial: let the heat of the previous trial dissipate, or keep it steady.",
        examples=[{"cool_to": "idle+1C", "timeout": "5min"}],
    )
    pause_s: SecondsOrZero = Field(
        default=0.0, alias="pause", description="Pause between blocks, so that they cover different times."
    )
    loads: tuple[LoadText, ...] = Field(
        default=(Load(kind="closed"),),
        description="When requests arrive; everything is measured under each. A tenant's own `load` overrides them.",
        examples=[["closed(1)", "poisson(70%)"]],
    )
    window_s: AutoSeconds = Field(
        default=None,
        alias="window",
        description="Length of a trial's measured window; auto: as short as the slowest tenant allows, 2 s for open "
        "loads and simulated devices.",
        examples=["100ms"],
    )
    lead_s: AutoSecondsOrZero = Field(
        default=None,
        alias="lead",
        description="All tenants run together for this long before the window opens; auto: two requests of the "
        "slowest tenant, 0.3 s beside a window of 2 s.",
        examples=["20ms"],
    )
    until: Until | None = Field(
        default=Until(interval=0.03), description="Stop when precise enough; null: never before `blocks` or `budget`."
    )
    budget_s: Seconds | None = Field(
        default=600.0, alias="budget", description="Start no block that would end after this time; null: no limit."
    )
    blocks: Blocks = Field(default=Blocks(), description="Number of repetitions, each in random order.")
    fresh: Annotated[
        Literal["study", "block"],
        PlainValidator(one_of("study", "block")),
        WithJsonSchema({"type": "string", "enum": ["study", "block"]}),
    ] = Field(
        default="study",
        description="study: tenant processes live for the whole run; block: fresh ones for each block.",
    )
    alone_stopped: Switch = Field(
        default=True,
        description="For servers that cotenant starts: also measure each with the others stopped, before the first "
        "block and after the last; in the blocks the others are loaded and idle.",
    )
    seed: Seed = Field(default=1, description="Seed of the order of trials and of all schedules.")

    _places: Places = PrivateAttr(default_factory=Places)

    @model_validator(mode="before")
    @classmethod
    def _fixed_blocks_stop_by_themselves(cls, data: Any) -> Any:
        if isinstance(data, dict) and "until" not in data and _fixed(data.get("blocks")):
            return {**data, "until": None}
        return data

    @property
    def places(self) -> Places:
        """Where each key was written, for error messages."""
        return self._places

    def placed(self, places: Places) -> Self:
        """The same study with the locations of its keys."""
        copy = self.model_copy()
        copy._places = places  # noqa: SLF001 - a copy of itself
        return copy

    def mix_list(self) -> tuple[Mix, ...]:
        """The mixes of several tenants."""
        return mixes_of(self.mixes, tuple(self.tenants))

    def measured(self) -> tuple[str, ...]:
        """The tenants that appear in any mix, in the study's order."""
        return members_of(self.mixes, tuple(self.tenants))

    def sharings(self, modes: Sequence[str]) -> tuple[Sharing, ...]:
        """The ways to share; ``modes`` are those that the device supports, for `sharing: all`."""
        return tuple(Sharing(mode=mode) for mode in modes) if self.sharing == "all" else tuple(self.sharing)

    def to_yaml(self) -> str:
        """The study as equivalent YAML."""
        from cotenant.study.tree import write

        full = self.model_dump(mode="json", by_alias=True)
        terse = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        spelled_out = {key: terse[key] for key in ("tenants", "mixes") if key in terse}
        return write({**full, **spelled_out})
