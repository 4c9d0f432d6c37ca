"""The tenants file: tenants as in a study, each with its objective, and their device."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, PlainValidator, ValidationError, model_validator

from cotenant import opening
from cotenant.errors import SchedulingError, StudyError
from cotenant.scheduling import Contract, Fairness, ServiceClass, settle_shares
from cotenant.serving.backends.entry import BackendEntry
from cotenant.serving.lanes import Lane, lanes_of
from cotenant.serving.plan_file import TURNS, device_names, is_plan, tenants_of
from cotenant.study.loads_and_sharings import LoadText, RateText, SharingText
from cotenant.study.places import Places
from cotenant.study.shares import is_number
from cotenant.study.tree import NotYaml, Tree, read
from cotenant.study.values import (
    Count,
    DtypeName,
    Name,
    Options,
    Priority,
    Seed,
    Switch,
    Text,
    one_of,
    read_bytes,
    read_duration,
)
from cotenant.study.words import did_you_mean, expected
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Frozen
from cotenant.text import amount
from cotenant.workloads.protocol import Software, WorkloadSpec

LARGEST_FILE = 256 * 1024
_OBJECTIVE = re.compile(r"^(ttft|tpot)?\s*(p\d{1,2}(?:\.\d+)?)?$|^latency$")
_HASH = re.compile(r"^sha256:[0-9a-f]{64}$")
GROUP = "default"
_HINT = "e.g. tenants: {bert: {workload: bert-base-mini, slo: 50ms, share: 40%}}"


def _share(value: Any) -> float:
    """Parse `40%`, `0.4` or, as in a study, `40`."""
    match = re.match(r"^(\d+(?:\.\d+)?)\s*%$", value.strip()) if isinstance(value, str) else None
    number = float(match.group(1)) / 100 if match else value
    if not match and is_number(number) and number > 1:
        number /= 100
    if not is_number(number) or not 0 < number <= 1:
        raise expected("a share such as 40%", value)
    return float(number)


def _key(value: Any) -> str:
    if not isinstance(value, str) or not _HASH.match(value):
        raise ValueError("expected the hash of a key (sha256:...); `cotenant serve --new-key` makes a key and its hash")
    return value


class Objective(Frozen):
    """When a request is due: ``latency_s`` after its arrival, plus ``per_step_s`` per token for decoders."""

    latency_s: float
    per_step_s: float = 0.0
    quantile: float = 0.99
    """Fraction of requests that must be in time."""
    of_tokens: bool = False
    """Stated as ttft and tpot."""

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return {"latency_s": read_duration(value)}
        if set(value) <= set(cls.model_fields):
            return value
        times: dict[str, float] = {}
        quantile = 0.99
        for key, time in value.items():
            match = _OBJECTIVE.match(str(key))
            if match is None or not key:
                raise ValueError(f"expected latency, p99, ttft p95 or tpot p95, not {key!r}")
            kind = match.group(1) or "latency"
            if kind in times:
                raise ValueError(f"{kind} is stated twice")
            times[kind] = read_duration(time)
            quantile = float(match.group(2)[1:]) / 100 if match.group(2) else quantile
        if "latency" in times and len(times) == 1:
            return {"latency_s": times["latency"], "quantile": quantile}
        if "latency" in times or "ttft" not in times:
            raise ValueError("state one latency, or ttft and tpot")
        per_step_s = times.get("tpot", 0.0)
        return {"latency_s": times["ttft"], "per_step_s": per_step_s, "quantile": quantile, "of_tokens": True}


class ServedTenant(Frozen):
    """One tenant in the file."""

    workload: Text | None = Field(
        default=None, description="A model of the catalogue, or a directory with a model; required without a backend."
    )
    backend: BackendEntry | None = Field(
        default=None, description="Another server that executes the requests: {openai: ADDRESS} or {v2: ADDRESS}."
    )
    slo: Objective = Field(description="Time limit of a request: 50ms, {p99: 50ms}, {ttft: 300ms, tpot: 40ms}.")
    share: Annotated[float, PlainValidator(_share)] | None = Field(
        default=None, description="Guaranteed fraction of the device's time; default: an equal part of the rest."
    )
    batch: Count = Field(default=1, description="Maximum requests that run together.")
    seq: Count | None = Field(default=None, description="Tokens of a typical request.")
    dtype: DtypeName | None = Field(default=None, description="Number format.")
    mode: Text | None = Field(default=None, description="embed, classify, forward or generate.")
    tokens: Count | None = Field(default=None, description="Tokens of a typical answer, for mode generate.")
    software: Annotated[Software, PlainValidator(one_of(*get_args(Software)))] = Field(
        default="eager",
        description="graphs: as CUDA graphs, on an NVIDIA GPU; all others on simulated GPUs only.",
    )
    weights: Text | None = Field(default=None, description="Directory of safetensors; default: random from the seed.")
    params: Options = Field(default_factory=dict, description="Options specific to this workload.")
    seed: Seed = Field(default=0, description="Seed of random weights.")
    load: LoadText | None = Field(default=None, description="Expected traffic, for --dry-run.")
    rate: RateText | None = Field(default=None, description="The same as a mean rate, as in a file for `plan`.")
    hard: Switch = Field(default=True, description="Refuse requests that can't be in time; false: serve them late.")
    best_effort: Switch = Field(default=False, description="No share: idle time only.")
    isolation: Annotated[Literal["group", "process"], PlainValidator(one_of("group", "process"))] = Field(
        default="group", description="process: a separate worker process."
    )
    group: Name = Field(default=GROUP, description="Tenants of one group share a worker process.")
    priority: Priority = Field(
        default=0, description="Under `sharing: mps` or streams, the GPU prefers the work of higher ones."
    )
    slowdown: Annotated[float, Field(ge=1)] = Field(
        default=1.0,
        description="From a plan: how much longer a request takes on its part of a simulated device, beside the other "
        "tenants, than alone on the whole device.",
    )
    key: Annotated[str, PlainValidator(_key)] | None = Field(default=None, description="Hash of the tenant's API key.")

    @model_validator(mode="after")
    def _workload_or_backend(self) -> Self:
        if (self.workload is None) == (self.backend is None):
            raise ValueError("a tenant needs either a workload, served here, or a backend")
        if self.load is not None and self.rate is not None:
            raise ValueError("expected load or rate, not both")
        if self.workload is not None and self.slo.of_tokens and self.mode != "generate":
            raise ValueError("ttft and tpot are times of generated tokens: add mode: generate")
        return self

    @property
    def arrivals(self) -> Load | None:
        """The expected traffic; a mean rate stands for Poisson arrivals."""
        return self.load if self.rate is None else Load(kind="poisson", rate_rps=self.rate)

    def spec(self) -> WorkloadSpec:
        """The model at the size of one request."""
        assert self.workload is not None, "a backend's tenant has no workload here"
        return WorkloadSpec(
            name=self.workload,
            seq=self.seq,
            dtype=self.dtype,
            mode=self.mode,
            tokens=self.tokens,
            software=None if self.software == "eager" else self.software,
            weights=self.weights,
            params=self.params,
            seed=self.seed,
        )

    def contract(self, name: str) -> Contract:
        """Its contract."""
        service = ServiceClass.BEST_EFFORT if self.best_effort else ServiceClass.GUARANTEED
        return Contract(name, self.slo.latency_s, self.share, self.hard, service, per_step_s=self.slo.per_step_s)

    def scheduled_contract(self, name: str, tokens: int) -> Contract:
        """The contract for the scheduler: a backend's request is one chunk, so it includes the time of its tokens."""
        contract = self.contract(name)
        if self.backend is None or not contract.per_step_s:
            return contract
        return replace(contract, objective_s=contract.within_s(tokens - 1), per_step_s=0.0)


