"""How long a request takes alone: the host launches, the device follows."""

import numpy as np

from cotenant.prediction.kernels.columns import Kernels
from cotenant.prediction.kernels.cost import Costs


def request_ns(kernels: Kernels, costs: Costs, *, host_us: float = 0.0) -> float:
    """Time from the first launch to the end of the last kernel, with nobody else on the device.

    Args:
        kernels: In the order of their launch.
        costs: Their solo times.
        host_us: What the host takes to launch one; a device that is faster than its host waits.
    """
    if len(kernels) == 0:
        return 0.0
    launched = np.cumsum(kernels.launches) * host_us * 1e3
    remaining = np.cumsum(costs.duration_ns[::-1])[::-1]
    return float(np.max(launched + remaining))
