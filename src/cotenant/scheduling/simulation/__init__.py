"""The scheduler under simulated time, and an upper bound for any scheduler."""

from cotenant.scheduling.simulation.bound import Bound, clairvoyant_bound
from cotenant.scheduling.simulation.device import Arrival, SimulatedDevice, SpeedModes, SpeedTrace, poisson
from cotenant.scheduling.simulation.simulator import SimulatedRequest, SimulatedResult, simulate

__all__ = [
    "Arrival",
    "Bound",
    "SimulatedDevice",
    "SimulatedRequest",
    "SimulatedResult",
    "SpeedModes",
    "SpeedTrace",
    "clairvoyant_bound",
    "poisson",
    "simulate",
]
