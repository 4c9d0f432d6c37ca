"""Power of a mix on a GPU, and the energy of a request. From the simulation's power law; not validated for mixes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.interference.gpu_profiles import GpuProfiles
from cotenant.prediction.kernels.columns import Floats
from cotenant.prediction.power.draw import Activity, mean_w


@dataclass(frozen=True, slots=True)
class PowerUse:
    """What a request of each tenant uses of a GPU."""

    gpu: GpuSpec
    sm_s: Floats
    """Seconds of all SMs."""
    dram_s: Floats
    """Seconds of the full bandwidth."""

    def drawn(self, tenants: Sequence[int], rates_rps: Sequence[float]) -> tuple[float, list[float]]:
        """Mean power in watts, and joules per request of each tenant.

        Tenants share the power, the idle part included, in proportion to the SM time they use.
        """
        rates = np.asarray(rates_rps)
        busy, moving = self.sm_s[list(tenants)] * rates, self.dram_s[list(tenants)] * rates
        activity = Activity(min(float(busy.sum()), 1.0), min(float(moving.sum()), 1.0))
        watts = mean_w(self.gpu, activity)
        return watts, [float(joules) for joules in watts * busy / busy.sum() / rates]


def power_use(gpu: GpuSpec, profiles: GpuProfiles) -> PowerUse:
    """From the tenants' profiles alone."""
    return PowerUse(gpu, profiles.work_ns * profiles.occupancy / 1e9, profiles.work_ns * profiles.dram / 1e9)
