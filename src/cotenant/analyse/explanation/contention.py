"""What the tenants of a mix contend for, who slows whom, and whether sharing pays."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cotenant.analyse.decision import Answer, SharingOption
from cotenant.analyse.decision.option import VISIBLE, Kept, TenantInOption
from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.analyse.explanation.binding import Binding
from cotenant.analyse.explanation.split import CLOCK, CORES, DEVICE, HOST, MEMORY, QUEUE, Split
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.evidence import Peaks
from cotenant.analyse.sharing.model_error import inverse, widened
from cotenant.analyse.sharing.summary import MixSummary, Summary
from cotenant.analyse.tabular import fields_of
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.interval import Estimate, Missing, Number
from cotenant.tenancy.ways import PERCENTAGES
from cotenant.text import percent, ratio

Resource = Literal[
    "nothing", "cores", "memory bandwidth", "cache", "memory bandwidth or cache", "clock", "queue", "host", "turns",
    "device", "unknown",
]  # fmt: skip

SCARCE, AMPLE = 0.8, 0.5
"""Shares of the memory bandwidth used by all tenants: above the first it is scarce, below the second it is not."""

RARELY = 0.25
"""A tenant that works for a smaller share of the time than this is likely to do with a smaller share of the device."""

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
        return self.cell.to_json() | fields_of(self, without=("cell",), fights="contended")


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
    """As the answer judges it: by the objectives if there are any, else by the work done against taking turns."""
    if objectives:
        return "no" if "missed" in objectives else "open" if "open" in objectives else "yes"
    if not isinstance(stp, Estimate) or stp.lo is None or stp.hi is None:
        return "open"
    if stp.hi < 1:
        return "no"
    return "yes" if stp.lo > 1 + VISIBLE else "open"


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
    if greatest == HOST and split.cell.sharing == "processes":  # a GPU works for one process at a time
        return Fight(split.tenant, "turns", sure=False)
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


def unneeded_shares(answer: Answer, busy: Mapping[tuple[Cell, str], float]) -> Iterator[str]:
    """Tenants that have more of the device than they need.

    Shown by a smaller share with which they do as well, or by how rarely they work with the smallest that was measured.

    Args:
        answer: The decision, with every way to share.
        busy: Share of the time in which a tenant works, for tenants with a rate.
    """
    for choice in answer.choices:
        held: dict[tuple[str, str], list[tuple[float, SharingOption, TenantInOption]]] = {}
        for option in choice.options:
            for share, tenant in _shares_of(option):
                held.setdefault((option.cell.sharing.partition("[")[0], tenant.tenant), []).append(
                    (share, option, tenant)
                )
        for (mode, name), options in held.items():
            yield from _unneeded(mode, name, sorted(options, key=lambda with_share: with_share[0]), busy)


def _shares_of(option: SharingOption) -> list[tuple[float, TenantInOption]]:
    """Percentages of the device, by tenant; empty where the way to share has none, or copies make them ambiguous."""
    mode, _, shares = option.cell.sharing.removesuffix("]").partition("[")
    names = option.cell.mix.split("+")
    by_name = {tenant.tenant: tenant for tenant in option.standings}
    if mode not in PERCENTAGES or len(names) != len(shares.split(",")) or set(names) != set(by_name):
        return []
    return [(float(share), by_name[name]) for share, name in zip(shares.split(","), names, strict=True)]


def _unneeded(
    mode: str,
    name: str,
    held: Sequence[tuple[float, SharingOption, TenantInOption]],
    busy: Mapping[tuple[Cell, str], float],
) -> Iterator[str]:
    (least, option, tenant), (most, _, with_most) = held[0], held[-1]
    objective = tenant.shared is not None
    if not _as_well(tenant, with_most):
        return
    does = "keeps its objective" if objective else "is as fast"
    works = busy.get((option.cell, name), 1.0)
    smaller = f"measure it with {max(1, round(least / 2))} %" if objective and works < RARELY else ""
    if least < most:
        times = f"{ratio(tenant.slowdown.est or 0)}x its time alone instead of {ratio(with_most.slowdown.est or 0)}x"
        working = f" and works for {percent(works)} of the time: {smaller}" if smaller else ""
        less = f"with {least:g} % it {does} ({times}){working}"
        yield f"{name} doesn't need {most:g} % of the device under {mode}: {less}."
    elif smaller:
        yield (
            f"{name} may need less than {least:g} % of the device under {mode}: it {does} and works for "
            f"{percent(works)} of the time; {smaller}."
        )


def _as_well(less: TenantInOption, more: TenantInOption) -> bool:
    """The objective is kept with less, or, without one, the time is visibly the same."""
    if less.shared is not None:
        return less.shared.answer == "kept"
    small, large = less.slowdown, more.slowdown
    return small.hi is not None and large.est is not None and small.hi <= large.est * (1 + VISIBLE)
