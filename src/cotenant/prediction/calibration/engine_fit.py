"""Fit an engine's host and device times to what its clients saw: times to first token and per token at several loads.

A step's time is a sum of parts, each a rate times the step's work, so that latencies of clients are linear in the
rates once it is known which steps a request waited for. That depends on the rates only weakly: the steps are simulated,
the rates fitted, and both repeated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, hypot, inf, log, sqrt
from typing import Literal

import numpy as np

from cotenant.prediction.calibration.engine_law import REQUEST, EngineLaw, Rate
from cotenant.prediction.calibration.solo import SoloTime
from cotenant.prediction.engines.alone import EngineRecord, serve
from cotenant.prediction.engines.continuous_batching import Batching, EngineSettings
from cotenant.prediction.engines.engine_profile import EngineProfile
from cotenant.prediction.engines.step import StepShape
from cotenant.prediction.kernels.columns import Bools, Floats
from cotenant.prediction.trust import ModelError

LEAST_PROBES = 3
"""Fewer loads leave too much to the priors."""
_NOISE = 0.03
"""Relative error of a measured latency."""
_ROUNDS = 4
"""Simulated requests per request in flight; those of the first round start together and don't count."""
APART_NS = 1e6
"""Between requests that clients send at the same time: a server's front end reads one after another."""


def turnaround_ns(request_us: float) -> float:
    """From the end of a request until the engine sees its client's next: never soon enough for the next step."""
    return max(request_us * 1e3, APART_NS)


_REPEATS = 5
"""Rounds of simulating the steps and fitting the rates."""
_STARTS = (1.0, 0.0, 5.0)
"""Times per request, relative to the usual, that rounds begin with: it decides whether requests start together, on
which the steps depend, and rounds don't leave the one for the other."""
_LEVEL = 1.645
"""Standard deviations on each side that hold nine in ten."""
Quantity = Literal["ttft", "tpot"]
_NEW_LOAD = 1.3
"""Errors at a load that wasn't probed are this much larger than those of probes that were left out."""
_LEAST_ERROR = 0.05
_LEAST_TAILS = 3
"""Probes with a p95 that it takes to compare tails."""
_UNDETERMINED = 0.7
"""A rate whose uncertainty keeps this share of the prior's was not determined."""
_BEYOND = 1.25
"""Loads and prompts may exceed the probed ones by this factor."""
_FARTHER = 2.0
"""Width of the range beyond the probes, relative to that within."""


@dataclass(frozen=True, slots=True)
class FittedRate:
    """A rate, and how well it is known."""

    rate: Rate
    value: float
    half: float
    """Half-width of its 90 % interval."""
    determined: bool
    """False: the probes say little about it, and its value is mostly the prior."""


@dataclass(frozen=True, slots=True)
class FitError:
    """How far measured times of one kind are from fitted ones."""

    left_out: float
    """Root mean square relative error of probes that the fit didn't see."""
    drift: float
    """Relative standard deviation of the same load's time from one pass to the next."""
    tail: float
    """Measured p95 over the median, as a share of the simulated one: what disturbs a server."""
    tail_spread: float
    """Standard deviation of the logarithm of that share over the probes."""

    def half(self, *, tail: bool = False) -> float:
        """Half-width of the range of measured times, as a logarithm."""
        deviation = hypot(_NEW_LOAD * self.left_out, self.drift, self.tail_spread if tail else 0.0)
        return max(_LEVEL * deviation, _LEAST_ERROR)


