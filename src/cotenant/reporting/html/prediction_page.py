"""A prediction as one HTML file without network access or scripts: measured mixes solid, predicted ones hatched."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cotenant import __version__
from cotenant.prediction.interference.forecast import MixForecast, Prediction, TenantForecast
from cotenant.reporting.html.assets import environment, markup, policy, resource
from cotenant.reporting.html.heat_map import warmth
from cotenant.reporting.terminal.prediction import answer
from cotenant.tenancy.device_name import DeviceName
from cotenant.text import ratio


@dataclass(frozen=True, slots=True)
class Square:
    """One tenant beside others."""

    estimate: str
    interval: str
    basis: str
    warmth: float
    faster: bool
    hatched: bool


@dataclass(frozen=True, slots=True)
class PairMap:
    """All pairs under one way to share: a line per tenant, a column per neighbour."""

    sharing: str
    neighbours: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Square | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One tenant in a mix of three or more."""

    tenant: str
    mix: str
    squares: tuple[Square | None, ...]


@dataclass(frozen=True, slots=True)
class PredictionMaps:
    """Every mix, measured or predicted."""

    answer: str
    simulated: bool
    """Whether its mixes were simulated instead of measured."""
    pairs: tuple[PairMap, ...]
    sharings: tuple[str, ...]
    groups: tuple[GroupLine, ...]
    notes: tuple[str, ...]


def page(prediction: Prediction, *, source: str) -> str:
    """The complete page.

    Args:
        prediction: The result.
        source: The study it is for.
    """
    template = environment().get_template("prediction.html.j2")
    return template.render(
        title=f"Prediction for {source}",
        version=__version__,
        policy=policy([]),
        style=markup(resource("templates", "report.css")),
        maps=prediction_maps(prediction),
    )


def prediction_maps(prediction: Prediction) -> PredictionMaps:
    """The heat maps, for this page and for the report of an active run."""
    sharings = tuple(dict.fromkeys(one.sharing for one in prediction.mixes))
    return PredictionMaps(
        answer=answer(prediction),
        simulated=DeviceName(prediction.device).simulated,
        pairs=tuple(found for sharing in sharings if (found := _pairs(prediction, sharing)).lines),
        sharings=sharings,
        groups=tuple(_groups(prediction.mixes, sharings)),
        notes=prediction.notes,
    )


def _pairs(prediction: Prediction, sharing: str) -> PairMap:
    found: dict[tuple[str, str], Square] = {}
    for mix in prediction.mixes:
        if len(mix.mix) == 2 and mix.sharing == sharing:
            for place, tenant in enumerate(mix.tenants):
                found[tenant.tenant, mix.mix[1 - place]] = _square(tenant)
    names = tuple(dict.fromkeys(victim for victim, _ in found))
    return PairMap(sharing, names, tuple((one, tuple(found.get((one, other)) for other in names)) for one in names))


def _groups(mixes: tuple[MixForecast, ...], sharings: tuple[str, ...]) -> Iterator[GroupLine]:
    by_mix: dict[tuple[str, ...], dict[str, MixForecast]] = {}
    for mix in mixes:
        if len(mix.mix) > 2:
            by_mix.setdefault(mix.mix, {})[mix.sharing] = mix
    for ways in by_mix.values():
        yield from _lines(ways, sharings)


def _lines(ways: Mapping[str, MixForecast], sharings: tuple[str, ...]) -> Iterator[GroupLine]:
    """One line per tenant; copies are one."""
    some = next(iter(ways.values()))
    for name in dict.fromkeys(some.mix):
        place = some.mix.index(name)
        squares = tuple(_square(ways[one].tenants[place]) if one in ways else None for one in sharings)
        yield GroupLine(name, some.label, squares)


def _square(tenant: TenantForecast) -> Square:
    number = tenant.slowdown
    return Square(
        estimate=ratio(number.est),
        interval="" if number.lo is None or number.hi is None else f"{ratio(number.lo)} to {ratio(number.hi)}",
        basis=tenant.basis,
        warmth=warmth(number.est),
        faster=number.est < 1,
        hatched=not tenant.basis.endswith(("block", "blocks")),
    )
