"""Variation among the dies of a fleet: switching power, leakage and cooling. Reproducible by die number.

Population: 392 Tesla V100-SXM2 of TACC's Longhorn, SGEMM at the power limit and PageRank at a fixed clock
(hal-uw/blox-pal, MIT); fitted on the 204 GPUs of cabinets c002 to c005 or of no named cabinet. Other GPU models use the
same relative spread, for lack of data.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.power.draw import Floats


@dataclass(frozen=True, slots=True)
class Die:
    """A physical GPU, relative to a typical GPU of its model."""

    dynamic: float = 1.0
    """Switching power at the same clock."""
    leakage: float = 1.0
    """Leakage at the same temperature."""
    resistance: float = 1.0
    """Thermal resistance, degrees per watt."""
    inlet_c: float = 0.0
    """Inlet air temperature above the typical."""
    time: float = 1.0
    """Time for the same work at the same clock."""
    control: float = 1.0
    """Fraction of the limit that its power control maintains."""


TYPICAL = Die()


@dataclass(frozen=True, slots=True)
class Dies:
    """Many dies, an array per property."""

    dynamic: Floats
    leakage: Floats
    resistance: Floats
    inlet_c: Floats
    time: Floats
    control: Floats

    @classmethod
    def of(cls, dies: Sequence[Die]) -> "Dies":
        """Columns from rows."""
        return cls(*(np.array([getattr(die, field.name) for die in dies]) for field in fields(cls)))

    def warmed(self, degrees: Floats) -> "Dies":
        """The same dies with inlet air warmer by ``degrees``: a row per run, a column per die."""
        shape = degrees.shape
        columns = {field.name: np.broadcast_to(getattr(self, field.name), shape) for field in fields(self)}
        return Dies(**{**columns, "inlet_c": self.inlet_c + degrees})


@dataclass(frozen=True, slots=True)
class Population:
    """Spread of dies: relative standard deviations, or degrees where noted."""

    dynamic: float = 0.024
    leakage: float = 0.14
    resistance: float = 0.10
    inlet_c: float = 4.1
    time: float = 0.0024
    control: float = 0.0018
    badly_cooled: float = 0.01
    """Fraction of GPUs with a blocked or loose heat sink: 2 of the 204 were slow, hot and below the limit."""
    run_to_run_c: float = 0.90
    """Standard deviation of a GPU's temperature from run to run."""


LONGHORN = Population()


def draw_die(gpu: GpuSpec, index: int, *, seed: int = 0, population: Population = LONGHORN) -> Die:
    """Die number ``index`` of a fleet: the same for the same GPU, seed and index, whatever the fleet's size."""
    random = np.random.default_rng((seed, zlib.crc32(gpu.name.encode()), index))
    dynamic, leakage, resistance, inlet, time, control = random.standard_normal(6)
    bad = random.random() < population.badly_cooled
    blocked = random.uniform(1.25, 1.6)
    return Die(
        dynamic=float(np.exp(population.dynamic * dynamic)),
        leakage=float(np.exp(population.leakage * leakage)),
        resistance=float(np.exp(population.resistance * resistance)) * (blocked if bad else 1.0),
        inlet_c=float(population.inlet_c * inlet),
        time=float(np.exp(population.time * time)),
        control=float(np.exp(population.control * control)),
    )


def fleet(gpu: GpuSpec, count: int, *, seed: int = 0, population: Population = LONGHORN) -> tuple[Die, ...]:
    """The first ``count`` dies."""
    return tuple(draw_die(gpu, index, seed=seed, population=population) for index in range(count))


# --- Temperature of a die: two thermal poles in series, the die on its spreader and the heat sink
#
# One pole is not enough: an RTX 3090 has 0.03 C/W within 0.4 s and 0.044 C/W over 18 s, an A100 0.05 C/W within 0.2 s.


@dataclass(frozen=True, slots=True)
class Heat:
    """Degrees of each pole above the air."""

    fast_c: float
    slow_c: float


@dataclass(frozen=True, slots=True)
class Cooling:
    """The thermal poles of a die."""

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
