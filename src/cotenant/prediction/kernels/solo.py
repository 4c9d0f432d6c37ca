"""Time of a request alone: the host launches, the device follows."""

import numpy as np

from cotenant.prediction.kernels.columns import Kernels
from cotenant.prediction.kernels.cost import Costs


def request_ns(kernels: Kernels, costs: Costs, *, host_us: float = 0.0) -> float:
    """Time from the first launch to the end of the last kernel, alone on the device.

    Args:
        kernels: In launch order.
        costs: Their solo times.
        host_us: Host time per launch; a device faster than its host waits.
    """
    if len(kernels) == 0:
        return 0.0
    launched = np.cumsum(kernels.launches) * host_us * 1e3
    remaining = np.cumsum(costs.duration_ns[::-1])[::-1]
    return float(np.max(launched + remaining))
