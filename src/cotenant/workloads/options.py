"""Parses a spec strictly: unused options are refused, never ignored."""

from collections.abc import Collection
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from cotenant.errors import WorkloadError
from cotenant.text import did_you_mean
from cotenant.workloads.protocol import WorkloadSpec


class Options(BaseModel):
    """The `params` of one kind of workload."""

    model_config = ConfigDict(frozen=True, extra="forbid")


AnyOptions = TypeVar("AnyOptions", bound=Options)

_OPTIONAL_FIELDS = ("seq", "dtype", "mode", "tokens", "software", "train", "layers", "weights", "server")


def read_options(spec: WorkloadSpec, known: type[AnyOptions]) -> AnyOptions:
    """The spec's `params`, typed; an invalid one is refused in one sentence that names it."""
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
