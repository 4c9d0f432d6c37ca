"""When requests arrive: the kinds of load, their syntax, and MLPerf's names for them."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from pydantic import (
    BaseModel,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from cotenant.errors import CotenantError
from cotenant.tenancy.records import Int64s
from cotenant.tenancy.words import did_you_mean, expected, is_number, shown
from cotenant.workloads.recorded_arrivals import read_trace

Kind = Literal["closed", "poisson", "gamma", "trace"]

MOST_OUTSTANDING = 1024
"""A queue must be served once before its times are steady: a deeper queue would take longer than any window."""
MOST_ARRIVALS = 10_000_000
"""Of an open load in a trial: more than any tenant serves, since memory for their records is reserved up front."""
BURSTINESS = (0.001, 100.0)
"""Outside this range gaps are practically equal, or all requests of a trial come at once or not at all."""

ALIASES = {
    "single-stream": "closed(1)",
    "multi-stream": "closed(1)",  # MLPerf's n samples per query are the tenant's batch
    # All samples are available at once and only throughput counts: a tenant that is never idle, in its own batches.
    "offline": "closed(1)",
    "server": "poisson",
}

FORMS = "closed(n), poisson(rate), gamma(rate, cv), trace(file.csv, rate)"
_CALL = re.compile(r"^\s*([a-z][a-z-]*)\s*(?:\((.*)\))?\s*$", re.DOTALL)
_PERCENT = re.compile(r"^(\d+(?:\.\d+)?)\s*%$")
_RATE = re.compile(r"^((?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?)\s*/\s*(s|min|h)$")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


class Load(BaseModel):
    """When requests arrive. Written as text: `closed(1)`, `poisson(70%)`, `gamma(20, 2.5)`, `trace(a.csv, 50)`.

    A rate is in requests per second, or a share (`70%`) of what the tenant can do alone, which is then measured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    outstanding: int = 1
    rate_rps: float | None = None
    rate_share: float | None = None
    cv: float = 1.0
    """Coefficient of variation of the gaps: 1 is Poisson, above 1 is bursty."""
    path: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return _parse(value) if isinstance(value, str) else value

    @model_serializer
    def _to_text(self) -> str:
        return str(self)

    @property
    def open(self) -> bool:
        """Requests arrive on a schedule, whether or not the previous request is done."""
        return self.kind != "closed"

    def at(self, rate_rps: float) -> "Load":
        """The same load at a known rate."""
        return self.model_copy(update={"rate_rps": rate_rps, "rate_share": None})

    def divided(self, replicas: int) -> "Load":
        """The part of each of so many replicas."""
        if replicas == 1:
            return self
        return self.model_copy(
            update={
                "outstanding": max(1, -(-self.outstanding // replicas)),
                "rate_rps": None if self.rate_rps is None else self.rate_rps / replicas,
                "rate_share": None if self.rate_share is None else self.rate_share / replicas,
            }
        )

    def __str__(self) -> str:
        """The load as text."""
        rate = f"{self.rate_share * 100:.12g}%" if self.rate_share is not None else f"{self.rate_rps or 0:.12g}"
        match self.kind:
            case "closed":
                return f"closed({self.outstanding})"
            case "poisson":
                return f"poisson({rate})"
            case "gamma":
                return f"gamma({rate}, {self.cv:.12g})"
            case "trace":
                as_recorded = self.rate_rps is None and self.rate_share is None
                return f"trace({self.path})" if as_recorded else f"trace({self.path}, {rate})"


def _parse(text: str) -> dict[str, Any]:
    match = _CALL.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a load; expected one of {FORMS}")
    name, inside = match.group(1), match.group(2)
    if name in ALIASES:
        return _parse(_meant_by(name, inside))
    parts = [part.strip() for part in inside.split(",")] if inside and inside.strip() else []
    match name, len(parts):
        case "closed", 0 | 1:
            return {"kind": "closed", "outstanding": _count(parts[0]) if parts else 1}
        case "poisson", 1:
            return {"kind": "poisson", **_rate(parts[0])}
        case "gamma", 2:
            return {"kind": "gamma", **_rate(parts[0]), "cv": _burstiness(parts[1])}
        case "trace", 1:
            return {"kind": "trace", "path": parts[0]}
        case "trace", 2:
            return {"kind": "trace", "path": parts[0], **_rate(parts[1])}
    raise ValueError(f"{text!r} is not a load; expected one of {FORMS}")


def _meant_by(alias: str, inside: str | None) -> str:
    """The load of an MLPerf scenario; only `server` takes an argument, its rate."""
    if alias != "server":
        if inside is not None:
            raise ValueError(f"{alias} takes no argument; its samples per query are the tenant's batch")
        return ALIASES[alias]
    if inside is None:
        raise ValueError("server requires a rate, e.g. server(50) or server(70%)")
    return f"{ALIASES[alias]}({inside})"


def _rate(text: str) -> dict[str, float]:
    percent = _PERCENT.match(text)
    if percent:
        return {"rate_share": _positive(percent.group(1), "rate") / 100}
    return {"rate_rps": _positive(text, "rate")}


def _positive(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{what} {text!r} is not a number, e.g. 50 or 70%") from None
    if not 0 < value < float("inf"):
        raise ValueError(f"{what} must be above 0, not {text}")
    return value


def _burstiness(text: str) -> float:
    value, (low, high) = _positive(text, "burstiness (cv)"), BURSTINESS
    if not low <= value <= high:
        raise ValueError(f"burstiness (cv) must be from {low:g} to {high:g}, not {text}")
    return value


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= MOST_OUTSTANDING:
        raise ValueError(
            f"closed(n) requires a number of outstanding requests from 1 to {MOST_OUTSTANDING}, not {text!r}"
        )
    return int(text)


def _load_from(value: Any) -> Load:
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


def _rate_from(value: Any) -> float:
    match = _RATE.match(value.strip()) if isinstance(value, str) else None
    if match is None:
        near = f"; did you mean {value:g}/s?" if is_number(value) else ""
        raise expected("a rate with its unit such as 20/s or 300/min", value, near)
    rate = float(match.group(1)) / _SECONDS[match.group(2)]
    if rate <= 0:
        raise expected("a rate above 0 such as 20/s", value)
    return rate


_LOAD_SCHEMA = {
    "type": "string",
    "pattern": rf"^\s*({'|'.join((*get_args(Kind), *ALIASES))})\s*(\(.*\))?\s*$",
    "examples": ["closed(1)", "poisson(70%)", "gamma(20, 2.5)", "trace(arrivals.csv, 50%)"],
}
LoadText = Annotated[Load, PlainValidator(_load_from), PlainSerializer(str), WithJsonSchema(_LOAD_SCHEMA)]
RateText = Annotated[float, PlainValidator(_rate_from)]


# --- absolute arrival times of open loads: the same seed gives the same schedule, whatever the server does

NS = 1_000_000_000
Floats = npt.NDArray[np.float64]


def arrivals_ns(load: Load, *, seed: int, horizon_s: float) -> Int64s:
    """Offsets from the start, in ns and in order, of all requests due before the horizon."""
    if not load.open:
        raise ValueError("a closed load has no schedule")
    if load.kind == "trace":
        return _from_trace(load, seed, horizon_s)
    if load.rate_rps is None:
        raise ValueError(f"the rate of {load} has not been resolved")
    _require_room(load, load.rate_rps * horizon_s)
    random = np.random.default_rng(seed)
    expected = load.rate_rps * horizon_s
    times: Floats = np.empty(0)
    while times.size == 0 or times[-1] < horizon_s:
        count = int(expected + 6 * np.sqrt(expected) * max(1.0, load.cv) + 16)
        gaps = _gaps(load, random, count)
        times = np.concatenate([times, (times[-1] if times.size else 0.0) + np.cumsum(gaps)])
    return (times[times < horizon_s] * NS).astype(np.int64)


def _gaps(load: Load, random: np.random.Generator, count: int) -> Floats:
    assert load.rate_rps is not None
    mean = 1 / load.rate_rps
    if load.kind == "poisson":
        return random.exponential(mean, count)
    shape = 1 / load.cv**2
    return random.gamma(shape, mean / shape, count)


def _from_trace(load: Load, seed: int, horizon_s: float) -> Int64s:
    """A trace repeated cyclically from an arrival chosen by the seed; 0: from its first.

    A trial is shorter than most traces: blocks that all start at the beginning would miss the rest, and copies of a
    tenant would receive all their requests at the same time.
    """
    times = _times(load)
    gap = times[-1] / (len(times) - 1)
    if load.rate_rps is not None:
        times, gap = times / (gap * load.rate_rps), 1 / load.rate_rps
    _require_room(load, horizon_s / gap)
    begin = times[seed % len(times)]
    period = times[-1] + gap  # the gap from its end to its beginning is the mean gap
    repeats = int(np.ceil((begin + horizon_s) / period))
    repeated: Floats = (times[None, :] + period * np.arange(repeats)[:, None]).ravel() - begin
    return (repeated[(repeated >= 0) & (repeated < horizon_s)] * NS).astype(np.int64)


def first_arrival(load: Load, *, seed: int) -> int:
    """Position in its trace of the first arrival that `arrivals_ns` returns; 0 for loads without a trace."""
    if load.kind != "trace":
        return 0
    times = _times(load)
    return int(np.searchsorted(times, times[seed % len(times)]))


def _times(load: Load) -> Floats:
    """Offsets from the first arrival. Called in every trial, so an unchanged file is read once."""
    assert load.path is not None
    path = Path(load.path)
    return _times_in(path, path.stat().st_mtime_ns if path.exists() else 0)


@lru_cache(maxsize=8)
def _times_in(path: Path, _changed_ns: int) -> Floats:
    times: Floats = read_trace(path).times_s
    from_first: Floats = times - times[0]
    return from_first


def _require_room(load: Load, expected: float) -> None:
    if expected > MOST_ARRIVALS:
        named = load.model_copy(update={"kind": "poisson"}) if load.kind == "gamma" and load.cv == 1 else load
        raise CotenantError(
            f"{named} means {expected:.2g} requests in one trial; at most {MOST_ARRIVALS:,} are sent",
            hint="lower the rate or shorten the window",
        )
