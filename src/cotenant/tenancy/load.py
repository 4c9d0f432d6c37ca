"""When requests arrive: the kinds of load, their syntax, and MLPerf's names for them."""

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_serializer, model_validator

Kind = Literal["closed", "poisson", "gamma", "trace"]

MOST_OUTSTANDING = 1024
"""A queue must be served once before its times are steady: a deeper one would take longer than any window."""
MOST_ARRIVALS = 10_000_000
"""Of an open load in one trial: more than any tenant serves, since memory for their records is reserved up front."""
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
        """Requests arrive on a schedule, whether or not the previous one is done."""
        return self.kind != "closed"

    def at(self, rate_rps: float) -> "Load":
        """The same load at a known rate."""
        return self.model_copy(update={"rate_rps": rate_rps, "rate_share": None})

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
