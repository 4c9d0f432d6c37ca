"""What the tenants of a mix contend for, who slows whom, and whether sharing pays."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cotenant.analyse.decision import Answer, SharingOption
from cotenant.analyse.decision.option import VISIBLE, Kept
from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.analyse.estimates.quantiles import Missing, Number
from cotenant.analyse.explanation.binding import Binding
from cotenant.analyse.explanation.split import CLOCK, CORES, DEVICE, HOST, MEMORY, QUEUE, Split
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.evidence import Peaks
from cotenant.analyse.sharing.model_error import inverse, widened
from cotenant.analyse.sharing.summary import MixSummary, Summary
from cotenant.tenancy.device_names import DeviceName

Resource = Literal[
    "nothing", "cores", "memory bandwidth", "cache", "memory bandwidth or cache", "clock", "queue", "host", "device",
    "unknown",
]  # fmt: skip

SCARCE, AMPLE = 0.8, 0.5
"""Shares of the memory bandwidth used by all tenants: above the first it is scarce, below the second it is not."""


RESOURCES: Mapping[str, Resource] = {QUEUE: "queue", CORES: "cores", CLOCK: "clock", HOST: "host", DEVICE: "device"}
"""Resource that a part of the slowdown points to by itself."""


@dataclass(frozen=True, slots=True)
class Fight:
    """The resource that a tenant of a mix lacks."""

    tenant: str
    resource: Resource
    sure: bool
    """False: the sensors leave another cause possible."""


@dataclass(frozen=True, slots=True)
class MixStory:
    """A mix under a sharing."""

    cell: Cell
    fights: tuple[Fight, ...]
    cores_wanted: float | None
    """Sum of the cores that its tenants keep busy alone."""
    cores: int | None
    bandwidth_wanted: float | None
    """Sum of the shares of memory bandwidth that its tenants use alone."""
    aggressor: str | None
    victim: str | None
    imbalance: Number
    """For a pair: the victim's slowdown over the aggressor's."""
    stp: Number
    missed: tuple[str, ...]
    """Tenants that miss their objective here."""
    worth: Literal["yes", "no", "open"]
    delay: Number | None = None
    """Mean time of requests, where alone is 1; None unless every tenant's rate is given."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return self.cell.to_json() | {
            "contended": [
                {"tenant": fight.tenant, "resource": fight.resource, "sure": fight.sure} for fight in self.fights
            ],
            "cores_wanted": self.cores_wanted,
            "cores": self.cores,
            "bandwidth_wanted": self.bandwidth_wanted,
            "aggressor": self.aggressor,
            "victim": self.victim,
            "imbalance": self.imbalance,
            "stp": self.stp,
            "missed": list(self.missed),
            "worth": self.worth,
            "delay": self.delay,
        }


@dataclass(frozen=True, slots=True)
class ContendingPair:
    """Two tenants and, block by block, the logarithm of the first tenant's slowdown over the second's."""

    first: str
    second: str
    logs: tuple[float, ...]
    error: tuple[float, float] | None = None
    """Error of a simulated ratio."""


def stories(
    summary: Summary,
    splits: Sequence[Split],
    bindings: Sequence[Binding],
    peaks: Peaks,
    imbalances: Mapping[Cell, ContendingPair],
    *,
    answer: Answer,
) -> list[MixStory]:
    """The contention in every shared cell."""
    options = {option.cell: option for choice in answer.choices for option in choice.options}
    of_cell: dict[Cell, list[Split]] = {}
    for split in splits:
        of_cell.setdefault(split.cell, []).append(split)
    alone = {(binding.of, binding.load, binding.settings): binding for binding in bindings}
    return [
        _story(
            mix,
            of_cell.get(mix.cell, []),
            alone,
            peaks,
            option=options.get(mix.cell),
            pair=imbalances.get(mix.cell),
        )
        for mix in summary.mixes
        if not mix.cell.solo
    ]


