"""The result of `predict`: every number with an interval and its basis."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from cotenant.analyse.sharing import time_range
from cotenant.tenancy.identity import TenantIdentity
from cotenant.tenancy.interval import Interval
from cotenant.tenancy.records import ModelErrorRecord
from cotenant.text import amount, listed, percent, ratio, with_interval

_LEAST_WEIGHT = 0.05
"""Parts with less weight aren't named."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Latency under an open load, simulated with predicted service times. Not validated."""

    p50_ms: Interval
    """Infinite if the tenant can't keep up."""
    p99_ms: Interval
    attainment: Interval | None
    """Fraction of requests within the objective; None without an objective."""
    times_ms: Mapping[str, Interval] = field(default_factory=dict)
    """By objective, such as `ttft p95`: the time that it limits."""


@dataclass(frozen=True, slots=True)
class TenantForecast:
    """A tenant of a mix."""

    tenant: str
    slowdown: Interval
    throughput_rps: Interval
    """At one request in flight."""
    latency_ms: Interval
    """Mean service time of a request."""
    tail: Tail | None
    """None under a closed load."""
    basis: str
    """`measured, 5 blocks`, `3 pairs of this tenant`, `prior only`, `simulated`."""
    energy_j: Interval | None = None
    """Per request, simulated; None where the device's power law is unknown. Not validated."""
    in_simulation: Interval | None = None
    """The slowdown as the simulation would give it, without its error against real GPUs: all that simulating more mixes
    can narrow. None where mixes were measured, or none was simulated."""

    @property
    def narrowable(self) -> Interval:
        """The slowdown with the part of its interval that more mixes on this device can narrow."""
        return self.slowdown if self.in_simulation is None else self.in_simulation


@dataclass(frozen=True, slots=True)
class MixForecast:
    """A mix under a way to share."""

    mix: tuple[str, ...]
    sharing: str
    tenants: tuple[TenantForecast, ...]
    memory_bytes: int | None
    """Total over all tenants, from their solos; None if any is unknown."""
    power_w: Interval | None = None
    """Mean power of the device, simulated; None where its power law is unknown. Not validated."""

    @property
    def label(self) -> str:
        """`bert + resnet`."""
        return " + ".join(self.mix)

    @property
    def worst(self) -> float:
        """The largest slowdown."""
        return max(tenant.slowdown.est for tenant in self.tenants)


@dataclass(frozen=True, slots=True)
class NextMix:
    """A mix worth measuring."""

    mix: tuple[str, ...]
    sharing: str
    buys: float
    """Fraction it removes of the total variance over all mixes of this sharing."""


CLOSE = 0.10
"""Ways to share whose slowest tenants differ by less than this are as good as each other."""


@dataclass(frozen=True, slots=True)
class OpenWay:
    """A mix of which the ranges don't tell the gentlest way to share, and the measurement that would."""

    mix: tuple[str, ...]
    ways: tuple[str, ...]
    """The gentlest by its estimate, then those that may be gentler."""
    loses: float
    """How many times as long the slowest tenant may take under the first as under another."""
    minutes: int | None = None
    command: str = ""
    """Takes at most `minutes`."""

    @property
    def label(self) -> str:
        """`bert + resnet`."""
        return " + ".join(self.mix)


def open_ways(mixes: Sequence[MixForecast]) -> tuple[OpenWay, ...]:
    """Mixes whose gentlest way to share is open, those first that a wrong choice costs most."""
    by_mix: dict[tuple[str, ...], list[MixForecast]] = {}
    for mix in mixes:
        by_mix.setdefault(mix.mix, []).append(mix)
    found = []
    for members, ways in by_mix.items():
        best, *others = sorted(ways, key=lambda way: way.worst)
        highest = max(tenant.slowdown.ends[1] for tenant in best.tenants)
        loses = {way.sharing: highest / max(tenant.slowdown.ends[0] for tenant in way.tenants) for way in others}
        gentler = {sharing: factor for sharing, factor in loses.items() if factor > 1 + CLOSE}
        if gentler:
            found.append(OpenWay(members, (best.sharing, *gentler), max(gentler.values())))
    return tuple(sorted(found, key=lambda way: -way.loses))


