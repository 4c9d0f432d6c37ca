"""The typed contents of a tenants file: the tenants, and what each verb reads beside them."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PlainValidator,
    PrivateAttr,
    Tag,
    WithJsonSchema,
    model_validator,
)

from cotenant.study.mixes import Mix, MixRule, members_of, mixes_of, with_replicas
from cotenant.study.spread import ROLES, SPREADS, Role, Spread
from cotenant.tenancy.document import Places
from cotenant.tenancy.load import Load, LoadText
from cotenant.tenancy.sharing import Sharing, SharingText
from cotenant.tenancy.tenant_entry import KeyHash, TenantEntry
from cotenant.tenancy.validation_errors import LISTS, WORD
from cotenant.tenancy.values import (
    AutoSeconds,
    AutoSecondsOrZero,
    Controls,
    Count,
    Frozen,
    Name,
    PartOfOne,
    Seconds,
    SecondsOrZero,
    Seed,
    Sentence,
    StudyName,
    Switch,
    Text,
    one_of,
    read_bytes,
)
from cotenant.tenancy.ways import MODES
from cotenant.tenancy.words import did_you_mean, expected, is_number

STEADY = "steady"
_ABOVE_IDLE = re.compile(r"^idle\s*\+\s*(\d+(?:\.\d+)?)\s*°?C$")


def _goal(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    match = _ABOVE_IDLE.match(text)
    if match is None and text != STEADY:
        raise expected("idle+1C (or another number of degrees) or steady", value)
    return text if match is None else f"idle+{float(match.group(1)):g}C"


class Before(Frozen):
    """Waits before each trial until its devices are cool enough."""

    cool_to: Annotated[
        str,
        PlainValidator(_goal),
        WithJsonSchema({"type": "string", "pattern": r"^\s*(steady|idle\s*\+\s*\d+(\.\d+)?\s*°?C)\s*$"}),
    ] = Field(
        description="idle+1C: at most one degree above idle; steady: as warm as the work itself keeps it.",
        examples=["idle+1C", "steady"],
    )
    timeout_s: Seconds = Field(
        default=300.0, alias="timeout", description="Begin after this time at the latest, with a note."
    )

    @property
    def above_idle_c(self) -> float | None:
        """Degrees above idle; None: steady."""
        match = _ABOVE_IDLE.match(self.cool_to)
        return None if match is None else float(match.group(1))


class Until(Frozen):
    """When the answer is precise enough."""

    interval: PartOfOne = Field(
        description="Relative half-width of every slowdown's interval at which the run stops.", examples=["3%"]
    )


class BlocksEntry(Frozen):
    """Number of repetitions; `blocks: 5` is short for `{min: 5, max: 5}`."""

    min: Count = Field(default=3, description="At least this many blocks, however precise the answer is.")
    max: Count = Field(default=1000, description="At most this many blocks, however imprecise the answer is.")
    visits: Count = Field(
        default=1, description="Trials of each way to share a mix in a block; of each tenant alone there is one."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        if isinstance(value, dict | BlocksEntry):
            return value
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise expected("a whole number of at least 1 or a mapping such as {min: 3, max: 30}", value)
        return {"min": value, "max": value}


def _fixed(blocks: Any) -> bool:
    if isinstance(blocks, dict):
        return "min" in blocks and blocks["min"] == blocks.get("max")
    return isinstance(blocks, int) or (isinstance(blocks, BlocksEntry) and blocks.min == blocks.max)


def _all(value: Any) -> str:
    if value != "all":
        raise expected("all or a list such as [processes, threads]", value)
    return "all"


def _listed(value: Any) -> Any:
    """A single way to share stands for a list of it."""
    return [value] if isinstance(value, dict) or value in MODES else value


def _devices(value: Any) -> str:
    """The role of several machines, or the devices to plan for."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise expected(f"one of {', '.join(ROLES)}, or devices such as sim:a100-sxm4-80gb*4", value)
    device = ":" in value or value.partition("*")[0] == "cpu"
    near = "" if device or value in ROLES else did_you_mean(value, ROLES)
    if near:
        raise expected(f"one of {', '.join(ROLES)}, or devices such as sim:a100-sxm4-80gb*4", value, near)
    return value


def _price(value: Any) -> float:
    if not is_number(value) or value < 0:
        raise expected("dollars per hour such as 1.80", value)
    return float(value)


def _sharing_form(value: Any) -> str:
    return LISTS if isinstance(value, list | tuple) else WORD


