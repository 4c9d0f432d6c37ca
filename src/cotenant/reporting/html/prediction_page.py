"""A prediction as one HTML file without network access or scripts: measured mixes solid, predicted ones hatched."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cotenant import __version__
from cotenant.prediction.interference.forecast import MixForecast, PredictedMixes, TenantForecast
from cotenant.reporting.html.assets import environment, markup, policy, resource
from cotenant.reporting.html.matrix import warmth
from cotenant.reporting.terminal.prediction import answer
from cotenant.tenancy.nouns import DeviceName
from cotenant.text import ratio


@dataclass(frozen=True, slots=True)
class ForecastSquare:
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
    lines: tuple[tuple[str, tuple[ForecastSquare | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One tenant in a mix of three or more."""

    tenant: str
    mix: str
    squares: tuple[ForecastSquare | None, ...]


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


def page(prediction: PredictedMixes, *, source: str) -> str:
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


def prediction_maps(prediction: PredictedMixes) -> PredictionMaps:
    """The heat maps, for this page and for the report of an active run."""
    sharings = tuple(dict.fromkeys(mix.sharing for mix in prediction.mixes))
    return PredictionMaps(
        answer=answer(prediction),
        simulated=DeviceName(prediction.device).simulated,
        pairs=tuple(pairs for sharing in sharings if (pairs := _pairs(prediction, sharing)).lines),
        sharings=sharings,
        groups=tuple(_groups(prediction.mixes, sharings)),
        notes=prediction.notes,
    )


def _pairs(prediction: PredictedMixes, sharing: str) -> PairMap:
    squares: dict[tuple[str, str], ForecastSquare] = {}
    for mix in prediction.mixes:
        if len(mix.mix) == 2 and mix.sharing == sharing:
            for number, tenant in enumerate(mix.tenants):
                squares[tenant.tenant, mix.mix[1 - number]] = _square(tenant)
    names = tuple(dict.fromkeys(victim for victim, _ in squares))
    return PairMap(
        sharing, names, tuple((name, tuple(squares.get((name, other)) for other in names)) for name in names)
    )


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
        number = some.mix.index(name)
        squares = tuple(_square(ways[sharing].tenants[number]) if sharing in ways else None for sharing in sharings)
        yield GroupLine(name, some.label, squares)


def _square(tenant: TenantForecast) -> ForecastSquare:
    number = tenant.slowdown
    return ForecastSquare(
        estimate=ratio(number.est),
        interval="" if number.lo is None or number.hi is None else f"{ratio(number.lo)} to {ratio(number.hi)}",
        basis=tenant.basis,
        warmth=warmth(number.est),
        faster=number.est < 1,
        hatched=not tenant.basis.endswith(("block", "blocks")),
    )
