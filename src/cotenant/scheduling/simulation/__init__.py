"""The scheduler under simulated time, and an upper bound for any scheduler."""

from cotenant.scheduling.simulation.arrivals import Arrival, poisson
from cotenant.scheduling.simulation.bound import Bound, clairvoyant_bound
from cotenant.scheduling.simulation.device import SimulatedDevice, SpeedModes
from cotenant.scheduling.simulation.outcomes import Outcome, Result
from cotenant.scheduling.simulation.simulator import simulate

__all__ = [
    "Arrival",
    "Bound",
    "Outcome",
    "Result",
    "SimulatedDevice",
    "SpeedModes",
    "clairvoyant_bound",
    "poisson",
    "simulate",
]
