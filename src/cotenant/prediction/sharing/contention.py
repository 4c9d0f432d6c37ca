"""How fast kernels go that are on the device at once: the law of sharing, compiled, used by the engine.

An SM is given away anew whenever a thread block ends. Who gets it is neither first come, first served nor even: a
kernel with more blocks still to start gets more, by a power of them (`weight`), and who wants less than its part gets
what it wants. Higher priorities come first. DRAM bandwidth is then shared evenly. Kernels in different domains
(partitions of the device) don't meet. How long a newcomer waits for the first blocks to end is the engine's business.

Tensor cores, and the way from an SM to the L2, belong to the SM: whoever gets a share of the SMs gets that share of
them, so that they need no law of their own. Not modelled: kernels beside each other push each other's data out of
the L2, which sends more of it to DRAM.

Nobody goes faster than alone, and one more kernel never leaves any of the others more SMs.
"""

import numba
import numpy as np

from cotenant.prediction.kernels.columns import Floats, Ints


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
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
    """Fill in the speed of each resident kernel, 1 being its speed alone.

    Args:
        count: How many kernels are resident.
        order: Their tenants, higher priorities first.
        occupancy: By tenant, the share of its SM domain that its kernel holds.
        dram: By tenant, the share of its DRAM domain's bandwidth that its kernel draws at full speed.
        weight: By tenant, of its kernel's claim on SMs that become free.
        sm_domain: By tenant.
        dram_domain: By tenant.
        priority: By tenant.
        left: Room for one number per domain.
        rate: By tenant; filled in for the residents.
    """
    if count == 1:
        rate[order[0]] = 1.0
        return
    for place in range(count):
        left[sm_domain[order[place]]] = 1.0
    begin = 0
    while begin < count:  # one priority after the other; they are in order
        end = begin + 1
        while end < count and priority[order[end]] == priority[order[begin]]:
            end += 1
        _share_sms(begin, end, order, occupancy, weight, sm_domain, left, rate)
        begin = end
    wanted = 0.0
    for place in range(count):
        wanted += rate[order[place]] * dram[order[place]]
    if wanted <= 1.0:  # over all domains: then within each of them too
        return
    for place in range(count):
        first = dram_domain[order[place]]
        seen = False
        for earlier in range(place):
            seen = seen or dram_domain[order[earlier]] == first
        if not seen:
            _share_dram(count, order, dram, dram_domain, first, rate)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _share_sms(  # noqa: C901, PLR0917 - as above, in one loop
    begin: int, end: int, order: Ints, occupancy: Floats, weight: Floats, sm_domain: Ints, left: Floats, rate: Floats
) -> None:
    """Share what is left of each domain by weight among kernels of one priority."""
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


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _share_dram(  # noqa: PLR0917 - as above
    count: int, order: Ints, dram: Floats, dram_domain: Ints, domain: int, rate: Floats
) -> None:
    """Slow those down that draw more than an even part of one domain's bandwidth."""
    total, members = 0.0, 0
    for place in range(count):
        if dram_domain[order[place]] == domain:
            total += rate[order[place]] * dram[order[place]]
            members += 1
    if total <= 1.0:
        return
    level, settled, small = 1.0 / members, 0, 0.0
    while True:  # the even part grows by what the modest leave over; ends after at most as many rounds as members
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
    """Speeds of kernels of one priority that are resident together. For reading and for tests."""
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
