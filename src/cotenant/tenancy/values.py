"""The scalars of a study file: parsing and formatting.

Each type parses a value or raises ValueError with the complete sentence for the user.
"""

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator, WithJsonSchema

from cotenant.tenancy.words import did_you_mean, expected, is_number, key_shown, share_of_one, share_written, shown
from cotenant.workloads.protocol import (
    ATTENTION,
    MOST_PARALLEL,
    QUANTISED,
    SOFTWARE,
    Attention,
    Dtype,
    Quantised,
    Software,
)

LONGEST_NAME = 80
RESERVED_IN_NAMES = "/\\+#"
LARGEST_SEED = 2**63 - 1

_DURATION = re.compile(r"^(\d+(?:\.\d*)?|\.\d+)\s*(us|ms|s|min|h)$")
_SECONDS_IN = {"us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1), "min": Decimal(60), "h": Decimal(3600)}
_STUDY_NAME = re.compile(r"^\w[\w .-]*$")


class Frozen(BaseModel):
    """Data that never changes after validation."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _whole(low: int, high: int | None = None) -> Callable[[Any], int]:
    form = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"

    def read(value: Any) -> int:
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= (high or value)
        if not fits:
            raise expected(form, value)
        return int(value)

    return read


def _priority(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise expected("a whole number", value)
    return value


def _duration(example: str, *, zero: bool = False, bare: bool = True) -> Callable[[Any], float]:
    form = f"a time such as {example}" if bare else f"a time with its unit such as {example}"

    def read(value: Any) -> float:
        match = _DURATION.match(value.strip()) if isinstance(value, str) else None
        if match:
            seconds = float(Decimal(match.group(1)) * _SECONDS_IN[match.group(2)])
        elif bare and is_number(value):
            seconds = float(value)
        else:
            raise expected(form, value)
        if not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and not zero):
            raise expected(f"a time {'of at least' if zero else 'above'} 0", value)
        return seconds

    return read


read_duration = _duration("500ms, 2s or 2min")
"""Seconds from a time in the syntax of studies and the command line."""
read_latency = _duration("50ms", bare=False)
"""Seconds from a time that must have its unit."""


_BYTES_IN = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_BYTES = re.compile(r"^(\d+(?:\.\d+)?)\s*([a-z]*)$")


def read_bytes(value: Any) -> int:
    """Bytes from `4GB`, `512MiB` or a number."""
    match = _BYTES.match(str(value).strip().lower()) if not isinstance(value, bool) else None
    if match is None or match.group(2) not in _BYTES_IN or float(match.group(1)) == 0:
        raise expected("a size of memory such as 4GB or 512MiB", value)
    return int(Decimal(match.group(1)) * _BYTES_IN[match.group(2)])


def duration_written(seconds: float) -> str:
    """A time in the syntax of a study."""
    return f"{Decimal(repr(seconds)):f}s"


def _or_auto(read: Callable[[Any], float]) -> Callable[[Any], float | None]:
    return lambda value: None if value is None or value == AUTO else read(value)


def _auto_written(seconds: float | None) -> str:
    return AUTO if seconds is None else duration_written(seconds)


def quantile_written(quantile: float) -> str:
    """A quantile in the syntax of a study."""
    return f"p{(Decimal(repr(quantile)) * 100).normalize():f}"


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise expected("true or false", value)
    return value


def one_of(*options: str) -> Callable[[Any], str]:
    """Reads a word of a closed set."""

    def read(value: Any) -> str:
        if value not in options:
            near = did_you_mean(value, options) if isinstance(value, str) else ""
            raise expected(f"one of {', '.join(options)}", value, near)
        return str(value)

    return read


def _text(form: str, *, longest: int = 4096, empty: bool = False) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not (value.strip() or empty):
            raise expected(form, value)
        if len(value) > longest:
            raise ValueError(f"is {len(value)} characters long; at most {longest} are allowed")
        if not value.replace("\n", " ").isprintable():
            raise ValueError("contains control characters; use printable text")
        return value

    return read


def _name(value: Any) -> str:
    text = _text("a name", longest=LONGEST_NAME)(value)
    if set(text) & set(RESERVED_IN_NAMES):
        raise ValueError(f"a name can't contain any of {' '.join(RESERVED_IN_NAMES)}: they structure mixes and paths")
    if text != text.strip() or "\n" in text or text in {".", ".."}:
        raise ValueError("a name can't begin or end with a space, contain a line break, or consist of dots")
    return text


def _group_name(value: Any) -> str:
    """Like a name; a `+` is checked later, against the group's members."""
    _name(value.replace("+", "-") if isinstance(value, str) else value)
    return str(value)


def _study_name(value: Any) -> str:
    text = _text("a name", longest=LONGEST_NAME)(value)
    if not _STUDY_NAME.match(text) or text != text.strip():
        raise ValueError(
            f"{shown(text)} can't name a folder; use letters, digits, spaces, '-', '_' and '.', beginning with a letter"
        )
    return text


def _plain_mapping(form: str) -> Callable[[Any], dict[str, Any]]:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise expected(form, value)
        for key, inner in value.items():
            if isinstance(inner, float) and not math.isfinite(inner):
                raise ValueError(f"{key_shown(key)} is {inner}; expected a finite number")
        return dict(value)

    return read


_NAME_SCHEMA = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME, "pattern": r"^[^/\\+#]+$"}
_DURATION_SCHEMA = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": r"^\s*(\d+(\.\d*)?|\.\d+)\s*(us|ms|s|min|h)\s*$"},
    ],
    "examples": ["500ms", "2s", "2min", 1.5],
}
LATENCY_SCHEMA = {**_DURATION_SCHEMA["anyOf"][1], "examples": ["50ms"]}  # type: ignore[dict-item] # see above
AUTO = "auto"
_AUTO_SCHEMA = {"anyOf": [{"const": AUTO}, *_DURATION_SCHEMA["anyOf"]]}

