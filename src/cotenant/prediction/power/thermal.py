"""Temperature of a die: two thermal poles in series, the die on its spreader and the heat sink.

One pole is not enough: an RTX 3090 has 0.03 C/W within 0.4 s and 0.044 C/W over 18 s, an A100 0.05 C/W within 0.2 s.
"""

from dataclasses import dataclass

import numpy as np

from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.power.dies import Die


@dataclass(frozen=True, slots=True)
class Heat:
    """Degrees of each pole above the air."""

    fast_c: float
    slow_c: float


@dataclass(frozen=True, slots=True)
class Cooling:
    """The thermal poles of one die."""

    air_c: float
    fast_c_per_w: float
    fast_s: float
    slow_c_per_w: float
    slow_s: float

    @classmethod
    def of(cls, gpu: GpuSpec, die: Die) -> "Cooling":
        """This die's cooling on such a GPU."""
        thermal = gpu.thermal
        return cls(
            air_c=thermal.ambient_c + die.inlet_c,
            fast_c_per_w=thermal.fast_c_per_w * die.resistance,
            fast_s=thermal.fast_s,
            slow_c_per_w=thermal.slow_c_per_w * die.resistance,
            slow_s=thermal.slow_s,
        )

    @property
    def c_per_w(self) -> float:
        """Steady-state degrees above the air per watt."""
        return self.fast_c_per_w + self.slow_c_per_w

    def temperature_c(self, heat: Heat) -> float:
        """Temperature of the die."""
        return self.air_c + heat.fast_c + heat.slow_c

    def settled(self, power_w: float) -> Heat:
        """Steady state of the poles at constant power."""
        return Heat(self.fast_c_per_w * power_w, self.slow_c_per_w * power_w)

    def after(self, heat: Heat, power_w: float, seconds: float) -> Heat:
        """The poles after some time at constant power. Exact, so any step is stable."""
        end = self.settled(power_w)
        return Heat(
            end.fast_c + (heat.fast_c - end.fast_c) * float(np.exp(-seconds / self.fast_s)),
            end.slow_c + (heat.slow_c - end.slow_c) * float(np.exp(-seconds / self.slow_s)),
        )
