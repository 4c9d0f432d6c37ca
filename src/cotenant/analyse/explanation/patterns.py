"""Correlates of slowdown under a way to share, and a small model validated on held-out mixes."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import atanh, exp, log, sqrt, tanh
from statistics import NormalDist

import numpy as np

from cotenant.analyse.estimates.effects import holm, independent_effect
from cotenant.analyse.estimates.intervals import Floats
from cotenant.analyse.explanation.binding import Binding
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.summary import Summary
from cotenant.tenancy.interval import Interval
from cotenant.text import percent, times, with_interval

# --- candidate causes of slowdown: properties of a tenant alone, and of its neighbours alone

Neighbours = Sequence[Binding]


def _busy(binding: Binding) -> float:
    return 1.0 if binding.busy is None else binding.busy


def _relative_time(own: Binding, others: Neighbours) -> float | None:
    times = [neighbour.service_ms.est for neighbour in others]
    if not own.service_ms.est or not all(times):
        return None
    return math.log(own.service_ms.est) - sum(math.log(time) for time in times if time) / len(times)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


PROPERTIES: Mapping[str, Callable[[Binding, Neighbours], float | None]] = {
    "how long its requests are beside its neighbours'": _relative_time,
    "how many neighbours it has": lambda own, others: float(len(others)),  # noqa: ARG005 - one signature for all
    "how much of the compute peak its neighbours use": lambda own, others: _sum(  # noqa: ARG005
        [
            None if neighbour.compute_share is None else neighbour.compute_share * _busy(neighbour)
            for neighbour in others
        ]
    ),
    "how much memory bandwidth its neighbours use": lambda own, others: _sum(  # noqa: ARG005
        [
            None if neighbour.bandwidth_share is None else neighbour.bandwidth_share * _busy(neighbour)
            for neighbour in others
        ]
    ),
    "how much of the compute peak it uses itself": lambda own, others: own.compute_share,  # noqa: ARG005
    "how much memory bandwidth it uses itself": lambda own, others: own.bandwidth_share,  # noqa: ARG005
    "how busy its neighbours keep the device": lambda own, others: _sum(  # noqa: ARG005
        [None if neighbour.cores is None else neighbour.core_demand for neighbour in others]
    ),
}


@dataclass(frozen=True, slots=True)
class Sufferer:
    """A tenant of a mix: its properties and its slowdown."""

    mix: str
    sharing: str
    tenant: str
    properties: Mapping[str, float]
    log_slowdown: float
    neighbours: int = 1
    service_ms: float = 0.0
    """Time of a request alone; 0 if unknown."""


def sufferers(summary: Summary, alone: Sequence[Binding]) -> list[Sufferer]:
    """Every tenant of every mix whose properties and slowdown are known; copies of a tenant count once."""
    known = {(binding.of, binding.load, binding.settings): binding for binding in alone}
    members: dict[Cell, list[str]] = {}
    for tenant in summary.tenants:
        members.setdefault(tenant.cell, []).append(tenant.of)
    by_tenant: dict[tuple[Cell, str], Sufferer] = {}
    for tenant in summary.tenants:
        cell, slowdown = tenant.cell, tenant.slowdown.est
        if cell.solo or not slowdown or (cell, tenant.of) in by_tenant:
            continue
        bindings = [known.get((of, cell.load, cell.settings)) for of in members[cell]]
        own = known.get((tenant.of, cell.load, cell.settings))
        if own is None or None in bindings or len(bindings) < 2:
            continue
        others = [binding for binding in bindings if binding is not None]
        others.remove(own)
        values = {name: of(own, others) for name, of in PROPERTIES.items()}
        by_tenant[cell, tenant.of] = Sufferer(
            mix=cell.mix,
            sharing=cell.sharing,
            tenant=tenant.of,
            properties={name: value for name, value in values.items() if value is not None},
            log_slowdown=math.log(slowdown),
            neighbours=len(others),
            service_ms=own.service_ms.est or 0.0,
        )
    return list(by_tenant.values())


FEWEST_MIXES = 6
"""With fewer mixes, any property correlates with anything."""
LEAST_SPREAD = 0.02
"""Standard deviation of log slowdowns below which there is nothing to explain."""
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Link:
    """The correlation of a property with slowdown."""

    property: str
    r: Interval
    p: float
    """After Holm's correction for the number of properties tried."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The pattern under a way to share."""

    sharing: str
    mixes: int
    tenants: int
    links: tuple[Link, ...]
    """Strongest first."""
    model: tuple[str, ...]
    """The one or two properties that best predict held-out mixes."""
    left_out_r2: float
    """Share of the variance of log slowdowns explained in held-out mixes; may be negative."""


