"""What `predict` says: every number with an interval and its basis."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Ranged:
    """An estimate and its 90 % interval; no ends where nothing validated gives one."""

    est: float
    lo: float | None
    hi: float | None

    def scaled(self, factor: float) -> "Ranged":
        """Times a factor."""
        return Ranged(self.est * factor, *(None if end is None else end * factor for end in (self.lo, self.hi)))

    def inverse(self, of: float) -> "Ranged":
        """A number over this."""
        return Ranged(of / self.est, *(None if end is None else of / end for end in (self.hi, self.lo)))


@dataclass(frozen=True, slots=True)
class Tail:
    """Latency under an open load, from arrivals simulated over predicted service times. Not validated."""

    p50_ms: Ranged
    """Infinite where the tenant can't keep up."""
    p99_ms: Ranged
    attainment: Ranged | None
    """Share of requests within the objective; None without one."""


@dataclass(frozen=True, slots=True)
class TenantForecast:
    """One tenant of a mix."""

    tenant: str
    slowdown: Ranged
    throughput_rps: Ranged
    """With always one request under way."""
    latency_ms: Ranged
    """Mean time of a request once it has begun."""
    tail: Tail | None
    """None under a closed load."""
    basis: str
    """`measured, 5 blocks`, `3 pairs of this tenant`, `prior only`, `simulated`."""


@dataclass(frozen=True, slots=True)
class MixForecast:
    """One mix under one way to share."""

    mix: tuple[str, ...]
    sharing: str
    tenants: tuple[TenantForecast, ...]
    memory_bytes: int | None
    """Of all tenants together, from their solos; None where one is unknown."""

    @property
    def label(self) -> str:
        """`bert + resnet`."""
        return " + ".join(self.mix)

    @property
    def worst(self) -> float:
        """The largest slowdown."""
        return max(one.slowdown.est for one in self.tenants)


@dataclass(frozen=True, slots=True)
class NextMix:
    """A mix that is worth measuring."""

    mix: tuple[str, ...]
    sharing: str
    buys: float
    """Part of what is unknown (the total variance over all mixes of this sharing) that it takes away."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How good predictions for one way to share were on mixes that were measured, each left out once."""

    sharing: str
    measured: int
    error: float | None
    """Mean relative error; None below three measured mixes."""
    constant: float | None
    """The same for the typical slowdown in place of every prediction."""
    typical: float | None
    """The typical (median) slowdown."""

    @property
    def no_better(self) -> bool:
        """The typical slowdown says as much."""
        return self.error is not None and self.constant is not None and self.error >= self.constant


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer of `predict`."""

    device: str
    mixes: tuple[MixForecast, ...]
    next: tuple[NextMix, ...]
    trust: tuple[Trust, ...]
    notes: tuple[str, ...]
    """One sentence each: what was left aside, what is not validated."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "device": self.device,
            "level": 0.9,
            "mixes": self.mixes,
            "next": self.next,
            "trust": self.trust,
            "notes": self.notes,
        }
