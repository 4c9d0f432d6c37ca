"""Forecast any mix from what is known about its tenants and measured mixes."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cotenant.prediction.interference.correction import Evidence, no_evidence
from cotenant.prediction.interference.covariance import Variances
from cotenant.prediction.interference.elsewhere import ELSEWHERE
from cotenant.prediction.interference.forecast import (
    MixForecast,
    NextMix,
    PredictedMixes,
    Tail,
    TenantForecast,
    Trust,
    error_of,
    in_reality,
    latency_in_reality,
    open_ways,
)
from cotenant.prediction.interference.gathered import MeasuredMix
from cotenant.prediction.interference.intervals import FEWEST, NORMAL
from cotenant.prediction.interference.next_cells import choose_next_cells
from cotenant.prediction.interference.predictor import MEASURED, PRIOR_ONLY, Predictor, Slowdowns
from cotenant.prediction.interference.profiles import PowerUse
from cotenant.prediction.interference.setting import Prior, Setting, mixes_of, setting_of
from cotenant.prediction.interference.stacking import PARTS
from cotenant.prediction.interference.tails import Queues, at_rate, constant_tails, over_prior, tail
from cotenant.prediction.kernels.columns import Floats
from cotenant.tenancy.identity import TenantIdentity
from cotenant.tenancy.interval import Interval
from cotenant.tenancy.load import Load
from cotenant.tenancy.objective import Objectives
from cotenant.tenancy.records import ModelErrorRecord
from cotenant.text import amount, listed

Engine = Callable[[tuple[str, ...], str, Mapping[str, Load]], Sequence[float] | None]
"""Slowdowns of a mix under a way to share at the tenants' loads, by the event simulation; None: it can't share so."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The tenants in question, other tenants known from runs, and their measurements."""

    device: str
    simulated: bool
    names: tuple[str, ...]
    keys: tuple[TenantIdentity, ...]
    features: Floats
    priors: Mapping[str, Prior]
    """By way to share; others can't be predicted."""
    solo_s: Floats
    memory_bytes: tuple[int | None, ...]
    loads: Mapping[str, Load]
    """Loads of tenants with scheduled arrivals."""
    objectives: Mapping[str, Objectives]
    mixes: tuple[MeasuredMix, ...]
    variances: Mapping[str, Variances]
    """By way to share."""
    prior_half: float
    notes: tuple[str, ...] = ()
    prior_basis: str = "prior only"
    """Basis of what rests on no measured mix."""
    engine: Engine | None = None
    power: PowerUse | None = None
    """None where the device's power law is unknown."""
    errors: Mapping[tuple[str, TenantIdentity], ModelErrorRecord] = field(default_factory=dict)
    """By way to share and tenant: the simulation's error, where mixes were simulated."""
    batching: frozenset[str] = frozenset()
    """Tenants whose software executes several requests at once: `queues` has their latency, if anything."""
    queues: Queues | None = None
    foreign_basis: str = ELSEWHERE
    """Basis of mixes that no run measured."""


def forecast_mixes(
    asked: Asked,
    groups: Sequence[tuple[str, ...]],
    sharings: Sequence[str],
    *,
    next_mixes: int = 0,
    width: float | None = None,
) -> PredictedMixes:
    """Forecast every group under every way to share.

    Args:
        asked: What is known.
        groups: Mixes by tenant names.
        sharings: As written in a study.
        next_mixes: Number of mixes to suggest for measurement.
        width: Relative half-width at which a mix counts as known: suggest only as many as it takes to know all.
    """
    forecasts: list[MixForecast] = []
    worth: list[NextMix] = []
    trust: list[Trust] = []
    left_aside = [sharing for sharing in sharings if sharing not in asked.priors]
    for sharing in (mode for mode in sharings if mode in asked.priors):
        possible = _possible(asked, groups, sharing)
        if not possible:
            left_aside.append(sharing)
            continue
        predictor = predictor_for(asked, sharing)
        forecasts += _forecasts(asked, predictor, possible, sharing)
        trust.append(_trust(predictor, sharing))
        worth += _worth_measuring(asked, predictor, possible, sharing, count=next_mixes, width=width)
    worth = sorted(worth, key=lambda mix: -mix.buys)[:next_mixes]
    timed = {tenant.tenant for mix in forecasts for tenant in mix.tenants if tenant.tail is not None}
    notes = _notes(asked, trust, left_aside, timed)
    return PredictedMixes(asked.device, tuple(forecasts), tuple(worth), tuple(trust), notes, open_ways(forecasts))


