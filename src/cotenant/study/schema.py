"""The JSON Schema of study files, for editors that complete and check YAML."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cotenant.study.model import Study
from cotenant.workloads.servers import PRESETS


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a study file, with a description of every key."""
    schema = Study.model_json_schema(by_alias=True, mode="validation")
    for definition in (schema, *schema.get("$defs", {}).values()):
        for key, form in definition.get("properties", {}).items():
            form["title"] = key
            _close_names(form)
    schema["$defs"]["TenantEntry"]["anyOf"] = [{"required": ["workload"]}, {"required": ["backend"]}]
    _also(schema["$defs"]["BlocksEntry"], {"type": "integer", "minimum": 1})
    _also_presets(schema["$defs"]["ServerSpec"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "cotenant tenants file",
        "description": "Tenants, and what to measure, plan and serve of them.",
    }


def _also_presets(server: dict[str, Any]) -> None:
    """A server's command line may also be given as a preset."""
    server["properties"] |= {
        "preset": {
            "type": "string",
            "enum": list(PRESETS),
            "title": "preset",
            "description": "A server preset.",
        },
        "model": {"type": "string", "title": "model", "description": "The model that a preset serves."},
        "args": {"type": "string", "title": "args", "description": "Further arguments of a preset's command line."},
    }
    server.pop("required", None)


def _close_names(form: dict[str, Any]) -> None:
    """Refuse keys that don't look like names; pydantic only describes those that do."""
    for pattern, value in form.pop("patternProperties", {}).items():
        form["additionalProperties"] = value
        form["propertyNames"] = {**form.get("propertyNames", {}), "pattern": pattern}


def _also(definition: dict[str, Any], short: dict[str, Any]) -> None:
    """Also allow the short form of a mapping."""
    long = dict(definition)
    definition.clear()
    definition["description"] = long.pop("description", "")
    definition["anyOf"] = [{key: value for key, value in short.items() if key != "title"}, long]


# --- the built-in studies

_FOLDER = Path(__file__).parent / "builtin"


@dataclass(frozen=True, slots=True)
class StudyInfo:
    """A line of the list of studies."""

    name: str
    about: str
    tenants: tuple[str, ...]
    mixes: tuple[str, ...]
    """Labels of the mixes of several tenants; solo trials come on top."""


@cache
def builtin_names() -> tuple[str, ...]:
    """The built-in studies, `quick` first."""
    names = sorted(file.stem for file in _FOLDER.glob("*.yaml"))
    return tuple(sorted(names, key=lambda name: name != "quick"))


def builtin_file(name: str) -> Path:
    """The file of a built-in study."""
    return _FOLDER / f"{name}.yaml"


def builtin_studies() -> tuple[StudyInfo, ...]:
    """Summary of each built-in study."""
    from cotenant.study.files import load_study

    studies = (load_study(name) for name in builtin_names())
    return tuple(
        StudyInfo(
            name=study.name,
            about=study.about,
            tenants=study.measured(),
            mixes=tuple(mix.label for mix in study.mix_list()),
        )
        for study in studies
    )