SharingRule = Annotated[
    Annotated[Literal["all"], PlainValidator(_all), WithJsonSchema({"type": "string", "const": "all"}), Tag(WORD)]
    | Annotated[tuple[SharingText, ...], Tag(LISTS)],
    Discriminator(_sharing_form),
    BeforeValidator(_listed),
]


class Study(Frozen):
    """A tenants file: what to measure, plan and serve. See `files.load_study` for how files are read."""

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
        Annotated[
            str,
            PlainValidator(_devices),
            WithJsonSchema({"anyOf": [{"type": "string", "enum": list(ROLES)}, {"type": "string"}]}),
        ]
        | None
    ) = Field(
        default=None,
        description="`run --on ray`: replicates run the same blocks, workers divide the blocks, compare is replicates "
        "that may differ in kind; default: replicates with a `spread`, else workers. `plan`: the devices to plan for, "
        "as with `--devices`.",
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
    blocks: BlocksEntry = Field(default=BlocksEntry(), description="Number of repetitions, each in random order.")
    fresh: Annotated[
        Literal["study", "block", "trial"],
        PlainValidator(one_of("study", "block", "trial")),
        WithJsonSchema({"type": "string", "enum": ["study", "block", "trial"]}),
    ] = Field(
        default="study",
        description="study: tenant processes live for the whole run; block: fresh ones for each block; trial: each "
        "trial starts its own, with nothing else running, and a failed start is a result.",
    )
    alone_stopped: Switch = Field(
        default=True,
        description="For servers that cotenant starts: also measure each with the others stopped, before the first "
        "block and after the last; in the blocks the others are loaded and idle.",
    )
    seed: Seed = Field(default=1, description="Seed of the order of trials and of all schedules.")
    prices: Mapping[str, Annotated[float, PlainValidator(_price)]] = Field(
        default_factory=dict,
        description="`plan`: dollars per hour by kind of device.",
        examples=[{"a100-sxm4-80gb": 1.8}],
    )
    fairness: Annotated[
        Literal["shares", "equal"],
        PlainValidator(one_of("shares", "equal")),
        WithJsonSchema({"type": "string", "enum": ["shares", "equal"]}),
    ] = Field(
        default="shares",
        description="`serve`: shares: a tenant within its share meets its objective; equal: all attain theirs equally "
        "often.",
    )
    cache_memory: Annotated[int, PlainValidator(read_bytes), WithJsonSchema({"type": ["string", "integer"]})] | None = (
        Field(
            default=None,
            description="`serve`: memory for the caches of decoders, divided by their shares, such as 8GB; default: "
            "unlimited.",
        )
    )
    threads: Count | None = Field(default=None, description="`serve`: CPU threads per operator; default: one per core.")
    admin_key: KeyHash | None = Field(
        default=None, description="`serve`: hash of the key for load, unload, drain, status and metrics."
    )

    _places: Places = PrivateAttr(default_factory=Places)

    @model_validator(mode="before")
    @classmethod
    def _fixed_blocks_stop_by_themselves(cls, data: Any) -> Any:
        if isinstance(data, dict) and "until" not in data and _fixed(data.get("blocks")):
            return {**data, "until": None}
        return data

    @property
    def role(self) -> Role | None:
        """What several machines are for; None if the file doesn't say, or names devices to plan for."""
        return next((role for role in ROLES if role == self.devices), None)

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
        mixes = mixes_of(self.mixes, tuple(self.tenants))
        measured = self.measured()
        several = {
            name: entry.replicas for name, entry in self.tenants.items() if entry.replicas and entry.replicas > 1
        }
        replicas = {name: count for name, count in several.items() if name in measured}
        return with_replicas(mixes, replicas) if replicas else mixes

    def measured(self) -> tuple[str, ...]:
        """The tenants that appear in any mix, in the study's order."""
        return members_of(self.mixes, tuple(self.tenants))

    def sharings(self, modes: Sequence[str]) -> tuple[Sharing, ...]:
        """The ways to share; ``modes`` are those that the device supports, for `sharing: all`."""
        return tuple(Sharing(mode=mode) for mode in modes) if self.sharing == "all" else tuple(self.sharing)

    def to_yaml(self) -> str:
        """The study as equivalent YAML."""
        from cotenant.tenancy.document import write

        full = self.model_dump(mode="json", by_alias=True)
        terse = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        spelled_out = {key: terse[key] for key in ("tenants", "mixes") if key in terse}
        return write({**full, **spelled_out})
