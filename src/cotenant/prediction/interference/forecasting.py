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
    Ranged,
    Tail,
    TenantForecast,
    Trust,
    error_of,
    in_reality,
    latency_in_reality,
)
from cotenant.prediction.interference.gathered import MeasuredMix
from cotenant.prediction.interference.intervals import FEWEST, NORMAL
from cotenant.prediction.interference.next_cells import next_cells
from cotenant.prediction.interference.predictor import MEASURED, PRIOR_ONLY, Predictor, Slowdowns, stretched
from cotenant.prediction.interference.profiles import PowerUse
from cotenant.prediction.interference.setting import Prior, Setting, mixes_of, setting_of
from cotenant.prediction.interference.stacking import PARTS
from cotenant.prediction.kernels.columns import Floats
from cotenant.scheduling.simulation.lines import NEVER, Replications, requests_at, tail_of
from cotenant.tenancy.identity import TenantIdentity
from cotenant.tenancy.load import Load, arrivals_ns
from cotenant.tenancy.objective import Objectives, objective_for
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
    """Tenants whose software executes several requests at once: their queue isn't the simple one here."""


def forecast(
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
    return PredictedMixes(asked.device, tuple(forecasts), tuple(worth), tuple(trust), _notes(asked, trust, left_aside))


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
        exact = None
        if asked.engine is not None and predicted.basis[number, 0] != MEASURED:
            exact = asked.engine(group, sharing, _rates(asked, group))
        if exact is not None:
            # What was learnt from measured mixes corrects the event simulation as it does the closed form.
            learnt = [guess.est / math.exp(prior) for guess, prior in zip(slowdowns, closed[number], strict=False)]
            figures = [max(figure * factor, 1.0) for figure, factor in zip(exact, learnt, strict=True)]
            slowdowns = [_as_wide(guess, figure) for guess, figure in zip(slowdowns, figures, strict=True)]
            bases = ["simulated" if basis == asked.prior_basis else f"simulated, {basis}" for basis in bases]
        rests_on_mixes = predicted.basis[number, 0] != PRIOR_ONLY  # the prior's error is against real GPUs
        errors = [error_of(asked.errors, sharing, _key(asked, name)) if rests_on_mixes else None for name in group]
        real = [in_reality(slowdown, error) for slowdown, error in zip(slowdowns, errors, strict=True)]
        tails = _tails(asked, predictor.setting, group, real, at_load=exact is not None)
        forecasts.append(_mix(asked, group, sharing, tuple(zip(slowdowns, errors, tails, bases, strict=True))))
    return forecasts


def _mix(
    asked: Asked,
    group: tuple[str, ...],
    sharing: str,
    predicted: Sequence[tuple[Ranged, ModelErrorRecord | None, Tail | None, str]],
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
) -> tuple[Ranged | None, Sequence[Ranged | None]]:
    """Power of the mix, and energy per request of each tenant: at its rate, or at one request in flight."""
    if asked.power is None:
        return None, [None] * len(group)
    numbers = [asked.names.index(name) for name in group]
    rates = []
    for name, number, slowdown in zip(group, numbers, slowdowns, strict=True):
        alone = float(asked.solo_s[number])
        load = _resolved(asked.loads.get(name), alone)
        rates.append(min(1 / (alone * slowdown), math.inf if load is None else load.rate_rps or math.inf))
    watts, joules = asked.power.drawn(numbers, rates)
    return Ranged(watts, None, None), [Ranged(energy, None, None) for energy in joules]


def _key(asked: Asked, name: str) -> TenantIdentity:
    return asked.keys[asked.names.index(name)]


def _ranged(predicted: Slowdowns, mix: int, tenant: int) -> Ranged:
    ends = (float(predicted.low[mix, tenant]), float(predicted.high[mix, tenant]))
    lo, hi = (None if math.isnan(end) else end for end in ends)
    return Ranged(float(predicted.estimate[mix, tenant]), lo, hi)


def _as_wide(guess: Ranged, exact: float) -> Ranged:
    """The event simulation's figure, as far from the truth as the closed form is where both were validated."""
    lo, hi = guess.lo, guess.hi
    return Ranged(
        exact,
        None if lo is None else max(exact * lo / guess.est, min(exact, 1.0)),
        None if hi is None else exact * hi / guess.est,
    )


def _rates(asked: Asked, group: tuple[str, ...]) -> dict[str, Load]:
    """Arrivals of the tenants that have any, at known rates."""
    rates = {}
    for name in group:
        load = _resolved(asked.loads.get(name), float(asked.solo_s[asked.names.index(name)]))
        if load is not None:
            rates[name] = load
    return rates


def _basis(asked: Asked, predictor: Predictor, predicted: Slowdowns, mix: int, tenant: int) -> str:
    count = int(predicted.count[mix, tenant])
    match int(predicted.basis[mix, tenant]):
        case 0 if count == 0:
            return ELSEWHERE
        case 0:
            return f"{'simulated' if asked.simulated else 'measured'}, {amount(count, 'block')}"
        case code if code == PRIOR_ONLY:
            return asked.prior_basis
        case _ if count:
            return f"{amount(count, 'mix', 'mixes')} of this tenant"
        case _:
            return f"{amount(predictor.evidence.cells, 'mix', 'mixes')} of others"


def _tails(
    asked: Asked, setting: Setting, group: tuple[str, ...], slowdowns: Sequence[Ranged], *, at_load: bool
) -> list[Tail | None]:
    loads = [asked.loads.get(name) for name in group]
    if all(load is None for load in loads):
        return [None] * len(group)
    numbers = [asked.names.index(name) for name in group]
    solo = asked.solo_s[numbers]
    resolved = [_resolved(load, float(solo[tenant])) for tenant, load in enumerate(loads)]
    rates = np.array([math.nan if load is None else load.rate_rps or math.nan for load in resolved])
    weights = np.zeros((len(group), len(group)))
    for tenant in range(len(group)):
        others = [other for other in range(len(group)) if other != tenant]
        weights[tenant, others] = setting.weights(np.array([[numbers[tenant], *(numbers[other] for other in others)]]))[
            0
        ]
    cases = [
        [slowdown.est for slowdown in slowdowns],
        [slowdown.est if slowdown.lo is None else slowdown.lo for slowdown in slowdowns],
        [slowdown.est if slowdown.hi is None else slowdown.hi for slowdown in slowdowns],
    ]
    services = [solo * np.array(case) if at_load else stretched(solo, np.array(case), weights, rates) for case in cases]
    return [
        None
        if load is None or name in asked.batching
        else _tail(
            load, [float(service[tenant]) for service in services], asked.objectives.get(name, ()), slowdowns[tenant]
        )
        for tenant, (name, load) in enumerate(zip(group, resolved, strict=True))
    ]


def _tail(load: Load, services: Sequence[float], objectives: Objectives, slowdown: Ranged) -> Tail:
    """From the queue at the estimate of the service time and at its ends: an error of it grows with the queue."""
    assert load.rate_rps is not None
    objective = objective_for(objectives, "latency")
    tails = [_queue(load, service) for service in services]

    def ranged(level: float) -> Ranged:
        (_, est, _), (lo, *_), (*_, hi) = (tail.quantile(level) for tail in tails)
        return Ranged(1e3 * est, 1e3 * lo if slowdown.lo is not None else None, 1e3 * hi if slowdown.hi else None)

    if objective is None:
        return Tail(ranged(0.5), ranged(0.99), None)
    within = [tail.within(objective.limit_ms / 1e3) for tail in tails]
    ends = (min(within[1:]), max(within[1:])) if slowdown.lo is not None else (None, None)
    return Tail(ranged(0.5), ranged(0.99), Ranged(within[0], *ends))


def _queue(load: Load, service_s: float) -> Replications:
    """A queue of requests that all take as long; None if it can't keep up."""
    assert load.rate_rps is not None
    busy = load.rate_rps * service_s
    if busy >= 1:
        return NEVER
    seconds = requests_at(busy) / load.rate_rps
    service = np.array([service_s])
    return tail_of(lambda seed: arrivals_ns(load, seed=seed, horizon_s=seconds) / 1e9, lambda _: service)


def _resolved(load: Load | None, solo_s: float) -> Load | None:
    """The load as a rate; a share is relative to the tenant's rate alone."""
    if load is None or load.rate_share is None:
        return load
    return load.at(load.rate_share / solo_s)


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
        typical_range=(typical.low, typical.high),
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
    chosen = next_cells(predictor.correction, rows[unknown], count, enough=enough)
    return [NextMix(groups[int(unknown[cell])], sharing, buys) for cell, buys in chosen]


def _notes(asked: Asked, trust: Sequence[Trust], left_aside: Sequence[str]) -> tuple[str, ...]:
    notes = [*asked.notes, *_too_few(asked, trust)]
    for sharing in trust:
        notes += sharing.sentences()
    if left_aside:
        notes.append(f"Not predicted: {', '.join(left_aside)}; measure or simulate them: cotenant run STUDY.")
    if asked.errors:
        notes.append("Intervals of simulated mixes, and of those predicted from them, include the simulation's error.")
    if asked.power is not None:
        notes.append("Power and energy are simulated, for a warm GPU at its boost clock: not validated for mixes.")
    if asked.loads:
        notes.append(
            "Latencies under open loads are of simulated queues, with constant service times: not validated for mixes."
        )
    if batching := sorted(asked.batching & asked.loads.keys()):
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