def patterns(sufferers: Sequence[Sufferer]) -> list[Pattern]:
    """One pattern per way to share that has enough mixes and slowdowns that differ."""
    return list(_patterns(sufferers))


def _patterns(sufferers: Sequence[Sufferer]) -> Iterator[Pattern]:
    for sharing in dict.fromkeys(sufferer.sharing for sufferer in sufferers):
        rows = [sufferer for sufferer in sufferers if sufferer.sharing == sharing]
        names = [name for name in PROPERTIES if all(name in sufferer.properties for sufferer in rows)]
        mixes = np.array([sufferer.mix for sufferer in rows])
        y = np.array([sufferer.log_slowdown for sufferer in rows])
        if len(set(mixes)) < FEWEST_MIXES or y.std() < LEAST_SPREAD:
            continue
        columns = {name: np.array([sufferer.properties[name] for sufferer in rows]) for name in names}
        varying = {name: column for name, column in columns.items() if column.std() > 1e-9}
        if not varying:
            continue
        models = [*((name,) for name in varying), *combinations(varying, 2)]
        scored = {model: _left_out(np.column_stack([varying[name] for name in model]), y, mixes) for model in models}
        best = max(scored, key=lambda model: scored[model])
        yield Pattern(
            sharing=sharing,
            mixes=len(set(mixes)),
            tenants=len(rows),
            links=_links(varying, y, len(set(mixes))),
            model=best,
            left_out_r2=scored[best],
        )


def _links(columns: dict[str, Floats], y: Floats, mixes: int) -> tuple[Link, ...]:
    """Mixes are the replicates: tenants of a mix are not independent of each other."""
    found = {name: float(np.clip(np.corrcoef(column, y)[0, 1], -0.999, 0.999)) for name, column in columns.items()}
    error = 1 / sqrt(mixes - 3)
    p_values = holm([2 * NormalDist().cdf(-abs(atanh(r)) / error) for r in found.values()])
    reach = NormalDist().inv_cdf(0.975) * error
    links = [
        Link(name, Interval(r, tanh(atanh(r) - reach), tanh(atanh(r) + reach)), float(p))
        for (name, r), p in zip(found.items(), p_values, strict=True)
    ]
    return tuple(sorted(links, key=lambda link: -abs(link.r.est)))


def _left_out(x: Floats, y: Floats, mixes: "np.ndarray") -> float:
    """Predict each mix by a model fitted to the others."""
    design = np.column_stack([np.ones(len(y)), x])
    missed = 0.0
    for mix in set(mixes):
        out = mixes == mix
        coefficients, *_ = np.linalg.lstsq(design[~out], y[~out], rcond=None)
        missed += float(((y[out] - design[out] @ coefficients) ** 2).sum())
    return 1 - missed / float(((y - y.mean()) ** 2).sum())


# --- groups of mixes

FEWEST_IN_GROUP = 3
"""Fewest mixes in a group: fewer can't be distinguished from chance."""
BIG_FROM = 3.0
"""A request that takes this many times as long as another is big beside it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Mixes of a kind under a way to share."""

    name: str
    mixes: int
    slowdown: float
    """Geometric mean over tenants and mixes."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two groups under the same way to share."""

    sharing: str
    one: Group
    other: Group
    ratio: Interval
    """Slowdown of the first group over that of the second."""
    p: float
    """After Holm's correction for all contrasts of the run."""

    @property
    def shown(self) -> bool:
        """The difference is more than chance."""
        return self.p <= LEVEL


def contrasts(sufferers: Sequence[Sufferer], kinds: Callable[[], Mapping[str, str]]) -> list[Contrast]:
    """Compare every two groups that differ by kind, under each way to share; the most certain first.

    Args:
        sufferers: Tenants of mixes with their slowdowns. Only mixes of the most common size count: otherwise the number
            of tenants would dominate.
        kinds: Asked, if there are enough mixes for two groups, for each tenant's kind: `encoder`, `decoder` and so on.
    """
    found: list[tuple[Contrast, float]] = []
    for sharing in dict.fromkeys(sufferer.sharing for sufferer in sufferers):
        mixes: dict[str, list[Sufferer]] = {}
        for sufferer in sufferers:
            if sufferer.sharing == sharing and sufferer.neighbours == 1:
                mixes.setdefault(sufferer.mix, []).append(sufferer)
        if len(mixes) < 2 * FEWEST_IN_GROUP:
            continue
        for label in (partial(_by_kind, kinds=kinds()), _by_size):
            groups: dict[str, list[float]] = {}
            for many in mixes.values():
                if (name := label(many)) is not None:
                    groups.setdefault(name, []).append(float(np.mean([sufferer.log_slowdown for sufferer in many])))
            enough = {name: np.array(values) for name, values in groups.items() if len(values) >= FEWEST_IN_GROUP}
            found += [_contrast(sharing, (a, enough[a]), (b, enough[b])) for a, b in combinations(sorted(enough), 2)]
    if not found:
        return []
    adjusted = holm([p for _, p in found])
    corrected = [replace(contrast, p=float(p)) for (contrast, _), p in zip(found, adjusted, strict=True)]
    return sorted(corrected, key=lambda contrast: (contrast.p, -abs(log(contrast.ratio.est))))


