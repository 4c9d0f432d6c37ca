"""Engines for language models: many requests in steps, with continuous batching and a cache of limited size."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.prediction.engines.engine_profile import ENGINES
    from cotenant.prediction.engines.step import StepShape
    from cotenant.prediction.engines.tails import NO_TIMES, EngineLoads, EngineTimes, engine_times
    from cotenant.prediction.engines.tenant import EngineLoad, EngineTenant
else:
    __getattr__, __dir__ = front(__name__, __file__)
