"""Progress of kernels on the device: what they have done since their speeds last changed."""

from typing import Any

from cotenant.extras import compiled
from cotenant.prediction.contention.state import (
    DEVICE_NS,
    DRAM,
    DRAM_PART,
    FIRST_NS,
    HOST_NS,
    KNOWN_NS,
    LEFT_NS,
    OCCUPANCY,
    SINCE_NS,
    SM_PART,
    SPEED,
    STRETCH,
    TENSOR,
)  # fmt: skip
from cotenant.prediction.kernels.columns import Floats, Ints

NEVER_NS = 1e300
ALMOST_NS = 1e-3
"""Times closer than this are equal: sums of floats don't match exactly."""


@compiled()
def settle(tenant: int, now: float, row: int, floats: Floats, activity: Floats) -> None:
    """Record the progress of this tenant's kernel up to now."""
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


@compiled(inline=True)
def run_alone(  # noqa: PLR0917 - compiled code takes its arguments by position
    tenant: int, k: int, last: int, now: float, busy_since: float, until: float, deadline: float, row: int,
    kernels: Floats, slots: Ints, floats: Floats, slot_ends: Floats, activity: Floats, first: int,
) -> Any:  # fmt: skip
    """Complete the kernels of a tenant that has the device to itself, up to the last of its request.

    The same additions in the same order as event by event, so that the results are the same to the last bit.

    Args:
        tenant: The tenant; its launches are its own thread's.
        k: The kernel that starts now.
        last: The last kernel of the request, which is left to the caller.
        now: The time.
        busy_since: When the device began to be busy.
        until: Stop before kernels that end later.
        deadline: Stop before kernels that end then or later.
        row: The period of activity.
        kernels: As in `engine.advance`.
        slots: As in `engine.advance`.
        floats: As in `engine.advance`.
        slot_ends: As in `engine.advance`.
        activity: As in `engine.advance`.
        first: The kernel that completes the first output.

    Returns:
        When the device began to be busy, the end of the last completed kernel, and the next kernel.
    """
    stretch, launches, device_ns = floats[tenant, STRETCH], floats[tenant, HOST_NS], floats[tenant, DEVICE_NS]
    sm_part, dram_part = floats[tenant, SM_PART], floats[tenant, DRAM_PART]
    busy, sm, tensor, dram = activity[row, 0], activity[row, 1], activity[row, 2], activity[row, 3]
    start = now
    while k < last:
        duration = kernels[k, 0]
        end = start + duration
        if end > until or end >= deadline:
            break
        if start > now:
            busy += now - busy_since
            busy_since = start
        now = end
        passed = now - start
        worked = duration - (duration - passed)
        device_ns += passed
        sm += worked * kernels[k, 1] * sm_part
        tensor += worked * kernels[k, 3] * sm_part
        dram += worked * kernels[k, 2] * dram_part
        if k == first:
            floats[tenant, FIRST_NS] = now
        if slots[k + 1] != slots[k]:
            slot_ends[tenant, slots[k]] = now
        if kernels[k, 8] > 0.0:  # the host continues when the copy is done
            launches = max(launches, now - kernels[k, 5] * stretch)
        k += 1
        launched = launches + kernels[k, 5] * stretch
        start = launched if launched > now + ALMOST_NS else now
    floats[tenant, HOST_NS], floats[tenant, DEVICE_NS] = launches, device_ns
    activity[row, 0], activity[row, 1], activity[row, 2], activity[row, 3] = busy, sm, tensor, dram
    return busy_since, now, k