Count = Annotated[int, PlainValidator(_whole(1)), WithJsonSchema({"type": "integer", "minimum": 1})]
Bytes = Annotated[int, PlainValidator(_whole(0)), WithJsonSchema({"type": "integer", "minimum": 0})]
Copies = Annotated[int, PlainValidator(_whole(2, 1000)), WithJsonSchema({"type": "integer", "minimum": 2})]
Seed = Annotated[int, PlainValidator(_whole(0, LARGEST_SEED)), WithJsonSchema({"type": "integer", "minimum": 0})]
Priority = Annotated[int, PlainValidator(_priority), WithJsonSchema({"type": "integer"})]
Switch = Annotated[bool, PlainValidator(_switch), WithJsonSchema({"type": "boolean"})]
Seconds = Annotated[
    float,
    PlainValidator(read_duration),
    PlainSerializer(duration_written),
    WithJsonSchema(_DURATION_SCHEMA),
]
SecondsOrZero = Annotated[
    float,
    PlainValidator(_duration("300ms", zero=True)),
    PlainSerializer(duration_written),
    WithJsonSchema(_DURATION_SCHEMA),
]
AutoSeconds = Annotated[
    float | None,
    PlainValidator(_or_auto(read_duration)),
    PlainSerializer(_auto_written),
    WithJsonSchema(_AUTO_SCHEMA),
]
"""None: chosen when the tenants are known."""
AutoSecondsOrZero = Annotated[
    float | None,
    PlainValidator(_or_auto(_duration("300ms", zero=True))),
    PlainSerializer(_auto_written),
    WithJsonSchema(_AUTO_SCHEMA),
]
PartOfOne = Annotated[
    float,
    PlainValidator(share_of_one),
    PlainSerializer(share_written),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\s*\d+(\.\d*)?\s*%\s*$"},
                {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            ],
            "examples": ["3%"],
        }
    ),
]
DtypeName = Annotated[
    Dtype,
    PlainValidator(one_of(*get_args(Dtype))),
    WithJsonSchema({"type": "string", "enum": list(get_args(Dtype))}),
]
AttentionName = Annotated[
    Attention,
    PlainValidator(one_of(*ATTENTION)),
    WithJsonSchema({"type": "string", "enum": list(ATTENTION)}),
]
SoftwareName = Annotated[
    Software,
    PlainValidator(one_of(*SOFTWARE)),
    WithJsonSchema({"type": "string", "enum": list(SOFTWARE)}),
]
QuantisedName = Annotated[
    Quantised,
    PlainValidator(one_of(*QUANTISED)),
    WithJsonSchema({"type": "string", "enum": list(QUANTISED)}),
]
Parallel = Annotated[
    int,
    PlainValidator(_whole(1, MOST_PARALLEL)),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_PARALLEL}),
]
Text = Annotated[str, PlainValidator(_text("text")), WithJsonSchema({"type": "string", "minLength": 1})]
Sentence = Annotated[str, PlainValidator(_text("a sentence", empty=True)), WithJsonSchema({"type": "string"})]
Name = Annotated[str, PlainValidator(_name), WithJsonSchema(_NAME_SCHEMA)]
GroupName = Annotated[str, PlainValidator(_group_name), WithJsonSchema({**_NAME_SCHEMA, "pattern": r"^[^/\\#]+$"})]
StudyName = Annotated[
    str,
    PlainValidator(_study_name),
    WithJsonSchema({"type": "string", "pattern": r"^\w[\w .-]*$", "maxLength": LONGEST_NAME}),
]
Controls = Annotated[
    dict[str, Any],
    PlainValidator(_plain_mapping("a mapping of controls such as {power_limit_w: 250}")),
    WithJsonSchema({"type": "object"}),
]
Options = Annotated[
    dict[str, Any],
    PlainValidator(_plain_mapping("a mapping of the workload's own options such as {size: 2048}")),
    WithJsonSchema({"type": "object"}),
]
