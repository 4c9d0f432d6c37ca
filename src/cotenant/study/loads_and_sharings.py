"""Syntax of loads, rates and sharings in a file."""

import re
from typing import Annotated, Any, get_args

from pydantic import PlainSerializer, PlainValidator, ValidationError, WithJsonSchema

from cotenant.study.shares import is_number
from cotenant.study.words import did_you_mean, expected, shown
from cotenant.tenancy.load import ALIASES, FORMS, Kind, Load
from cotenant.tenancy.nouns import ALONE, Sharing

SPLITTING_MODES = ("mps", "mps-static", "green", "mig", "pinned")
_RATE = re.compile(r"^(\d+(?:\.\d*)?|\.\d+)\s*/\s*(s|min|h)$")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
MODES = ("processes", "threads", "streams", "exclusive", *SPLITTING_MODES)


def _load(value: Any) -> Load:
    if isinstance(value, Load):
        return value
    if not isinstance(value, str):
        raise expected("a load such as closed(1) or poisson(70%)", value)
    if value.count("(") != value.count(")"):
        raise ValueError(f'{shown(value)} is cut short; a load with a comma needs quotes inside [...]: "gamma(20, 2)"')
    try:
        return Load.model_validate(value)
    except ValidationError as error:
        kind, bracket, rest = value.partition("(")
        kinds = (*get_args(Kind), *ALIASES)
        if kind.strip() not in kinds:
            near = did_you_mean(kind.strip(), kinds)
            near = near.replace('"?', f'{bracket}{rest}"?') if near else ""
            raise expected(f"a load ({FORMS})", value, near) from None
        raise ValueError(str(error.errors()[0].get("ctx", {}).get("error", f"{shown(value)} is not a load"))) from None


def _rate(value: Any) -> float:
    match = _RATE.match(value.strip()) if isinstance(value, str) else None
    if match is None:
        near = f"; did you mean {value:g}/s?" if is_number(value) else ""
        raise expected("a rate with its unit such as 20/s or 300/min", value, near)
    rate = float(match.group(1)) / _SECONDS[match.group(2)]
    if rate <= 0:
        raise expected("a rate above 0 such as 20/s", value)
    return rate


def _share(value: Any) -> float | str:
    if isinstance(value, str) and value.strip() and value.isprintable():
        return value
    if not is_number(value) or value <= 0:
        raise expected("a share of the device such as 40 or 3g.20gb", value)
    return float(value)


def _sharing(value: Any) -> Sharing:
    if isinstance(value, Sharing):
        return value
    mode, shares = value, None
    if isinstance(value, dict) and len(value) == 1:
        ((mode, shares),) = value.items()
    if not isinstance(mode, str):
        raise expected("a way to share such as processes or {mps: [60, 40]}", value)
    if mode == ALONE:
        raise ValueError("alone is the sharing of solo trials, which are always measured; it can't be listed")
    if mode not in MODES:
        raise expected(f"one of {', '.join(MODES)}", mode, did_you_mean(mode, MODES))
    if shares is None:
        return Sharing(mode=mode)
    if mode not in SPLITTING_MODES:
        raise ValueError(f"{mode} doesn't split the device, so it takes no shares")
    if not isinstance(shares, list) or not shares:
        raise expected(f"a list of shares such as {{{mode}: [60, 40]}}", shares)
    read = tuple(_share(share) for share in shares)
    if mode in {"mps", "mps-static"} and any(isinstance(share, str) or share > 100 for share in read):
        raise ValueError(f"shares of {mode} are percentages of the device, above 0 and at most 100")
    return Sharing(mode=mode, shares=read)


def _sharing_written(sharing: Sharing) -> str | dict[str, list[float | str]]:
    return {sharing.mode: list(sharing.shares)} if sharing.shares else sharing.mode


_LOAD_SCHEMA = {
    "type": "string",
    "pattern": rf"^\s*({'|'.join((*get_args(Kind), *ALIASES))})\s*(\(.*\))?\s*$",
    "examples": ["closed(1)", "poisson(70%)", "gamma(20, 2.5)", "trace(arrivals.csv, 50%)"],
}
_SHARE_SCHEMA = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "minLength": 1}]}
_SHARING_SCHEMA = {
    "anyOf": [
        {"type": "string", "enum": list(MODES)},
        {
            "type": "object",
            "properties": {
                mode: {"type": "array", "items": _SHARE_SCHEMA, "minItems": 1, "description": f"Shares under {mode}."}
                for mode in SPLITTING_MODES
            },
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        },
    ],
    "examples": ["processes", {"mps": [60, 40]}],
}

LoadText = Annotated[Load, PlainValidator(_load), PlainSerializer(str), WithJsonSchema(_LOAD_SCHEMA)]
RateText = Annotated[float, PlainValidator(_rate)]
Share = Annotated[float | str, PlainValidator(_share), WithJsonSchema(_SHARE_SCHEMA)]
SharingText = Annotated[
    Sharing, PlainValidator(_sharing), PlainSerializer(_sharing_written), WithJsonSchema(_SHARING_SCHEMA)
]
