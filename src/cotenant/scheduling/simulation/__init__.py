"""The scheduler under simulated time."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.scheduling.simulation.device import Arrival, SimulatedDevice, SpeedModes, SpeedTrace, poisson
    from cotenant.scheduling.simulation.lines import NEVER, WARM_UP, Line, Replications, latencies, requests_at, tail_of
    from cotenant.scheduling.simulation.simulator import SimulatedResult, simulate
else:
    __getattr__, __dir__ = front(__name__, __file__)
