"""Speeds of kernels that share the device: the compiled contention law of the engine.

An SM is reassigned whenever a thread block ends, neither first come, first served nor evenly: a kernel with more blocks
left to start gets more, by a power of their number (`weight`), and one that wants less than its part gets what it
wants. Higher priorities go first. DRAM bandwidth is then shared evenly. Kernels in different domains (partitions of the
device) don't interact. A new kernel first waits for thread blocks of others to end.

Tensor cores and the path from an SM to the L2 belong to the SM and are shared along with it. Not modelled: concurrent
kernels evict each other's data from the L2, which adds DRAM traffic.

No kernel runs faster than alone, and an additional kernel never leaves any other more SMs.
"""

from typing import Any

import numba
import numpy as np

from cotenant.prediction.kernels.columns import Floats, Ints


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def fill_rates(  # noqa: PLR0917 - compiled code takes its arguments by position
    count: int,
    order: Ints,
    occupancy: Floats,
    dram: Floats,
    weight: Floats,
    sm_domain: Ints,
    dram_domain: Ints,
    priority: Ints,
    left: Floats,
    rate: Floats,
) -> None:
    """Compute the speed of each resident kernel relative to alone.

    Args:
        count: Number of resident kernels.
        order: Their tenants, higher priorities first.
        occupancy: By tenant, the share of its SM domain held by its kernel.
        dram: By tenant, the share of its DRAM domain's bandwidth used by its kernel at full speed.
        weight: By tenant, the weight of its kernel's claim on freed SMs.
        sm_domain: By tenant.
        dram_domain: By tenant.
        priority: By tenant.
        left: Scratch space, one number per domain.
        rate: Output, by tenant, for resident kernels.
    """
    if count == 1:
        rate[order[0]] = 1.0
        return
    for place in range(count):
        left[sm_domain[order[place]]] = 1.0
    begin = 0
    while begin < count:  # one priority at a time; they are sorted
        end = begin + 1
        while end < count and priority[order[end]] == priority[order[begin]]:
            end += 1
        _share_sms(begin, end, order, occupancy, weight, sm_domain, left, rate)
        begin = end
    wanted = 0.0
    for place in range(count):
        wanted += rate[order[place]] * dram[order[place]]
    if wanted <= 1.0:  # if it fits over all domains, it fits within each
        return
    for place in range(count):
        first = dram_domain[order[place]]
        seen = False
        for earlier in range(place):
            seen = seen or dram_domain[order[earlier]] == first
        if not seen:
            _share_dram(count, order, dram, dram_domain, first, rate)


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _share_sms(  # noqa: C901, PLR0917 - as above, in one loop
    begin: int, end: int, order: Ints, occupancy: Floats, weight: Floats, sm_domain: Ints, left: Floats, rate: Floats
) -> None:
    """Share the rest of each domain by weight among kernels of one priority."""
    for place in range(begin, end):
        rate[order[place]] = -1.0
    for place in range(begin, end):
        if rate[order[place]] >= 0.0:
            continue
        domain = sm_domain[order[place]]
        room, open_, claims = left[domain], 0, 0.0
        for other in range(place, end):
            if sm_domain[order[other]] == domain:
                open_ += 1
                claims += weight[order[other]]
        while open_ > 0:
            part, settled, met = max(room, 0.0) / claims, 0, 0.0
            for other in range(place, end):
                tenant = order[other]
                if sm_domain[tenant] == domain and rate[tenant] < 0.0 and occupancy[tenant] <= part * weight[tenant]:
                    rate[tenant] = 1.0
                    room -= occupancy[tenant]
                    met += weight[tenant]
                    settled += 1
            open_ -= settled
            claims -= met
            if settled == 0:
                for other in range(place, end):
                    tenant = order[other]
                    if sm_domain[tenant] == domain and rate[tenant] < 0.0:
                        rate[tenant] = part * weight[tenant] / occupancy[tenant]
                room, open_ = 0.0, 0
        left[domain] = max(room, 0.0)


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _share_dram(  # noqa: PLR0917 - as above
    count: int, order: Ints, dram: Floats, dram_domain: Ints, domain: int, rate: Floats
) -> None:
    """Slow down kernels that use more than an even part of a domain's bandwidth."""
    total, members = 0.0, 0
    for place in range(count):
        if dram_domain[order[place]] == domain:
            total += rate[order[place]] * dram[order[place]]
            members += 1
    if total <= 1.0:
        return
    level, settled, small = 1.0 / members, 0, 0.0
    while True:  # the even part grows by what modest kernels leave; ends after at most as many rounds as members
        now, below = 0, 0.0
        for place in range(count):
            tenant = order[place]
            if dram_domain[tenant] == domain and rate[tenant] * dram[tenant] <= level:
                now += 1
                below += rate[tenant] * dram[tenant]
        if now in (settled, members):
            break
        settled, small = now, below
        level = (1.0 - small) / (members - settled)
    for place in range(count):
        tenant = order[place]
        if dram_domain[tenant] == domain and rate[tenant] * dram[tenant] > level:
            rate[tenant] = level / dram[tenant]


def rates(
    occupancy: Floats,
    dram: Floats,
    *,
    weight: Floats | None = None,
    sm_domain: Ints | None = None,
    dram_domain: Ints | None = None,
) -> Floats:
    """Speeds of resident kernels of one priority. For documentation and tests."""
    count = occupancy.size
    nowhere = np.zeros(count, np.int64)
    result = np.ones(count)
    fill_rates(
        count,
        np.arange(count),
        occupancy,
        dram,
        np.ones(count) if weight is None else weight,
        nowhere if sm_domain is None else sm_domain,
        nowhere if dram_domain is None else dram_domain,
        nowhere,
        np.ones(count),
        result,
    )
    return result


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def drain_ns(  # noqa: PLR0917 - compiled code takes its arguments by position
    tenant: int,
    wanted: float,
    count: int,
    order: Ints,
    holds: Floats,
    block: Floats,
    rate: Floats,
    sm_domain: Ints,
    priority: Ints,
    waits: float,
    waits_first: float,
) -> Any:
    """Wait of a kernel until thread blocks of other tenants have ended and freed SMs."""
    held, longest, first = 0.0, 0.0, True
    for place in range(count):
        other = order[place]
        if other != tenant and sm_domain[other] == sm_domain[tenant]:
            held += max(rate[other], 0.0) * holds[other]
            longest = max(longest, block[other])
            first = first and priority[tenant] > priority[other]
    if held + wanted <= 1.0 or longest <= 0.0 or wanted <= 0.0:
        return 0.0
    missing = (held + wanted - 1.0) / wanted
    return longest * min(missing, 1.0) * (waits_first if first else waits)
