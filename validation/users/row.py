"""One measured value beside the result of a study on a simulated device, and its class."""

from dataclasses import dataclass, field
from typing import Literal

from cotenant.prediction.trust import Class, Quantity

Given = Literal["", "solos"]


@dataclass(frozen=True, slots=True)
class UserRow:
    """One row."""

    data_set: str
    case: str
    group: str
    """Left out together: a model, a mix, a GPU."""
    kind: Class
    quantity: Quantity
    measured: float
    simulated: float
    fitted: bool = False
    """A constant of the simulation was fitted with it."""
    features: tuple[float, ...] = field(default=())
    """Inputs of the simple laws: for times, the number of launches and the roofline's time."""