def _story(
    mix: MixSummary,
    splits: Sequence[Split],
    alone: Mapping[tuple[str, str, str], Binding],
    peaks: Peaks,
    *,
    option: SharingOption | None,
    pair: ContendingPair | None,
) -> MixStory:
    cell = mix.cell
    members = [alone.get((split.of, cell.load, cell.settings)) for split in splits]
    known = [binding for binding in members if binding is not None]
    bandwidth = (
        sum(binding.bytes_demand for binding in known)
        if peaks.undisturbed and any(binding.bandwidth_share is not None for binding in known)
        else None
    )
    cores = (
        sum(binding.core_demand for binding in known) if any(binding.cores is not None for binding in known) else None
    )
    aggressor, victim, imbalance = _sides(pair)
    stp = mix.metrics["stp"]
    standings = () if option is None else option.standings
    objectives = {tenant.tenant: tenant.shared.answer for tenant in standings if tenant.shared is not None}
    missed = tuple(name for name, answer in objectives.items() if answer == "missed")
    return MixStory(
        cell=cell,
        fights=tuple(
            _fight(split, member, [other for other in known if other is not member], bandwidth)
            for split, member in zip(splits, members, strict=True)
        ),
        cores_wanted=cores if DeviceName(cell.device).on_cpu else None,
        cores=peaks.cores,
        bandwidth_wanted=bandwidth,
        aggressor=aggressor,
        victim=victim,
        imbalance=imbalance,
        stp=stp,
        missed=missed,
        worth=_worth(stp, set(objectives.values())),
        delay=option.delay if option is not None and option.rates_given else None,
    )


def _worth(stp: Number, objectives: Collection[Kept]) -> Literal["yes", "no", "open"]:
    """Sharing pays only if it clearly does more work than taking turns and keeps every objective."""
    if "missed" in objectives:
        return "no"
    if not isinstance(stp, Estimate) or stp.lo is None or stp.hi is None:
        return "open"
    if stp.hi < 1:
        return "no"
    return "yes" if stp.lo > 1 + VISIBLE and "open" not in objectives else "open"


def _sides(pair: ContendingPair | None) -> tuple[str | None, str | None, Number]:
    """The tenant that slows the other visibly more than it is slowed; None unless shown."""
    if pair is None or not pair.logs:
        return None, None, Missing("only two different tenants can be compared")
    ratio = _ratio(pair.logs, pair.error)
    if ratio.lo is not None and ratio.lo > 1 + VISIBLE:
        return pair.second, pair.first, ratio
    turned = _ratio([-log for log in pair.logs], None if pair.error is None else inverse(pair.error))
    if turned.lo is not None and turned.lo > 1 + VISIBLE:
        return pair.first, pair.second, turned
    return None, None, ratio


def _ratio(logs: Sequence[float], error: tuple[float, float] | None) -> Number:
    ratio = ratio_interval(logs)
    return ratio if error is None else widened(ratio, error)


def _fight(split: Split, own: Binding | None, others: Sequence[Binding], bandwidth: float | None) -> Fight:
    if not split.slowed:
        return Fight(split.tenant, "nothing", split.total.lo is not None)
    greatest = split.greatest
    if greatest is None:
        return Fight(split.tenant, "unknown", sure=False)
    if greatest in RESOURCES:
        return Fight(split.tenant, RESOURCES[greatest], sure=True)
    return Fight(split.tenant, _memory_resource(own, others, bandwidth), sure=greatest == MEMORY)


def _memory_resource(own: Binding | None, others: Sequence[Binding], bandwidth: float | None) -> Resource:
    """Distinguish bandwidth from cache by solo behaviour: bytes that come from a cache can be evicted from it."""
    if own is not None and own.while_serving == "cache":
        return "cache"
    by_memory = [
        binding for binding in (own, *others) if binding is not None and binding.while_serving == "memory bandwidth"
    ]
    if bandwidth is not None and bandwidth >= SCARCE and by_memory:
        return "memory bandwidth"
    if bandwidth is not None and bandwidth < AMPLE and not by_memory:
        return "cache"
    return "memory bandwidth or cache"


def contribution(split: Split, part: str) -> float | None:
    """Share of the slowdown's logarithm that a part makes up."""
    total, value = split.total.est, split.parts.get(part, Missing("")).est
    if total is None or value is None or total <= 0 or value <= 0 or abs(math.log(total)) < 1e-9:
        return None
    return math.log(value) / math.log(total)
