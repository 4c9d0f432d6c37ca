"""One measured value beside what a study on a simulated device gives, and the class that it tells about."""

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
    """What is left out together: a model, a mix, a GPU."""
    kind: Class
    quantity: Quantity
    measured: float
    simulated: float
    fitted: bool = False
    """A constant of the simulation was fitted with its help."""
    features: tuple[float, ...] = field(default=())
    """What the best simple law of its class may use: for times the number of launches and the roofline's time."""
