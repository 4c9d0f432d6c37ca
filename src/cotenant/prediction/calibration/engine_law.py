"""A step's time as a sum of rates times its work: of the host, and of a device that is known or isn't."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cotenant.prediction.engines.step import StepShape, StepTimes
from cotenant.prediction.kernels.columns import Floats


@dataclass(frozen=True, slots=True)
class Rate:
    """A part of a step's time."""

    name: str
    unit: str
    host: bool
    usual: float
    spread: float
    """Standard deviation of the prior."""


@dataclass(frozen=True, slots=True)
class EngineLaw:
    """The parts of a step's time, and the work of a step in each of them, in ns per unit of the rate."""

    rates: tuple[Rate, ...]
    work: Callable[[StepShape], Floats]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rates."""
        return tuple(rate.name for rate in self.rates)


_HOST = (
    Rate("step_us", "us per step", True, 700.0, 3000.0),
    Rate("sequence_us", "us per sequence of a step", True, 50.0, 200.0),
    Rate("prompt_us", "us per step with prompts", True, 1500.0, 3000.0),
    Rate("request_us", "us per request outside of steps", True, 2000.0, 5000.0),
)
REQUEST = 3
"""Place of the rate per request, which isn't of a step."""
_OF_KERNELS = (
    Rate("token_us", "us per token of a prompt", True, 0.0, 5.0),
    Rate("device", "times the kernels' laws", False, 1.0, 0.5),
    Rate("attention", "times the tables of attention", False, 1.2, 0.5),
)
_PLAIN = (
    *(replace(rate, spread=20.0 * rate.spread) for rate in _HOST),  # a step also reads the weights, on any device
    Rate("token_us", "us per token of a prompt", False, 100.0, 1000.0),
    Rate("context_us", "us per token of context and sequence", False, 0.1, 10.0),
    Rate("pair_us", "us per 1,000 pairs of tokens of a prompt", False, 0.1, 100.0),
)


def kernel_law(times: StepTimes) -> EngineLaw:
    """Host rates, and scales of the kernels' laws of a known model on a known GPU.

    Args:
        times: Steps of the model, with attention as in the tables (1.0).
    """
    layers = times.model.layers

    def work(step: StepShape) -> Floats:
        attended = times.attended(step)
        scaled = sum(float((kernel.duration_ns - kernel.fixed_ns)[0]) for kernel in attended) * layers
        return np.array([*_host_work(step), 1e3 * sum(step.queries), times.device_ns(step) - scaled, scaled])

    return EngineLaw(_HOST + _OF_KERNELS, work)


def plain_law() -> EngineLaw:
    """Host rates, and rates per token for a model or a device that isn't known."""

    def work(step: StepShape) -> Floats:
        pairs = sum(count * (before + count / 2) for count, before in zip(step.queries, step.contexts, strict=True))
        return np.array([*_host_work(step), 1e3 * sum(step.queries), 1e3 * step.decoding_context, pairs])

    return EngineLaw(_PLAIN, work)


def _host_work(step: StepShape) -> tuple[float, ...]:
    return 1e3, 1e3 * step.sequences, 1e3 * bool(step.queries), 0.0