class TenantsFile(Frozen):
    """All of it."""

    tenants: dict[Name, ServedTenant] = Field(min_length=1, description="The tenants, by name.")
    device: Text = Field(default="cpu", description="Where: cpu, cpu:1-3, cuda:0, sim:NAME.")
    fairness: Annotated[str, PlainValidator(one_of("shares", "equal"))] = Field(
        default="shares",
        description="shares: a tenant within its share meets its objective; equal: all attain theirs equally often.",
    )
    sharing: SharingText | None = Field(
        default=None,
        description="Gives each tenant a part of the device, in the order of the tenants: {mps: [60, 40]}, "
        "{mig: [3g.20gb, 3g.20gb]}, {green: [60, 40]}, streams, or pinned on a CPU. Default: requests take turns on "
        "the whole device.",
    )
    cache_memory: Annotated[int, PlainValidator(read_bytes)] | None = Field(
        default=None,
        description="Memory for the caches of decoders, divided by their shares, such as 8GB; default: unlimited.",
    )
    threads: Count | None = Field(default=None, description="CPU threads per operator; default: one per core.")
    admin_key: Annotated[str, PlainValidator(_key)] | None = Field(
        default=None, description="Hash of the key for load, unload, drain, status and metrics."
    )

    @property
    def divided(self) -> bool:
        """Whether each tenant has a part of the device."""
        return self.sharing is not None and self.sharing.mode not in TURNS

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if not self.divided:
            return self
        own = {name: tenant for name, tenant in self.tenants.items() if tenant.backend is None}
        assert self.sharing is not None
        if self.sharing.shares and len(self.sharing.shares) != len(own):
            raise ValueError(f"sharing: {self.sharing} names {len(self.sharing.shares)} shares for {len(own)} tenants")
        for name, tenant in own.items():
            if tenant.share is not None:
                raise ValueError(
                    f"tenants.{name}: share is a part of the device's time, but each tenant has a part of the device; "
                    f"give the shares as sharing: {{{self.sharing.mode}: [...]}}"
                )
            if tenant.group != GROUP:
                raise ValueError(f"tenants.{name}: under sharing: {self.sharing.mode} each tenant has its own worker")
        return self

    @model_validator(mode="after")
    def _shares_add_up(self) -> Self:
        contracts = {contract.tenant: contract for contract in self.contracts()}
        try:
            for lane in lanes_of(self):
                settle_shares(contracts[name] for name in lane.tenants)
        except SchedulingError as error:
            raise ValueError(f"{error.message} {error.hint or ''}".strip()) from None
        return self

    def contracts(self) -> tuple[Contract, ...]:
        """The contract of each tenant."""
        return tuple(tenant.contract(name) for name, tenant in self.tenants.items())

    def cache_bytes(self, lane: Lane) -> int | None:
        """Memory for the caches of a lane's decoders: where each has a part of the device, all have equally much."""
        if self.cache_memory is None or not lane.own:
            return None
        lanes = [one for one in lanes_of(self) if one.own]
        decoding = [one for one in lanes if any(self.tenants[name].mode == "generate" for name in one.tenants)]
        return self.cache_memory // max(1, len(decoding))

    def rule(self) -> Fairness:
        """The rule for all tenants."""
        return Fairness(self.fairness)