def _possible(asked: Asked, groups: Sequence[tuple[str, ...]], sharing: str) -> list[tuple[str, ...]]:
    """Groups that can share the device this way: it may have too little room for some of them."""
    logs = asked.priors[sharing](mixes_of([[asked.names.index(name) for name in group] for group in groups]))
    return [group for group, first in zip(groups, logs[:, 0], strict=True) if not math.isnan(first)]


def predictor_for(asked: Asked, sharing: str) -> Predictor:
    """Prior and evidence of a way to share."""
    setting = setting_of([key.workload for key in asked.keys], asked.features, asked.priors[sharing])
    evidence = evidence_of([mix for mix in asked.mixes if mix.sharing == sharing], asked.keys)
    return Predictor(setting, evidence, asked.variances[sharing], prior_half=asked.prior_half)


def evidence_of(mixes: Sequence[MeasuredMix], keys: Sequence[TenantIdentity]) -> Evidence:
    """Measured mixes as rows with the victim first."""
    numbers = {key: number for number, key in enumerate(keys)}
    rows, logs, variance, cells, blocks, half = [], [], [], [], [], []
    for cell, mix in enumerate(mixes):
        for key, estimate in mix.slowdowns:
            others = list(mix.members)
            others.remove(key)
            rows.append([numbers[key], *(numbers[other] for other in others)])
            logs.append(math.log(estimate.est))
            wide = math.nan if estimate.lo is None or estimate.hi is None else math.log(estimate.hi / estimate.lo) / 2
            variance.append(0.0 if math.isnan(wide) else (wide / NORMAL) ** 2)
            cells.append(cell)
            blocks.append(estimate.n)
            half.append(wide)
    if not rows:
        return no_evidence()
    return Evidence(
        mixes_of(rows),
        np.array(logs),
        np.array(variance),
        np.array(cells, np.int64),
        np.array(blocks, np.int64),
        np.array(half),
    )


def _forecasts(
    asked: Asked, predictor: Predictor, groups: Sequence[tuple[str, ...]], sharing: str
) -> list[MixForecast]:
    rows = mixes_of([[asked.names.index(name) for name in group] for group in groups])
    predicted = predictor.slowdowns(rows)
    closed = predictor.setting.prior(rows)
    forecasts = []
    for number, group in enumerate(groups):
        slowdowns = [_ranged(predicted, number, tenant) for tenant in range(len(group))]
        bases = [_basis(asked, predictor, predicted, number, tenant) for tenant in range(len(group))]
        at_load, rates = None, rates_of(asked, group)
        simulated = asked.engine is not None
        if predicted.basis[number, 0] != MEASURED:
            if asked.queues is not None and rates:
                at_load = asked.queues.slowdowns(group, sharing, exact=simulated)
            if at_load is None and asked.engine is not None:
                at_load = asked.engine(group, sharing, rates)
        if at_load is not None:
            # What was learnt from measured mixes corrects these figures as it does those of tenants always busy.
            learnt = [guess.est / math.exp(prior) for guess, prior in zip(slowdowns, closed[number], strict=False)]
            figures = [max(figure * factor, 1.0) for figure, factor in zip(at_load, learnt, strict=True)]
            slowdowns = [_as_wide(guess, figure) for guess, figure in zip(slowdowns, figures, strict=True)]
            if simulated:
                bases = ["simulated" if basis == asked.prior_basis else f"simulated, {basis}" for basis in bases]
        rests_on_mixes = predicted.basis[number, 0] != PRIOR_ONLY  # the prior's error is against real GPUs
        errors = [error_of(asked.errors, sharing, _key(asked, name)) if rests_on_mixes else None for name in group]
        real = [in_reality(slowdown, error) for slowdown, error in zip(slowdowns, errors, strict=True)]
        ends = None
        if asked.queues is not None and rates:
            before = [math.exp(log) for log in closed[number][: len(group)]] if at_load is None else at_load
            factors = over_prior(real, before) if rests_on_mixes else None
            ends = asked.queues.times(group, sharing, factors, exact=simulated and at_load is not None)
        if ends is not None:
            tails = [
                tail([end[seat] for end in ends], asked.objectives.get(name, ())) if name in rates else None
                for seat, name in enumerate(group)
            ]
        else:
            tails = _constant_tails(asked, predictor.setting, group, real, at_load=at_load is not None)
        forecasts.append(_mix(asked, group, sharing, tuple(zip(slowdowns, errors, tails, bases, strict=True))))
    return forecasts


