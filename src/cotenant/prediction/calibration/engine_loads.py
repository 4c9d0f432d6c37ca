"""What clients of a calibrated engine would see at a load: its fitted rates, step by step, without a device's laws."""

from dataclasses import dataclass
from math import inf

import numpy as np

from cotenant.prediction.calibration.engine_fit import EngineFit, EngineLaw, plain_law
from cotenant.prediction.engines.alone import serve
from cotenant.prediction.engines.continuous_batching import Batching, EngineSettings
from cotenant.prediction.engines.step import StepShape
from cotenant.prediction.kernels.columns import Floats
from cotenant.tenancy.load import Load, arrivals_ns

_HORIZON_S = 120.0
_REQUESTS = 40
"""Requests of a closed load, for each in flight."""
_WARM_UP = 0.1
"""Share of the requests, from the start, that doesn't count."""
_SPREAD = 0.5
"""Answers are shorter and longer by up to this share."""


@dataclass(frozen=True, slots=True)
class PredictedLoad:
    """Times at a load; ranges are those of the calibration."""

    prompt: int
    tokens: int
    load: Load
    ttft_ms: tuple[float, float]
    """Median and p95."""
    tpot_ms: tuple[float, float]
    low: float
    """Ends of the range of measured times, as shares of these."""
    high: float
    together: float
    """Mean number of sequences in a step."""
    beyond: str | None
    """How it goes beyond what was probed."""

    @property
    def keeps_up(self) -> bool:
        """Whether the engine serves this load."""
        return bool(np.isfinite(self.ttft_ms[0]))


def predicted_load(
    fit: EngineFit, prompt: int, tokens: int, load: Load, *, law: EngineLaw | None = None
) -> PredictedLoad:
    """Serve this load with the fitted rates.

    Args:
        fit: The calibrated rates.
        prompt: Tokens of a prompt.
        tokens: Tokens of an answer, on average.
        load: When requests arrive.
        law: The law that the rates belong to; None: rates per token.
    """
    law = law or plain_law()
    rates = np.array([fit.value(name) for name in law.names])
    delay_ns = fit.value("request_us") * 1e3

    def step_time(step: StepShape) -> tuple[float, float]:
        return max(float(law.work(step) @ rates), 1.0), 0.0

    def lengths(number: int) -> tuple[int, int]:
        return prompt, max(2, round(tokens * (1.0 + _SPREAD * (number % 3 - 1))))

    batching, due = Batching(EngineSettings()), None
    until_ns = _HORIZON_S * 1e9
    if load.open:
        due = arrivals_ns(load, seed=1, horizon_s=_HORIZON_S).astype(np.float64)
    else:
        first_ns = step_time(StepShape(queries=(float(prompt),), contexts=(0.0,)))[0]
        alone_ns = first_ns + tokens * step_time(StepShape(1, float(prompt)))[0]
        until_ns = _REQUESTS * alone_ns * load.outstanding
    record = serve(
        batching, step_time, lengths, until_ns=until_ns, arrivals_ns=due, in_flight=load.outstanding, delay_ns=delay_ns
    )
    times = record.tokens()
    first, last, count = times.bounds()
    finished = np.sort(times.finished)
    finished = finished[int(finished.size * _WARM_UP) :]
    together = float(np.mean(record.step_sequences)) if record.step_sequences else 0.0
    error = fit.error(prompt, together)
    late = load.open and times.finished.size < 0.9 * times.intended.size
    if late or not finished.size:
        ttft = tpot = (inf, inf)
    else:
        ttft = _ends((first - times.intended)[finished] + delay_ns)
        tpot = _ends(((last - first) / np.maximum(count - 1, 1))[finished])
    return PredictedLoad(
        prompt, tokens, load, ttft, tpot, error.low, error.high, together, fit.beyond(prompt, together)
    )


def _ends(times_ns: Floats) -> tuple[float, float]:
    middle, high = np.quantile(times_ns, (0.5, 0.95)) / 1e6
    return float(middle), float(high)
