"""Descriptions cached on disk by content: what was described, by which code, with which libraries."""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cotenant import opening
from cotenant.cache import cache_folder
from cotenant.workloads.protocol import Operator, Properties, WorkloadSpec

_PLAIN = tuple(field.name for field in fields(Properties) if field.name != "operators")


def remembered(spec: WorkloadSpec, config: Mapping[str, Any], describe: Callable[[], Properties]) -> Properties:
    """The description of this spec of a model with this configuration, computed once per machine."""
    path = cache_folder("properties") / f"{_key(spec, config)}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):  # missing or half written: compute it again
        return from_json(json.loads(opening.read_text(path)))
    properties = describe()
    with suppress(OSError):  # a read-only home only costs time
        opening.replace_file(path, json.dumps(to_json(properties)))
    return properties


def to_json(properties: Properties) -> dict[str, Any]:
    """As JSON; each distinct operator is written once, since layers repeat them."""
    known: dict[Operator, int] = {}
    # By identity first: repeated layers share their operators, and hashing them takes longer than anything else here.
    same = {id(operator): operator for operator in properties.operators}
    numbers = {key: known.setdefault(operator, len(known)) for key, operator in same.items()}
    order = [numbers[id(operator)] for operator in properties.operators]
    plain = {name: getattr(properties, name) for name in _PLAIN}
    return {**plain, "different": [asdict(operator) for operator in known], "order": order}


def from_json(data: Mapping[str, Any]) -> Properties:
    """Back from JSON."""
    different = [
        Operator(**{**operator, "shapes": _shapes(operator["shapes"]), "out_shapes": _shapes(operator["out_shapes"])})
        for operator in data["different"]
    ]
    plain = {name: data[name] for name in _PLAIN}
    return Properties(**plain, operators=tuple(different[number] for number in data["order"]))


def _shapes(lists: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(shape) for shape in lists)


def _key(spec: WorkloadSpec, config: Mapping[str, Any]) -> str:
    executed = {"software", "tf32", "attention", "channels_last", "loading_s", "at_once"}
    described = spec.model_dump(mode="json", exclude=executed)  # the same operators
    content = json.dumps([described, dict(config), _code()], sort_keys=True, default=list)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


@cache
def _code() -> str:
    """Identity of everything a description depends on besides the spec."""
    digest = hashlib.sha256(f"{version('torch')} {version('transformers')}".encode())
    here = Path(__file__)
    for source in [here, here.with_name("slices.py"), *sorted((here.parent / "models").glob("*.py"))]:
        digest.update(source.read_bytes())
    return digest.hexdigest()