def read_tenants(path: Path, device: str | None = None) -> TenantsFile:
    """Read and check a tenants file, or one device of a plan.

    Args:
        path: The file.
        device: Device to serve on instead of the file's; for a plan, one of its devices.

    Raises:
        StudyError: Lists every problem with its line, key and what was expected.
    """
    tree = _tree(path)
    if is_plan(tree.data):
        return _checked(Tree(tenants_of(tree.data, str(path), device), Places(str(path))), path)
    found = _checked(tree, path)
    return found if device is None else found.model_copy(update={"device": device})


def planned_devices(path: Path) -> tuple[str, ...]:
    """Names of a plan's devices; none for a tenants file. Raises StudyError."""
    data = _tree(path).data
    return device_names(data, str(path)) if is_plan(data) else ()


def _tree(path: Path) -> Tree:
    """The file's mapping. Raises StudyError."""
    try:
        tree = read(opening.read_text(path, most=LARGEST_FILE, encoding="utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it isn't text"
        raise StudyError(f"{path} can't be read: {reason.lower()}", hint=_HINT) from None
    except NotYaml as error:
        raise StudyError(f"{path}:{error.line}: {error}", hint=_HINT) from None
    if not isinstance(tree.data, dict):
        raise StudyError(f"{path} has no mapping with the key tenants", hint=_HINT)
    return tree


def _checked(tree: Tree, path: Path) -> TenantsFile:
    problems = list(tree.problems)
    try:
        found = TenantsFile.model_validate(tree.data)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            place = tuple(part for part in one["loc"] if part != "[key]")
            problems.append((place, _sentence(one, place)))
    if problems:
        lines = tuple(tree.places.describe(place, sentence) for place, sentence in problems)
        raise StudyError(f"{path} has {amount(len(lines), 'problem')}", problems=lines, hint=_HINT)
    return found


def _sentence(error: Any, place: tuple[str | int, ...]) -> str:
    if error["type"] == "extra_forbidden":
        models: dict[int, type[Frozen]] = {3: ServedTenant, 4: BackendEntry}
        model = models.get(len(place), TenantsFile)
        keys = list(model.model_fields)
        return f"unknown key{did_you_mean(str(place[-1]), keys) or '; expected one of ' + ', '.join(keys)}"
    if error["type"] == "missing":
        return f"{place[-1]} is missing"
    return str(error["msg"]).removeprefix("Value error, ")
