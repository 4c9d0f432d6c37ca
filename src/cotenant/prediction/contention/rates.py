"""Speeds of kernels that share the device: the compiled contention law of the engine.

An SM is reassigned whenever a thread block ends: a kernel with more blocks left to start gets more (`weight`), and one
that wants less than its part gets what it wants. Higher priorities go first. DRAM bandwidth is then shared evenly.
Kernels in different domains (partitions of the device) don't interact. A new kernel first waits for thread blocks of
others to end.

Tensor cores and the path from an SM to the L2 belong to the SM and are shared along with it. Not modelled: concurrent
kernels evict each other's data from the L2, which adds DRAM traffic.

No kernel runs faster than alone, and an additional kernel never leaves any other more SMs.
"""

from typing import Any

from cotenant.extras import compiled
from cotenant.prediction.contention.state import (
    BLOCK,
    DRAM,
    DRAM_DOMAIN,
    FREE,
    FRESH,
    HOLDS,
    OCCUPANCY,
    PRIORITY,
    SM_DOMAIN,
    SPEED,
    WEIGHT,
)  # fmt: skip
from cotenant.prediction.kernels.columns import Floats, Ints


@compiled(inline=True)
def fill_rates(  # noqa: C901, PLR0912, PLR0915 - in one piece: passing arrays on costs time
    count: int, order: Ints, floats: Floats
) -> Any:
    """Compute the speed of each resident kernel relative to alone; False: all of them have full speed.

    Args:
        count: Number of resident kernels.
        order: Their tenants, higher priorities first.
        floats: State by tenant: reads what its kernel wants, writes the speed that it is to have unless all are full.
    """
    sms, bandwidth = 0.0, 0.0
    for rank in range(count):
        tenant = order[rank]
        floats[tenant, FRESH] = -1.0
        sms += floats[tenant, OCCUPANCY]
        bandwidth += floats[tenant, DRAM]
    crowded = count > 1 and (sms > 1.0 or bandwidth > 1.0)  # if they fit over all domains, they fit within each
    for rank in range(count if crowded else 0):
        floats[int(floats[order[rank], SM_DOMAIN]), FREE] = 1.0
    # SMs: by priority (they are sorted), in each domain by weight
    bandwidth_wanted = 0.0
    for rank in range(count if crowded else 0):
        if floats[order[rank], FRESH] < 0.0:
            domain, priority = floats[order[rank], SM_DOMAIN], floats[order[rank], PRIORITY]
            room, open_, claims, end = floats[int(domain), FREE], 0, 0.0, rank
            while end < count and floats[order[end], PRIORITY] == priority:
                if floats[order[end], SM_DOMAIN] == domain:
                    open_ += 1
                    claims += floats[order[end], WEIGHT]
                end += 1
            while open_ > 0:
                part, settled, met = max(room, 0.0) / claims, 0, 0.0
                for other in range(rank, end):
                    tenant = order[other]
                    if (
                        floats[tenant, SM_DOMAIN] == domain
                        and floats[tenant, FRESH] < 0.0
                        and floats[tenant, OCCUPANCY] <= part * floats[tenant, WEIGHT]
                    ):
                        floats[tenant, FRESH] = 1.0
                        room -= floats[tenant, OCCUPANCY]
                        met += floats[tenant, WEIGHT]
                        settled += 1
                open_ -= settled
                claims -= met
                if settled == 0:
                    for other in range(rank, end):
                        tenant = order[other]
                        if floats[tenant, SM_DOMAIN] == domain and floats[tenant, FRESH] < 0.0:
                            floats[tenant, FRESH] = part * floats[tenant, WEIGHT] / floats[tenant, OCCUPANCY]
                    room, open_ = 0.0, 0
            floats[int(domain), FREE] = max(room, 0.0)
        bandwidth_wanted += floats[order[rank], FRESH] * floats[order[rank], DRAM]
    # DRAM: kernels that use more than an even part of a domain's bandwidth are slowed down
    for rank in range(count if bandwidth_wanted > 1.0 else 0):
        domain = floats[order[rank], DRAM_DOMAIN]
        seen, total, members = False, 0.0, 0
        for other in range(count):
            if floats[order[other], DRAM_DOMAIN] == domain:
                seen = seen or other < rank
                total += floats[order[other], FRESH] * floats[order[other], DRAM]
                members += 1
        if seen or total <= 1.0:
            continue
        level, settled = 1.0 / members, 0
        while True:  # the even part grows by what modest kernels leave; ends after at most as many rounds as members
            now, below = 0, 0.0
            for other in range(count):
                tenant = order[other]
                if floats[tenant, DRAM_DOMAIN] == domain and floats[tenant, FRESH] * floats[tenant, DRAM] <= level:
                    now += 1
                    below += floats[tenant, FRESH] * floats[tenant, DRAM]
            if now in (settled, members):
                break
            settled, level = now, (1.0 - below) / (members - now)
        for other in range(count):
            tenant = order[other]
            if floats[tenant, DRAM_DOMAIN] == domain and floats[tenant, FRESH] * floats[tenant, DRAM] > level:
                floats[tenant, FRESH] = level / floats[tenant, DRAM]
    return crowded


@compiled(inline=True)
def drain_ns(tenant: int, own: float, count: int, order: Ints, floats: Floats) -> Any:
    """Time that a kernel loses until thread blocks of other tenants have ended and freed SMs, whatever its priority.

    Blocks end one after another: a part of the SMs that are held is free after the same part of a block's time. A
    kernel that needs more than half of the device starts on what is free by then, and loses half a block.

    Args:
        tenant: Its tenant.
        own: Share of the SMs that it fills.
        count: Number of resident kernels.
        order: Their tenants.
        floats: State by tenant.
    """
    held, ending = 0.0, 0.0
    for rank in range(count):
        other = order[rank]
        block = floats[other, BLOCK]
        if other != tenant and floats[other, SM_DOMAIN] == floats[tenant, SM_DOMAIN] and block > 0.0:
            part = max(floats[other, SPEED], 0.0) * floats[other, HOLDS]
            held += part
            ending += part / block
    return lost_ns(own, held, ending)


@compiled(inline=True)
def lost_ns(own: float, held: float, ending: float) -> Any:
    """Time lost by a kernel that fills a share of the SMs, of which others hold some and free some per nanosecond."""
    missing = held + own - 1.0
    if missing <= 0.0 or own <= 0.0 or ending <= 0.0:
        return 0.0
    return min(0.5 * min(missing / own, 1.0) * held, missing) / ending