@dataclass(frozen=True, slots=True)
class EngineFit:
    """An engine's rates, and how far the fit is from what was measured."""

    rates: tuple[FittedRate, ...]
    probes: tuple[SoloTime, ...]
    off: float
    """Mean relative error of the fitted latencies."""
    ttft: FitError
    tpot: FitError

    @property
    def left_out(self) -> float:
        """Root mean square relative error of probes that the fit didn't see."""
        return hypot(self.ttft.left_out, self.tpot.left_out) / sqrt(2)

    @property
    def settings(self) -> EngineSettings:
        """Limits of the engine as it said."""
        return limits_of(self.probes)

    def value(self, name: str) -> float:
        """A rate by name."""
        return next(fitted.value for fitted in self.rates if fitted.rate.name == name)

    def profile(self, usual: EngineProfile) -> EngineProfile:
        """The engine with these rates; they must be those of the kernels' laws."""
        device = max(self.value("device"), 1e-3)
        return replace(
            usual,
            step_us=self.value("step_us"),
            sequence_us=self.value("sequence_us"),
            prompt_us=self.value("prompt_us"),
            request_us=self.value("request_us"),
            token_us=self.value("token_us"),
            device=device,
            attention=self.value("attention") / device,
        )

    def error(self, prompt: int, sequences: float) -> ModelError:
        """The range of measured times, as shares of calibrated ones, at this length and number of sequences."""
        wide = self.half(prompt, sequences)
        return ModelError(
            exp(-wide), exp(wide), self.left_out, 2 * len(self.probes), "probes of this server", groups=len(self.probes)
        )

    def half(self, prompt: int, sequences: float, quantity: Quantity | None = None, *, tail: bool = False) -> float:
        """Half-width of the range as a logarithm; without a quantity, of whichever is wider."""
        errors = [getattr(self, quantity)] if quantity else [self.ttft, self.tpot]
        wide: float = max(error.half(tail=tail) for error in errors)
        return wide * (_FARTHER if self.beyond(prompt, sequences) else 1.0)

    def beyond(self, prompt: int, sequences: float) -> str | None:
        """In which way this goes beyond what was probed; None if it doesn't."""
        loads, lengths = [probe.in_flight or 1 for probe in self.probes], [probe.seq or 1 for probe in self.probes]
        if sequences > _BEYOND * max(loads):
            return f"calibrated with up to {max(loads)} requests in flight, asked about {sequences:.0f}"
        if prompt > _BEYOND * max(lengths):
            return f"calibrated with prompts of up to {max(lengths)} tokens, asked about {prompt}"
        return None


def fit_engine(law: EngineLaw, probes: Sequence[SoloTime], settings: EngineSettings) -> EngineFit:
    """The rates that best explain the probes, beside what is usual.

    Args:
        law: The parts of a step's time.
        probes: What clients saw, each at its load.
        settings: Limits of the engine.
    """
    usual = np.array([rate.usual for rate in law.rates])
    spread = np.array([rate.spread for rate in law.rates])
    works: dict[StepShape, Floats] = {}

    def work(step: StepShape) -> Floats:
        if step not in works:
            works[step] = law.work(step)
        return works[step]

    least, values, rows, simulated = inf, usual, list[_Rows](), list[_Simulated]()
    for start in _STARTS:
        trial = np.where(np.arange(usual.size) == REQUEST, start * usual, usual)
        for _ in range(_REPEATS):
            latencies = [_latencies(work, trial, probe, settings) for probe in probes]
            equations = [_rows(law, probe, seen) for probe, seen in zip(probes, latencies, strict=True)]
            cost = _cost(equations, trial) + 0.5 * float(np.sum(((trial - usual) / spread) ** 2))
            if cost < least:
                least, values, rows, simulated = cost, trial, equations, latencies
            trial, _ = _solved(equations, usual, spread)
    _, covariance = _solved(rows, usual, spread)
    errors = np.array(
        [_errors(rows[at], _solved(rows[:at] + rows[at + 1 :], usual, spread)[0]) for at in range(len(rows))]
    )
    deviation = np.sqrt(np.diag(covariance))
    ttft, tpot = (
        _fit_error(quantity, errors[:, number], probes, [latencies.tails[number] for latencies in simulated])
        for number, quantity in enumerate(("ttft", "tpot"))
    )
    return EngineFit(
        rates=tuple(
            FittedRate(rate, float(value), float(_LEVEL * wide), bool(wide < _UNDETERMINED * rate.spread))
            for rate, value, wide in zip(law.rates, values, deviation, strict=True)
        ),
        probes=tuple(probes),
        off=float(np.mean([np.abs(_errors(row, values)) for row in rows])),
        ttft=ttft,
        tpot=tpot,
    )


