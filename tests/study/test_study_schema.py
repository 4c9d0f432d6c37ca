"""The JSON Schema of study files: every key described, every built-in study valid, mistakes not."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cotenant.study.schema import builtin_file, builtin_names, json_schema
from cotenant.tenancy.document import read

SCHEMA = json_schema()
TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
CHECKED = {
    *("$defs", "$ref", "$schema", "additionalProperties", "anyOf", "const", "default", "description", "enum"),
    *("examples", "exclusiveMaximum", "exclusiveMinimum", "items", "maxLength", "maxProperties", "minItems"),
    *("minLength", "minProperties", "minimum", "oneOf", "pattern", "properties", "propertyNames", "required"),
    *("title", "type"),
}


def valid(value: Any, form: dict[str, Any]) -> bool:  # noqa: PLR0911 - one return for each kind of value
    """The part of JSON Schema that the study's schema uses."""
    assert set(form) <= CHECKED, f"not understood: {set(form) - CHECKED}"
    if "$ref" in form:
        return valid(value, SCHEMA["$defs"][form["$ref"].rpartition("/")[2]])
    choices = form.get("anyOf") or form.get("oneOf")
    if choices and not any(valid(value, choice) for choice in choices):
        return False
    kind = form.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (kind in {"integer", "number"} and isinstance(value, bool))):
        return False
    if value not in form.get("enum", [value]) or value != form.get("const", value):
        return False
    if isinstance(value, str):
        return re.search(form.get("pattern", ""), value) is not None and len(value) >= form.get("minLength", 0)
    if isinstance(value, int | float):
        return value >= form.get("minimum", value) and not value <= form.get("exclusiveMinimum", value - 1)
    if isinstance(value, list):
        return all(valid(item, form.get("items", {})) for item in value) and len(value) >= form.get("minItems", 0)
    return not isinstance(value, dict) or valid_mapping(value, form)


def valid_mapping(value: dict[str, Any], form: dict[str, Any]) -> bool:
    others = form.get("additionalProperties", True)
    known = form.get("properties", {})
    return (
        all(key in value for key in form.get("required", []))
        and all(valid(key, form.get("propertyNames", {})) for key in value)
        and all(valid(inner, known[key]) if key in known else extra(inner, others) for key, inner in value.items())
        and form.get("minProperties", 0) <= len(value) <= form.get("maxProperties", len(value))
    )


def extra(value: Any, form: Any) -> bool:
    return valid(value, form) if isinstance(form, dict) else bool(form)


@pytest.mark.parametrize("name", builtin_names())
def test_built_in_studies_are_valid(name: str):
    assert valid(read(builtin_file(name).read_text()).data, SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "blocks: 3",
        "blocks: {min: 2}",
        "window: 1.5",
        "until: null",
        "sharing: [processes, {mps: [60, 40]}, {mig: [3g.20gb]}]",
        "mixes: [solo, {copies: {a: [2]}}]",
        "loads: ['gamma(20, 2.5)', single-stream]",
    ],
)
def test_all_accepted_forms_are_valid(text: str):
    assert valid(read(f"tenants: {{a: {{workload: x, slo: 50ms}}}}\n{text}").data, SCHEMA)


def test_objectives_are_valid_in_each_form():
    for slo in ("50ms", "{latency: 50ms}", "{p99: 30ms, ttft p95: 300ms, tpot p95: 40ms}"):
        assert valid(read(f"tenants: {{a: {{workload: x, slo: {slo}}}}}").data, SCHEMA)
    assert not valid(read("tenants: {a: {workload: x, slo: {itl p95: 3ms}}}").data, SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "blocks: 0",
        "window: 2 seconds",
        "widnow: 2s",
        "sharing: processes",
        "sharing: [proceses]",
        "mixes: [pear]",
        "mixes: [{copies: {a: [1]}}]",
        "loads: [uniform(3)]",
        "fresh: never",
        "until: {interval: x}",
    ],
)
def test_mistakes_are_not_valid(text: str):
    assert not valid(read(f"tenants: {{a: {{workload: x}}}}\n{text}").data, SCHEMA)


def test_tenants_are_required_and_their_keys_closed():
    assert not valid({}, SCHEMA)
    assert not valid({"tenants": {"a": {}}}, SCHEMA)
    assert not valid({"tenants": {"a": {"workload": "x", "btach": 3}}}, SCHEMA)
    assert not valid({"tenants": {"a/b": {"workload": "x"}}}, SCHEMA)


def test_every_key_is_described():
    forms = [SCHEMA, *SCHEMA["$defs"].values()]
    forms += [choice for form in forms for choice in form.get("anyOf", [])]
    undescribed = [
        key for form in forms for key, inner in form.get("properties", {}).items() if not inner.get("description")
    ]
    assert undescribed == []
    assert {"tenants", "mixes", "sharing", "window", "until"} <= set(SCHEMA["properties"])


def test_it_is_plain_json(tmp_path: Path):
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    assert "\\u0000" not in json.dumps(SCHEMA)