def _constant_tails(
    asked: Asked, setting: Setting, group: tuple[str, ...], slowdowns: Sequence[Interval], *, at_load: bool
) -> list[Tail | None]:
    """None where the software executes several requests at once."""
    rates = rates_of(asked, group)
    if not rates:
        return [None] * len(group)
    numbers = [asked.names.index(name) for name in group]
    loads = [rates.get(name) for name in group]
    objectives = [asked.objectives.get(name, ()) for name in group]
    tails = constant_tails(
        setting, numbers, asked.solo_s[numbers], loads, slowdowns=slowdowns, objectives=objectives, at_load=at_load
    )
    return [None if name in asked.batching else found for name, found in zip(group, tails, strict=True)]


def _mix(
    asked: Asked,
    group: tuple[str, ...],
    sharing: str,
    predicted: Sequence[tuple[Interval, ModelErrorRecord | None, Tail | None, str]],
) -> MixForecast:
    numbers = [asked.names.index(name) for name in group]
    solo = [float(asked.solo_s[number]) for number in numbers]
    memory = [asked.memory_bytes[number] for number in numbers]
    power, energies = _drawn(asked, group, [slowdown.est for slowdown, *_ in predicted])
    return MixForecast(
        mix=group,
        sharing=sharing,
        tenants=tuple(
            TenantForecast(
                tenant=name,
                slowdown=in_reality(slowdown, error),
                throughput_rps=latency_in_reality(slowdown.scaled(alone), error).inverse(1.0),
                latency_ms=latency_in_reality(slowdown.scaled(1e3 * alone), error),
                tail=tail,
                basis=basis,
                energy_j=energy,
                in_simulation=None if error is None else slowdown,
            )
            for name, alone, (slowdown, error, tail, basis), energy in zip(
                group, solo, predicted, energies, strict=True
            )
        ),
        memory_bytes=None if any(need is None for need in memory) else sum(need for need in memory if need is not None),
        power_w=power,
    )


def _drawn(
    asked: Asked, group: tuple[str, ...], slowdowns: Sequence[float]
) -> tuple[Interval | None, Sequence[Interval | None]]:
    """Power of the mix, and energy per request of each tenant: at its rate, or at one request in flight."""
    if asked.power is None:
        return None, [None] * len(group)
    numbers = [asked.names.index(name) for name in group]
    rates = []
    for name, number, slowdown in zip(group, numbers, slowdowns, strict=True):
        alone = float(asked.solo_s[number])
        load = at_rate(asked.loads.get(name), alone)
        served = 1 / (alone * slowdown)
        if load is not None and load.rate_rps:  # several at once: more than one after another
            served = load.rate_rps if name in asked.batching else min(served, load.rate_rps)
        rates.append(served)
    watts, joules = asked.power.drawn(numbers, rates)
    return Interval(watts, None, None), [Interval(energy, None, None) for energy in joules]


def _key(asked: Asked, name: str) -> TenantIdentity:
    return asked.keys[asked.names.index(name)]


def _ranged(predicted: Slowdowns, mix: int, tenant: int) -> Interval:
    ends = (float(predicted.low[mix, tenant]), float(predicted.high[mix, tenant]))
    lo, hi = (None if math.isnan(end) else end for end in ends)
    return Interval(float(predicted.estimate[mix, tenant]), lo, hi)


def _as_wide(guess: Interval, exact: float) -> Interval:
    """The event simulation's figure, as far from the truth as the closed form is where both were validated."""
    lo, hi = guess.lo, guess.hi
    return Interval(
        exact,
        None if lo is None else max(exact * lo / guess.est, min(exact, 1.0)),
        None if hi is None else exact * hi / guess.est,
    )