@dataclass(frozen=True, slots=True)
class Trust:
    """Accuracy for a way to share, on measured mixes left out one at a time."""

    sharing: str
    measured: int
    error: float | None
    """Mean relative error; None below three measured mixes."""
    constant: float | None
    """The same when predicting the typical slowdown every time."""
    typical: Interval | None
    """The typical (median) slowdown, with its 90 % interval."""
    sure: bool = False
    """Whether the mixes suffice to tell whether ours or the typical slowdown is closer."""
    parts: tuple[tuple[str, float], ...] = ()
    """What estimates of pairs rest on, and by how much."""

    def sentences(self) -> list[str]:
        """Whether ours or the typical slowdown is closer, and what estimates of pairs rest on."""
        if self.typical is None or self.error is None or self.constant is None:
            return []
        typical = f"the typical slowdown, {with_interval(self.typical, ratio)},"
        way = f"Under `{self.sharing}`,"
        mixes = amount(self.measured, "mix", "mixes")
        closer = (
            f"{way} on mixes left out one at a time: {percent(self.error)} off on average, "
            f"{typical} {percent(self.constant)}."
            if self.sure
            else f"{way} {mixes} can't tell whether these or {typical} are closer."
        )
        used = [f"{part} ({weight:.0%})" for part, weight in self.parts if weight >= _LEAST_WEIGHT]
        return [closer, f"{way} pairs rest on {listed(used)}."] if len(used) > 1 else [closer]


@dataclass(frozen=True, slots=True)
class PredictedMixes:
    """The result of `predict`."""

    device: str
    mixes: tuple[MixForecast, ...]
    next: tuple[NextMix, ...]
    trust: tuple[Trust, ...]
    notes: tuple[str, ...]
    """One sentence each: what was left out, what is not validated."""
    open: tuple[OpenWay, ...] = ()
    """Mixes whose gentlest way to share the ranges leave open."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "device": self.device,
            "level": 0.9,
            "mixes": self.mixes,
            "next": self.next,
            "open": self.open,
            "trust": self.trust,
            "notes": self.notes,
        }


# --- A prediction as JSON in a run folder, for its report on any machine

NAME = "prediction.json"
"""The file in the folder of an active run's last round."""


def text_of(prediction: PredictedMixes) -> str:
    """JSON. Latencies under open loads are left out: reports don't show them, and JSON has no infinite ones."""
    mixes = tuple(map(_without_tails, prediction.mixes))
    return json.dumps(asdict(replace(prediction, mixes=mixes)), ensure_ascii=False, allow_nan=False)


def prediction_of(text: str) -> PredictedMixes:
    """The prediction. Raises ValueError with the first problem."""
    try:
        return TypeAdapter(PredictedMixes).validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise ValueError(f"{where}: {problem['msg']}" if where else str(problem["msg"])) from None


def _without_tails(mix: MixForecast) -> MixForecast:
    return replace(mix, tenants=tuple(replace(tenant, tail=None) for tenant in mix.tenants))


# --- Simulated mixes, and mixes predicted from them: intervals include the simulation's own error


def error_of(
    errors: Mapping[tuple[str, TenantIdentity], ModelErrorRecord], sharing: str, key: TenantIdentity
) -> ModelErrorRecord | None:
    """The simulation's error for a tenant under a way to share.

    For a tenant that was not simulated beside others, the widest of those that were; None if none was.
    """
    if (sharing, key) in errors:
        return errors[sharing, key]
    of_others = [error for (way, _), error in errors.items() if way == sharing]
    return max(of_others, key=lambda error: error.slowdown[1] / error.slowdown[0], default=None)


def in_reality(slowdown: Interval, error: ModelErrorRecord | None) -> Interval:
    """A slowdown within the simulation, widened to where a real GPU's may lie; neighbours speed up no tenant."""
    return slowdown if error is None else slowdown.widened(error.slowdown, least=1.0)


def latency_in_reality(latency: Interval, error: ModelErrorRecord | None) -> Interval:
    """The same for a mean time beside others."""
    return latency if error is None else latency.widened(time_range(error, solo=False))
