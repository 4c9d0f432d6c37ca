"""What clients of a calibrated engine would see at a load: its fitted rates, step by step, without a device's laws."""

from dataclasses import dataclass
from math import exp, inf
from typing import NamedTuple

import numpy as np

from cotenant.prediction.calibration.engine_fit import APART_NS, EngineFit, Quantity, turnaround_ns
from cotenant.prediction.calibration.engine_law import EngineLaw, plain_law
from cotenant.prediction.engines.alone import serve
from cotenant.prediction.engines.continuous_batching import Batching
from cotenant.prediction.engines.step import StepShape
from cotenant.prediction.interference.profiles import even_slowdowns
from cotenant.prediction.kernels.columns import Floats
from cotenant.tenancy.load import Load, arrivals_ns

_HORIZON_S = 120.0
_REQUESTS = 40
"""Requests of a closed load, for each in flight."""
_WARM_UP = 0.1
"""Share of the requests, from the start, that doesn't count."""


class PredictedMs(NamedTuple):
    """A time in ms, and the range in which a measured one would be nine times in ten."""

    ms: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PredictedLoad:
    """Times at a load; ranges are those of the calibration."""

    prompt: int
    tokens: int
    load: Load
    ttft: tuple[PredictedMs, PredictedMs]
    """Median and p95."""
    tpot: tuple[PredictedMs, PredictedMs]
    together: float
    """Mean number of sequences in a step."""
    beyond: str | None
    """How it goes beyond what was probed."""

    @property
    def keeps_up(self) -> bool:
        """Whether the engine serves this load."""
        return bool(np.isfinite(self.ttft[0].ms))


def predicted_load(
    fit: EngineFit, prompt: int, tokens: int, load: Load, *, law: EngineLaw | None = None, beside: float = 0.0
) -> PredictedLoad:
    """Serve this load with the fitted rates.

    Args:
        fit: The calibrated rates.
        prompt: Tokens of a prompt.
        tokens: Tokens of an answer.
        load: When requests arrive.
        law: The law that the rates belong to; None: rates per token.
        beside: Share of the engine's cores that a neighbour keeps busy; on cores of its own, 0.
    """
    law = law or plain_law()
    rates = np.array([fit.value(name) for name in law.names]) * _slowdown_beside(beside)
    delay_ns = fit.value("request_us") * 1e3

    def step_time(step: StepShape) -> tuple[float, float]:
        return max(float(law.work(step) @ rates), 1.0), 0.0

    due, until_ns = None, _HORIZON_S * 1e9
    if load.open:
        due = arrivals_ns(load, seed=1, horizon_s=_HORIZON_S).astype(np.float64)
    else:
        first_ns = step_time(StepShape(queries=(float(prompt),), contexts=(0.0,)))[0]
        alone_ns = first_ns + tokens * step_time(StepShape(1, float(prompt)))[0]
        until_ns = _REQUESTS * alone_ns * load.outstanding
    batching = Batching(fit.settings)
    record = serve(
        batching,
        step_time,
        lambda _: (prompt, tokens),
        until_ns=until_ns,
        arrivals_ns=due,
        in_flight=load.outstanding,
        delay_ns=turnaround_ns(fit.value("request_us")),
        apart_ns=APART_NS,
    )
    times = record.tokens()
    first, last, count = times.bounds()
    finished = np.sort(times.finished)
    finished = finished[int(finished.size * _WARM_UP) :]
    together = float(np.mean(record.step_sequences)) if record.step_sequences else 0.0

    def ends(quantity: Quantity, times_ns: Floats) -> tuple[PredictedMs, PredictedMs]:
        middle, high = np.quantile(times_ns, (0.5, 0.95)) / 1e6
        high *= getattr(fit, quantity).tail
        return (
            _ranged(float(middle), fit.half(prompt, together, quantity)),
            _ranged(float(high), fit.half(prompt, together, quantity, tail=True)),
        )

    late = load.open and times.finished.size < 0.9 * times.intended.size
    if late or not finished.size:
        never = PredictedMs(inf, inf, inf)
        ttft, tpot = (never, never), (never, never)
    else:
        ttft = ends("ttft", (first - times.intended)[finished] + delay_ns)
        tpot = ends("tpot", ((last - first) / np.maximum(count - 1, 1))[finished])
    return PredictedLoad(prompt, tokens, load, ttft, tpot, together, fit.beyond(prompt, together))


def _slowdown_beside(neighbour: float) -> float:
    """Of an engine that keeps its cores busy, by a neighbour that wants such a share of them: each gets an even part.

    What threads lose by waiting for each other is left out: an engine on a single core was slowed by 1.7.
    """
    wanted = np.array([[1.0, neighbour]])
    return float(even_slowdowns(wanted, wanted > 0)[0, 0])


def _ranged(ms: float, half: float) -> PredictedMs:
    return PredictedMs(ms, ms * exp(-half), ms * exp(half))