def _by_kind(many: Sequence[Sufferer], kinds: Mapping[str, str]) -> str | None:
    found = {kinds.get(sufferer.tenant, "") for sufferer in many}
    if "" in found:
        return None
    return (
        f"{found.pop()}s"
        if len(found) == 1
        else " beside ".join(f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" for kind in sorted(found))
    )


def _by_size(many: Sequence[Sufferer]) -> str | None:
    times = [sufferer.service_ms for sufferer in many]
    if len(times) < 2 or not all(times):
        return None  # copies of a tenant count once
    return "a small beside a big tenant" if max(times) >= BIG_FROM * min(times) else "tenants of one size"


def _contrast(sharing: str, group: tuple[str, Floats], other: tuple[str, Floats]) -> tuple[Contrast, float]:
    """Welch's interval and test on logarithms; mixes are the replicates."""
    (name, a), (other_name, b) = group, other
    effect = independent_effect(np.exp(a), np.exp(b))
    groups = Group(name, a.size, exp(float(a.mean()))), Group(other_name, b.size, exp(float(b.mean())))
    ratio = Interval(effect.ratio.est, effect.ratio.lo, effect.ratio.hi)
    return Contrast(sharing, *groups, ratio, effect.p_value), effect.p_value


# --- A pattern in a sentence or two

MOST_CONTRASTS = 2
USEFUL = 0.3
"""Smallest share of variance explained in held-out mixes for a model to be named."""


def pattern_sentences(pattern: Pattern) -> Iterator[str]:
    """What correlates with slowdown, how well it predicts held-out mixes, and what does not correlate."""
    shown = [link for link in pattern.links if link.p <= LEVEL]
    evidence = f"{pattern.tenants} tenants in {pattern.mixes} mixes"
    if not shown:
        yield f"Under {pattern.sharing}, no tenant property clearly correlates with slowdown ({evidence})."
        return
    first = shown[0]
    others = [link for link in pattern.links if link.p > LEVEL and abs(link.r.est) < abs(first.r.est) / 2]
    apart = f", not on {others[-1].property} (r = {others[-1].r.est:.2f})" if others else ""
    yield (
        f"Under {pattern.sharing}, a tenant's slowdown depends on {first.property} ({_with_ends(first)}, "
        f"{'more' if first.r.est > 0 else 'less'} slowdown the more of it){apart} ({evidence})."
    )
    if pattern.left_out_r2 >= USEFUL:
        named = " and ".join(pattern.model)
        yield (
            f"Under {pattern.sharing}, {named} predict{'s' if len(pattern.model) == 1 else ''} "
            f"{percent(pattern.left_out_r2)} of how slowdowns differ in held-out mixes."
        )
    else:
        yield (
            f"Under {pattern.sharing}, no one or two properties predict held-out mixes well "
            f"({percent(max(0.0, pattern.left_out_r2))} at best)."
        )


def contrast_sentences(found: Sequence[Contrast], sharings: Collection[str]) -> Iterator[str]:
    """Groups that differ beyond chance under these ways to share, and the ways under which none do."""
    for sharing in sharings:
        mine = [contrast for contrast in found if contrast.sharing == sharing]
        shown = [contrast for contrast in mine if contrast.shown]
        for contrast in shown[:MOST_CONTRASTS]:
            worse, better, more = contrast.one, contrast.other, contrast.ratio
            if more.est <= 1:
                worse, better, more = better, worse, more.inverse()
            yield (
                f"Under {sharing}, pairs of {worse.name} ({worse.mixes}) slow each other down {times(more)} "
                f"as much as pairs of {better.name} ({better.mixes}): {worse.slowdown:.2f}x against "
                f"{better.slowdown:.2f}x (p = {max(contrast.p, 0.001):.2g} after Holm's correction)."
            )
        if mine and not shown:
            names = ", ".join(
                dict.fromkeys(name for contrast in mine for name in (contrast.one.name, contrast.other.name))
            )
            yield f"Under {sharing}, no group differs from another beyond chance, after Holm's correction: {names}."


def _with_ends(link: Link) -> str:
    return f"r = {with_interval(link.r, '{:.2f}'.format)}"
