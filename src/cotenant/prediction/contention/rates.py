"""Speeds of kernels that share the device: the compiled contention law of the engine.

An SM is reassigned whenever a thread block ends: a kernel with more blocks left to start gets more (`weight`), and one
that wants less than its part gets what it wants. Higher priorities go first. Kernels in different domains (partitions
of the device) don't interact. A new kernel first waits for thread blocks of others to end.

DRAM belongs to all, whatever SMs they have. The more requests are in flight, the longer each takes, long before the
bandwidth is used up: alone a kernel has waited for its own, beside others it waits for theirs too. Others also take
their part of the L2, so that what it would have found there comes from DRAM. Both stretch the part of its time that is
DRAM's, which overlaps with arithmetic, the more so the longer that takes on fewer SMs. What is wanted beyond all of the
bandwidth is shared evenly.

Tensor cores and the path from an SM to the L2 belong to the SM and are shared along with it.

No kernel runs faster than alone, and an additional kernel never leaves any other more SMs.
"""

from typing import Any

from cotenant.extras import compiled
from cotenant.prediction.contention.state import (
    BLOCK,
    CACHED,
    CALM,
    DRAM,
    DRAM_DOMAIN,
    FREE,
    FRESH,
    HOLDS,
    IN_FLIGHT,
    LOAD,
    MEMORY,
    OCCUPANCY,
    PRIORITY,
    SM_DOMAIN,
    SPEED,
    WEIGHT,
)  # fmt: skip
from cotenant.prediction.kernels.columns import Floats, Ints

_NOTHING = 1e-3
"""Less of a neighbour's requests or of a longer wait isn't followed up."""


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
    sms, load, crowded = 0.0, 0.0, False
    for rank in range(count):
        tenant = order[rank]
        floats[tenant, FRESH] = -1.0
        sms += floats[tenant, OCCUPANCY]
        load += floats[tenant, IN_FLIGHT]
    if count > 1 and sms > 1.0:  # if they fit over all domains, they fit within each
        crowded, load = True, 0.0
    for rank in range(count if crowded else 0):
        floats[int(floats[order[rank], SM_DOMAIN]), FREE] = 1.0
    # SMs: by priority (they are sorted), in each domain by weight
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
        load += floats[order[rank], FRESH] * floats[order[rank], IN_FLIGHT]
    # DRAM and L2: longer waits the more requests of others are in flight, more of them without its part of the L2
    bandwidth_wanted = 0.0
    if count > 1:
        domain, apart = floats[order[0], DRAM_DOMAIN], False
        for rank in range(count):
            apart = apart or floats[order[rank], DRAM_DOMAIN] != domain
        for rank in range(count if apart else 0):
            floats[int(floats[order[rank], DRAM_DOMAIN]), LOAD] = 0.0
        for rank in range(count if apart else 0):
            tenant = order[rank]
            floats[int(floats[tenant, DRAM_DOMAIN]), LOAD] += abs(floats[tenant, FRESH]) * floats[tenant, IN_FLIGHT]
        for rank in range(count):
            tenant = order[rank]
            speed, own, waits = abs(floats[tenant, FRESH]), floats[tenant, IN_FLIGHT], floats[tenant, MEMORY]
            if apart:
                load = floats[int(floats[tenant, DRAM_DOMAIN]), LOAD]
            alone = waits * waits * speed * speed
            if floats[tenant, CACHED] > 0.0 and load > speed * own:
                waits += floats[tenant, CACHED] * (1.0 - own / (load + (1.0 - speed) * own))
            waits *= waits * speed * speed * max((1.0 + load * load) * floats[tenant, CALM], 1.0)
            longer = waits * waits - alone * alone
            if longer > _NOTHING:
                # The fourth root of 1 + longer: within 1 % up to a factor of 1.4; beyond it the bandwidth is the limit.
                speed *= (1.0 + 0.3 * longer) / (1.0 + 0.56 * longer)
                crowded = True
            floats[tenant, FRESH] = speed
            bandwidth_wanted += speed * floats[tenant, DRAM]
    # DRAM beyond its bandwidth: kernels that use more than an even part of a domain's bandwidth are slowed down
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
        level, settled, small = 1.0 / members, 0, 0.0
        while True:  # the even part grows by what modest kernels leave; ends after at most as many rounds as members
            now, below = 0, 0.0
            for other in range(count):
                tenant = order[other]
                if floats[tenant, DRAM_DOMAIN] == domain and floats[tenant, FRESH] * floats[tenant, DRAM] <= level:
                    now += 1
                    below += floats[tenant, FRESH] * floats[tenant, DRAM]
            if now in (settled, members):
                break
            settled, small = now, below
            level = (1.0 - small) / (members - settled)
        for other in range(count):
            tenant = order[other]
            if floats[tenant, DRAM_DOMAIN] == domain and floats[tenant, FRESH] * floats[tenant, DRAM] > level:
                floats[tenant, FRESH] = level / floats[tenant, DRAM]
    return crowded or bandwidth_wanted > 1.0


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
