"""Progress of kernels on the device: what they have done since their speeds last changed."""

import numba

from cotenant.prediction.kernels.columns import Floats, Ints
from cotenant.prediction.sharing.state import (
    DEVICE_NS,
    DRAM,
    DRAM_PART,
    KNOWN_NS,
    LEFT_NS,
    OCCUPANCY,
    SINCE_NS,
    SM_PART,
    SPEED,
    TENSOR,
)


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def settle(  # noqa: PLR0917 - compiled code takes its arguments by position
    begin: int, end: int, order: Ints, now: float, row: int, floats: Floats, activity: Floats
) -> None:
    """Record the progress of the kernels of these tenants, by their places in the order, up to now."""
    for place in range(begin, end):
        tenant = order[place]
        passed = now - floats[tenant, SINCE_NS]
        floats[tenant, SINCE_NS] = now
        if floats[tenant, SPEED] > 0.0:
            floats[tenant, LEFT_NS] -= passed * floats[tenant, SPEED]
            floats[tenant, DEVICE_NS] += passed
        worked = floats[tenant, KNOWN_NS] - floats[tenant, LEFT_NS]
        floats[tenant, KNOWN_NS] = floats[tenant, LEFT_NS]
        activity[row, 1] += worked * floats[tenant, OCCUPANCY] * floats[tenant, SM_PART]
        activity[row, 2] += worked * floats[tenant, TENSOR] * floats[tenant, SM_PART]
        activity[row, 3] += worked * floats[tenant, DRAM] * floats[tenant, DRAM_PART]
