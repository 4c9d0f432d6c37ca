"""The scheduler under simulated time."""

from cotenant.scheduling.simulation.device import Arrival, SimulatedDevice, SpeedModes, SpeedTrace, poisson
from cotenant.scheduling.simulation.simulator import SimulatedRequest, SimulatedResult, simulate

__all__ = [
    "Arrival",
    "SimulatedDevice",
    "SimulatedRequest",
    "SimulatedResult",
    "SpeedModes",
    "SpeedTrace",
    "poisson",
    "simulate",
]