def rates_of(asked: Asked, group: Sequence[str]) -> dict[str, Load]:
    """Arrivals of the tenants that have any, at known rates."""
    rates = {}
    for name in group:
        load = at_rate(asked.loads.get(name), float(asked.solo_s[asked.names.index(name)]))
        if load is not None:
            rates[name] = load
    return rates


def _basis(asked: Asked, predictor: Predictor, predicted: Slowdowns, mix: int, tenant: int) -> str:
    count = int(predicted.count[mix, tenant])
    match int(predicted.basis[mix, tenant]):
        case 0 if count == 0:
            return asked.foreign_basis
        case 0:
            return f"{'simulated' if asked.simulated else 'measured'}, {amount(count, 'block')}"
        case code if code == PRIOR_ONLY:
            return asked.prior_basis
        case _ if count:
            return f"{amount(count, 'mix', 'mixes')} of this tenant"
        case _:
            return f"{amount(predictor.evidence.cells, 'mix', 'mixes')} of others"


def _trust(predictor: Predictor, sharing: str) -> Trust:
    typical = predictor.typical()
    parts = tuple(zip(PARTS, map(float, predictor.stack.weights), strict=True))
    if typical is None:
        return Trust(sharing, predictor.evidence.cells, None, None, None, parts=parts)
    return Trust(
        sharing,
        predictor.evidence.cells,
        typical.ours,
        typical.constant,
        typical.slowdown,
        sure=typical.sure,
        parts=parts,
    )


def _worth_measuring(
    asked: Asked,
    predictor: Predictor,
    groups: Sequence[tuple[str, ...]],
    sharing: str,
    *,
    count: int,
    width: float | None,
) -> list[NextMix]:
    if not count:
        return []
    rows = mixes_of([[asked.names.index(name) for name in group] for group in groups])
    unknown = np.flatnonzero(predictor.slowdowns(rows).basis[:, 0] != MEASURED)
    enough = None if width is None else predictor.variance_within(math.asinh(width), rows[unknown])
    chosen = choose_next_cells(predictor.correction, rows[unknown], count, enough=enough)
    return [NextMix(groups[int(unknown[cell])], sharing, buys) for cell, buys in chosen]


def _notes(asked: Asked, trust: Sequence[Trust], left_aside: Sequence[str], timed: set[str]) -> tuple[str, ...]:
    notes = [*asked.notes, *_too_few(asked, trust)]
    for sharing in trust:
        notes += sharing.sentences()
    if left_aside:
        why = f"no mix can share {asked.device} so" if asked.simulated else "measure them: cotenant run STUDY"
        notes.append(f"Not predicted: {', '.join(left_aside)}; {why}.")
    if asked.errors:
        notes.append("Intervals of simulated mixes, and of those predicted from them, include the simulation's error.")
    if asked.power is not None:
        notes.append("Power and energy are simulated, for a warm GPU at its boost clock: not validated for mixes.")
    if asked.loads:
        notes.append("Latencies under open loads are of simulated queues: not validated for mixes.")
    if batching := sorted(asked.batching & asked.loads.keys() - timed):
        notes.append(
            f"No latency of {listed(batching)}, which {'executes' if len(batching) == 1 else 'execute'} several "
            "requests at once: `cotenant plan` and `cotenant serve --dry-run` simulate that."
        )
    return tuple(notes)


def _too_few(asked: Asked, trust: Sequence[Trust]) -> Iterator[str]:
    """What intervals are where too few mixes were measured; ways to share with as many in one sentence."""
    validated = not math.isnan(asked.prior_half)
    alone = "intervals are the prior's validated error" if validated else "there are no intervals"
    interval = f"{alone} and that of these mixes" if validated else alone
    for measured in sorted({figure.measured for figure in trust if figure.measured < FEWEST}):
        ways = listed([figure.sharing for figure in trust if figure.measured == measured])
        if measured == 0:
            yield f"No mix was measured under {ways}: {alone}."
        else:
            pairs = ", except in groups whose pairs were all measured" if validated else ""
            yield f"Below {FEWEST} measured mixes ({measured} under {ways}), {interval}{pairs}."
