"""State of the event engine: the columns of its tables, and how kernels progress.

All floats of a tenant are in one table, because compiled code counts references to every array that it passes on. That
code is kept on disk until the file it is in changes: whoever moves a column has to change the files that use it too.
"""

from typing import Any

import numpy as np

from cotenant.extras import compiled
from cotenant.prediction.kernels.columns import Floats, Ints

IDLE, LAUNCHING, RESIDENT, CLOSING = 0, 1, 2, 3
"""State of a tenant: waiting for a request, for a launch by the host, on the device, for the host to finish."""

# Columns of the table of integers, a row per tenant
STATE, KERNEL, NUMBER, FINISHED, DRAINED = range(5)
# Columns of the table of floats, a row per tenant: its request, ...
NEXT_NS, LEFT_NS, INTENDED_NS, STARTED_NS, HOST_NS, DEVICE_NS, FIRST_NS, STRETCH, WORK_NS, TOTAL_NS = range(10)
# ... its kernel on the device: what was left when activity was last recorded, the speed it has had since then, the one
# that it is to have from now on, ...
KNOWN_NS, SINCE_NS, SPEED, FRESH, OCCUPANCY, DRAM, TENSOR, BLOCK, HOLDS, WEIGHT = range(10, 20)
# ... where it runs, and what is left of the SM domain of this number
SM_DOMAIN, DRAM_DOMAIN, PRIORITY, SM_PART, DRAM_PART, FREE = range(20, 26)
COLUMNS = 26
# Columns of the device's state
NOW_NS, SLICE_END_NS, SWITCH_END_NS, COMPLETIONS, ACTIVE = range(5)


@compiled(inline=True)
def uniform(seed: int, tenant: int, number: int) -> Any:
    """Number from 0 to 1 by which a request's host time varies: a hash of these values (splitmix64), no generator."""
    z = np.uint64(seed) + np.uint64(tenant) * np.uint64(0xD1342543DE82EF95)
    z += (np.uint64(number) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return float(z >> np.uint64(11)) / 9007199254740992.0


# --- Progress of kernels since their speeds last changed

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
