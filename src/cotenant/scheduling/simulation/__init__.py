"""The scheduler under simulated time, and an upper bound for any scheduler."""

from cotenant.scheduling.simulation.arrivals import Arrival, poisson
from cotenant.scheduling.simulation.bound import Bound, clairvoyant_bound
from cotenant.scheduling.simulation.device import SimulatedDevice, SpeedModes, SpeedTrace
from cotenant.scheduling.simulation.outcomes import RequestOutcome, Result
from cotenant.scheduling.simulation.simulator import simulate

__all__ = [
    "Arrival",
    "Bound",
    "RequestOutcome",
    "Result",
    "SimulatedDevice",
    "SpeedModes",
    "SpeedTrace",
    "clairvoyant_bound",
    "poisson",
    "simulate",
]