def limits_of(probes: Sequence[SoloTime], usual: EngineSettings | None = None) -> EngineSettings:
    """An engine's limits as it said when it was probed; the usual ones where it didn't."""
    settings, first = usual or EngineSettings(), probes[0]
    blocks = settings.blocks if first.cache_tokens is None else first.cache_tokens // settings.block_tokens
    return replace(settings, max_sequences=first.sequences or settings.max_sequences, blocks=max(blocks, 1))


def _fit_error(quantity: str, errors: Floats, probes: Sequence[SoloTime], tails: Sequence[float]) -> FitError:
    """Of one kind of time: probes left out, passes, and tails that the simulation lacks."""
    drift = sqrt(float(np.mean([getattr(probe, f"{quantity}_spread") ** 2 for probe in probes])))
    beyond = [
        log(getattr(probe, f"{quantity}_p95_ms") / getattr(probe, f"{quantity}_ms") / simulated)
        for probe, simulated in zip(probes, tails, strict=True)
        if getattr(probe, f"{quantity}_p95_ms") is not None
    ]
    known = len(beyond) >= _LEAST_TAILS
    return FitError(
        left_out=sqrt(float(np.mean(np.square(errors)))),
        drift=drift,
        tail=exp(max(float(np.median(beyond)), 0.0)) if known else 1.0,
        tail_spread=float(np.std(beyond, ddof=1)) if known else 0.0,
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """The equations of a probe: relative latencies, and the device's share of the time if it is known."""

    latencies: Floats
    """To the first token and per token, or of whole requests."""
    noise: Floats
    """Relative standard deviation of each latency."""
    device_share: Floats | None


@dataclass(frozen=True, slots=True)
class _Simulated:
    """Work until the first token and per further token at a load, and how far p95 is above the median of each."""

    first: Floats
    each: Floats
    tails: tuple[float, float]


def _rows(law: EngineLaw, probe: SoloTime, simulated: _Simulated) -> _Rows:
    spreads = np.array([probe.ttft_spread, probe.tpot_spread])
    if probe.ttft_ms is None or probe.tpot_ms is None:
        assert probe.tokens is not None
        whole = simulated.first + simulated.each * (probe.tokens - 1)
        latencies, spreads = (whole / (probe.ms * 1e6))[None], spreads.max(keepdims=True)
    else:
        latencies = np.array([simulated.first / (probe.ttft_ms * 1e6), simulated.each / (probe.tpot_ms * 1e6)])
    noise = np.hypot(_NOISE, spreads)
    if probe.utilisation is None:
        return _Rows(latencies, noise, None)
    device = np.array([0.0 if rate.host else 1.0 for rate in law.rates])
    return _Rows(latencies, noise, (latencies[-1] * (device - probe.utilisation))[None])


def _cost(rows: Sequence[_Rows], values: Floats) -> float:
    """How far latencies are from the measured ones, in standard deviations."""
    return float(sum(np.sum(np.abs(row.latencies @ values - 1.0) / row.noise) for row in rows))


def _errors(rows: _Rows, values: Floats) -> Floats:
    """Of the time to the first token and per token; a whole request's error counts for both."""
    return np.broadcast_to(rows.latencies @ values - 1.0, 2)


def _solved(rows: Sequence[_Rows], usual: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """The rates, none below 0, and their covariance; in units of the prior's spread, which differ by magnitudes."""
    from scipy.optimize import lsq_linear

    latencies = np.concatenate([row.latencies for row in rows])
    shares = [row.device_share for row in rows if row.device_share is not None]
    noise = np.concatenate([*(row.noise for row in rows), np.full(len(shares), _NOISE)])
    matrix = np.concatenate([latencies, *shares]) * spread / noise[:, None]
    target = np.concatenate([np.ones(len(latencies)), np.zeros(len(shares))]) / noise
    matrix = np.concatenate([matrix, np.eye(usual.size)])
    target = np.concatenate([target, usual / spread])
    solved = lsq_linear(matrix, target, bounds=(0.0, inf)).x
    # Robust: a probe that others disturbed counts less.
    off = np.abs(matrix @ solved - target)[: -usual.size]
    weight = np.concatenate([np.sqrt(1.0 / np.maximum(1.0, off / 2.0)), np.ones(usual.size)])
    matrix, target = matrix * weight[:, None], target * weight
    solved = lsq_linear(matrix, target, bounds=(0.0, inf)).x
    return solved * spread, np.linalg.inv(matrix.T @ matrix) * np.outer(spread, spread)


def answer_tokens(probe: SoloTime, number: int) -> int:
    """Length of a request's answer: around the mean, so that requests in flight don't end together."""
    assert probe.tokens is not None
    return max(2, round(probe.tokens * (1.0 + probe.tokens_spread * (number % 3 - 1))))


def _latencies(
    work: Callable[[StepShape], Floats], values: Floats, probe: SoloTime, settings: EngineSettings
) -> _Simulated:
    """Serve a probe's load; each time is that of the requests in its middle half."""
    prompt, output, in_flight = probe.seq or 1, probe.tokens or 2, probe.in_flight or 1
    chunks = ceil(in_flight * prompt / settings.max_tokens)
    left = _ROUNDS * ceil(output * (1.0 + probe.tokens_spread) + 2 + chunks)
    steps: list[Floats] = []

    def step_time(step: StepShape) -> tuple[float, float]:
        if len(steps) == left:
            return inf, 0.0
        steps.append(work(step))
        return max(float(steps[-1] @ values), 1.0), 0.0

    record = serve(
        Batching(settings),
        step_time,
        lambda number: (prompt, answer_tokens(probe, number)),
        until_ns=inf,
        in_flight=in_flight,
        delay_ns=turnaround_ns(float(values[REQUEST])),
        apart_ns=0.0 if probe.tokens_spread else APART_NS,  # answers of equal length would end together for ever
    )
    return _middle(record, np.array(steps), values, skipped=in_flight)


def _middle(record: EngineRecord, steps: Floats, values: Floats, *, skipped: int) -> _Simulated:
    tokens = record.tokens()
    first, last, count = tokens.bounds()
    usable: Bools = np.isin(np.arange(count.size), tokens.finished) & np.isfinite(last) & (count > 1)
    usable[:skipped] &= not usable[skipped:].any()
    at = np.flatnonzero(usable)
    ends = np.array(record.step_end[: len(steps)])
    times = np.column_stack([np.array(record.step_start[: len(steps)]), ends]).ravel()
    sums = np.cumsum(steps, axis=0)
    before = np.stack([sums - steps, sums], axis=1).reshape(times.size, -1)

    def done(moments: Floats) -> Floats:
        return np.column_stack([np.interp(moments, times, column) for column in before.T])

    until_first = done(first[at]) - done(tokens.intended[at])
    until_first[:, REQUEST] += 1e3
    each = (done(last[at]) - done(first[at])) / (count[at] - 1)[:, None]
    return _Simulated(
        _midmean(until_first, values), _midmean(each, values), (_tail(until_first @ values), _tail(each @ values))
    )


def _tail(times: Floats) -> float:
    middle, high = np.quantile(times, (0.5, 0.95))
    return float(high / middle)


def _midmean(work: Floats, values: Floats) -> Floats:
    """Mean of the middle half by time: as little moved by stragglers as a median, and smooth in the rates."""
    order = np.argsort(work @ values, kind="stable")
    cut = order.size // 4
    return np.asarray(work[order[cut : order.size - cut]].mean(axis=0))
