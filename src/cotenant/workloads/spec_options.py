"""Parses a spec strictly: unused options are refused, never ignored."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ByteSize, ConfigDict, Field, ValidationError

from cotenant.errors import WorkloadError
from cotenant.text import did_you_mean
from cotenant.workloads.protocol import Properties, WorkloadSpec


class Options(BaseModel):
    """The `params` of a kind of workload."""

    model_config = ConfigDict(frozen=True, extra="forbid")


AnyOptions = TypeVar("AnyOptions", bound=Options)

_OPTIONAL_FIELDS = ("seq", "dtype", "mode", "tokens", "software", "train", "layers", "weights", "server")


def read_options(spec: WorkloadSpec, known: type[AnyOptions]) -> AnyOptions:
    """The spec's `params`, typed; an invalid value is refused in a sentence that names it."""
    try:
        return known.model_validate(dict(spec.params))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        names = sorted(known.model_fields)
        known_names = f"it has {', '.join(f'`{name}`' for name in names)}" if names else "it has no params"
        hint = did_you_mean(key, names) or known_names
        raise WorkloadError(f"`{spec.name}` has no param `{key}`", hint=hint)
    if problem["type"] == "missing":
        raise WorkloadError(
            f"`{spec.name}` needs the param `{key}`", hint=f"add `params: {{{key}: ...}}` to the tenant"
        )
    complaint = problem["msg"].removeprefix("Value error, ")
    raise WorkloadError(f"`{spec.name}`: param `{key}` is {_short(problem['input'])}: {_lower_first(complaint)}")


def refuse_unused(spec: WorkloadSpec, *, used: Collection[str] = ()) -> None:
    """Refuse fields of the spec this workload would ignore."""
    for field in _OPTIONAL_FIELDS:
        value = getattr(spec, field)
        if field not in used and value != WorkloadSpec.model_fields[field].default:
            raise WorkloadError(
                f"`{spec.name}` has no {field}, but the tenant sets `{field}: {_plain(value)}`",
                hint=f"remove `{field}` from this tenant",
            )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _plain(value: Any) -> str:
    if isinstance(value, BaseModel):
        return "{...}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip(".")


FAMILY = "yours"
UNKNOWN_DTYPE = "unknown"


class Stated(Options):
    """`params: {stated: {...}}`: recorded as stated; what is omitted stays unknown."""

    parameters: int | None = Field(default=None, ge=0)
    weights: ByteSize | None = None
    flops: float | None = Field(default=None, ge=0)
    bytes_moved: float | None = Field(default=None, ge=0)
    memory: ByteSize | None = None

    def properties(self) -> Properties:
        """The stated costs of a request."""
        return Properties(
            params=self.parameters,
            weight_bytes=None if self.weights is None else int(self.weights),
            flops=self.flops,
            bytes_moved=self.bytes_moved,
            peak_memory_bytes=None if self.memory is None else int(self.memory),
        )


class StatedOptions(Options):
    """The `params` common to all user workloads."""

    stated: Stated = Stated()


@dataclass(frozen=True, slots=True)
class Opaque:
    """A workload whose costs and number format are known only as far as the user states them."""

    options: ClassVar[type[StatedOptions]] = StatedOptions
    name: str
    family: str = FAMILY
    dtype: None = None

    def properties(self, spec: WorkloadSpec) -> Properties:
        """Only what the user states."""
        return read_options(spec, self.options).stated.properties()


def read_spec(given: Mapping[str, Any]) -> WorkloadSpec:
    """A spec from options of the command line; the first error is raised as WorkloadError."""
    try:
        return WorkloadSpec.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise WorkloadError(
            f"{key} can't be {given.get(key)!r}: {_lower_first(first['msg'])}",
            hint="`cotenant workloads` lists the names; `cotenant batch --help` the options",
        ) from None
