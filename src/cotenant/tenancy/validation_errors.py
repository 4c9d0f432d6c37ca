"""pydantic's errors in plain words."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from cotenant.tenancy.document import Path
from cotenant.tenancy.objective import is_objective
from cotenant.tenancy.words import did_you_mean, key_shown, shown

# Tags of unions appear in pydantic's error paths. No key of a file can contain a NUL, so the tags are unambiguous.
WORD, LISTS = "\0word", "\0lists"
_MAPPINGS = frozenset({"model_type", "model_attributes_type", "dict_type", "mapping_type"})


def problems_of(error: ValidationError, root: type[BaseModel]) -> list[tuple[Path, str]]:
    """Path and sentence of every error in a file of this model."""
    return [_problem(details, root) for details in error.errors(include_url=False)]


def _problem(details: ErrorDetails, root: type[BaseModel]) -> tuple[Path, str]:
    path = tuple(part for part in details["loc"] if part not in (WORD, LISTS, "[key]"))
    field = _field_at(path, root)
    example = f" such as {_flow(_example(field, path, root))}"
    match details["type"]:
        case "value_error":
            return path, str(details["ctx"]["error"])
        case "missing":
            return path[:-1], f"{path[-1]} is missing{example.replace(' such as', ', such as')}"
        case "extra_forbidden":
            return path, _unknown_key(path, root)
        case "tuple_type":
            example = example if example.startswith(" such as [") else ""
            return path, f"expected a list{example}, not {shown(details['input'])}"
        case kind if kind in _MAPPINGS:
            return path, f"expected a mapping{example}, not {shown(details['input'])}"
    return path, details["msg"]


def _unknown_key(path: Path, root: type[BaseModel]) -> str:
    keys = [_written(name, field) for name, field in _model_at(path[:-1], root).model_fields.items()]
    key = str(path[-1])
    if "slo" in keys and is_objective(key):
        return f"unknown key; an objective goes below slo, such as slo: {{{key}: 500ms}}"
    near = did_you_mean(key, keys)
    return f"unknown key{near or '; expected one of ' + ', '.join(keys)}"


def _example(field: FieldInfo | None, path: Path, root: type[BaseModel]) -> Any:
    """The field's first example, or the shortest mapping that its model accepts."""
    if field is not None and field.examples:
        return field.examples[0]
    name, first = next(iter(_model_at(path, root).model_fields.items()))
    return {_written(name, first): first.examples[0] if first.examples else "..."}


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key_shown(key)}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(inner) for inner in value) + "]"
    return str(value)


def _written(name: str, field: FieldInfo) -> str:
    return field.alias or name


def _model_at(path: Path, root: type[BaseModel]) -> type[BaseModel]:
    """The model of the mapping at this path; keys of plain mappings and indices stay within it."""
    model = root
    for part in path:
        for name, field in model.model_fields.items():
            if _written(name, field) == part:
                model = next(_models_in([field.annotation, *field.metadata]), model)
                break
    return model


def _field_at(path: Path, root: type[BaseModel]) -> FieldInfo | None:
    if not path:
        return None
    fields = _model_at(path[:-1], root).model_fields
    return next((field for name, field in fields.items() if _written(name, field) == path[-1]), None)


def _models_in(annotations: Any) -> Iterator[type[BaseModel]]:
    for annotation in annotations:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation
        else:
            yield from _models_in(get_args(annotation))
