"""The complete analysis of one kind of work on many GPUs."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cotenant.analyse.estimates.missing import Number
from cotenant.analyse.variability.correlation import rank_correlations
from cotenant.analyse.variability.decomposition import Decomposition, decompose
from cotenant.analyse.variability.distributions import FEWEST_RUNS, LEVEL, Alikeness, alikeness
from cotenant.analyse.variability.drift import Drift, drift, slow_since
from cotenant.analyse.variability.profiles import GpuProfile, gpu_profiles
from cotenant.analyse.variability.readings import Readings
from cotenant.analyse.variability.slow import FEW_GPUS, SickSensor, SlowGpu, sick_sensors, slow_fence, slow_gpus
from cotenant.analyse.variability.straggler import straggler_cost
from cotenant.analyse.variability.variation import Variation, variation


@dataclass(frozen=True, slots=True)
class Variability:
    """All of it."""

    work: str
    """What ran, under which settings."""
    simulated: bool
    variation: Variation
    decomposition: Decomposition
    correlations: dict[str, Number]
    """Spearman's, of the GPUs' median times with their clocks, temperatures and powers."""
    alikeness: Alikeness
    straggler: dict[int, Number]
    slow: tuple[SlowGpu, ...]
    sick_sensors: tuple[SickSensor, ...]
    drift: Drift
    profiles: tuple[GpuProfile, ...]
    noun: str = "GPU"
    """What to call one of them: `GPU`, `core`."""
    undecided: str = ""
    """Why none can be called slow, whatever the medians; empty if it was tested, or there are enough of them."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "work": self.work,
            "noun": self.noun,
            "simulated": self.simulated,
            "variation": self.variation,
            "decomposition": self.decomposition,
            "correlations": self.correlations,
            "alikeness": self.alikeness,
            "straggler": self.straggler,
            "undecided": self.undecided,
            "slow": self.slow,
            "sick_sensors": self.sick_sensors,
            "drift": self.drift,
            "gpus": self.profiles,
        }


def analyse_variability(readings: Readings, work: str = "", *, simulated: bool = False) -> Variability:
    """Analyse one kind of work. Needs at least one row."""
    if not len(readings):
        raise ValueError("there are no readings to analyse")
    tested, changes = alikeness(readings), drift(readings)
    undecided = _undecided(readings, tested)
    return Variability(
        work=work,
        simulated=simulated,
        variation=variation(readings),
        decomposition=decompose(readings),
        correlations=rank_correlations(readings),
        alikeness=tested,
        straggler=straggler_cost(readings.gpu_times),
        slow=() if undecided else _slow_now(readings, changes),
        sick_sensors=sick_sensors(readings),
        drift=changes,
        profiles=gpu_profiles(readings),
        noun=readings.noun,
        undecided=undecided,
    )


def _undecided(readings: Readings, tested: Alikeness) -> str:
    """One of few is always the slowest: unless a test shows that they differ, none is called slow."""
    if tested.p_value is not None:
        return f"their times are indistinguishable (p = {tested.p_value:.2g})" if tested.p_value > LEVEL else ""
    few = 1 < len(readings.gpus) < FEW_GPUS and bool(np.ptp(readings.gpu_times))
    return f"it takes {FEWEST_RUNS} runs of each to distinguish them" if few else ""


def _slow_now(readings: Readings, changes: Drift) -> tuple[SlowGpu, ...]:
    """GPUs that are slow now, after their last step, with the day on which they became slow."""
    now = readings.since({change.gpu: change.at_s for change in changes.changes if change.kind == "step"})
    fence, middle = slow_fence(now.gpu_times), float(np.median(readings.gpu_times))
    usual = dict(zip(readings.gpus, readings.gpu_times / middle, strict=True))
    return tuple(
        replace(one, since_s=slow_since(changes.changes, one.gpu, float(usual[one.gpu]), fence))
        for one in slow_gpus(now)
    )
