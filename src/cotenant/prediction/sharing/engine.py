"""Event simulation of tenants' requests on a device: compiled, deterministic, in bounded memory.

A tenant serves one request at a time. Its host launches kernels ahead of the device, in order; a kernel starts when it
has been launched, its predecessor is done, and thread blocks of other tenants have freed SMs. Kernels on the device
progress at the rates of `contention`, or in turns if the device is time-sliced. State is one row per tenant; requests
leave through a buffer that the caller drains, so memory doesn't grow with the length of a run.
"""

from typing import Any

import numba
import numpy as np

from cotenant.prediction.kernels.columns import Floats, Ints
from cotenant.prediction.sharing.contention import drain_ns, fill_rates

IDLE, LAUNCHING, RESIDENT, CLOSING = 0, 1, 2, 3
"""State of a tenant: waiting for a request, for a launch by the host, on the device, for the host to finish."""

ACTIVITIES = ("busy", "sm", "tensor", "dram")
"""Columns of activity, each a mean over the period."""

EMPTY_BUFFER, ALL_DONE, DEADLINE = 0, 1, 2
"""Why `advance` returned: buffer full; all tenants done; deadline reached."""

_NEVER = 1e300
_ALMOST_NS = 1e-3
"""Times closer than this are equal: sums of floats don't match exactly."""

# Columns of the table of integers, one row per tenant
STATE, KERNEL, NUMBER, FINISHED, DRAINED = range(5)
# Columns of the table of floats, one row per tenant
NEXT_NS, LEFT_NS, INTENDED_NS, STARTED_NS, HOST_NS, DEVICE_NS, FIRST_NS, STRETCH, WORK_NS, TOTAL_NS = range(10)
# Columns of the device's state
NOW_NS, SLICE_END_NS, SWITCH_END_NS, COMPLETIONS, ACTIVE = range(5)


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def uniform(seed: int, tenant: int, number: int) -> Any:
    """Deterministic number from 0 to 1 for these three values (splitmix64)."""
    z = np.uint64(seed) + np.uint64(tenant) * np.uint64(0xD1342543DE82EF95)
    z += (np.uint64(number) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return float(z >> np.uint64(11)) / 9007199254740992.0


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def advance(  # noqa: C901, PLR0912, PLR0915, PLR0917 - one compiled loop: calls between events would cost its speed
    kernels: Floats,
    slots: Ints,
    spans: Ints,
    host: Floats,
    outstanding: Ints,
    arrivals: Floats,
    arrival_spans: Ints,
    domains: Ints,
    options: Floats,
    limits: Floats,
    ints: Ints,
    floats: Floats,
    device: Floats,
    order: Ints,
    ring: Floats,
    slot_ends: Floats,
    activity: Floats,
    out_ints: Ints,
    out_floats: Floats,
) -> tuple[int, int]:
    """Run until the buffer is full, all tenants are done, or the deadline. Returns rows written and the reason.

    Args:
        kernels: One row per kernel of all tenants: duration, occupancy, dram, tensor, launch, launches so far,
            block, holds, whether the host waits for it, weight.
        slots: Stage of each kernel.
        spans: First and last + 1 kernel of each tenant.
        host: Per tenant: before, after, first-output kernel (-1: none), its SM and DRAM domains' shares of the device.
        outstanding: Per tenant: requests in flight of a closed load; 0: open.
        arrivals: Due times of open loads, tenants concatenated.
        arrival_spans: First and last + 1 of each tenant.
        domains: Per tenant: SM domain, DRAM domain, 1 if it shares one host thread with others, priority.
        options: Time slice (0: kernels run side by side), cost of a switch with and without interruption, relative
            spread of host times, seed, share of a block that a new kernel waits for, the same with priority, index of
            the first tenant among all of the trial.
        limits: End of the window, deadline, length of a period of activity.
        ints: State.
        floats: State.
        device: State.
        order: State: resident tenants in order of arrival; the last entry is their number.
        ring: State: completion times of the last requests of closed loads.
        slot_ends: State: end times of the current requests' stages.
        activity: One row per period, columns as `ACTIVITIES`, accumulated in nanoseconds.
        out_ints: Buffer: tenant, number.
        out_floats: Buffer: intended, started, first, done, device, then the ends of stages.
    """
    tenants = spans.shape[0]
    slice_ns, preempt_ns, yield_ns, spread, seed = options[0], options[1], options[2], options[3], int(options[4])
    waits, waits_first, first_index = options[5], options[6], int(options[7])
    window_end, deadline, period = limits[0], limits[1], limits[2]
    room = out_ints.shape[0]
    rate, occupancy, dram, tensor = np.zeros(tenants), np.zeros(tenants), np.zeros(tenants), np.zeros(tenants)
    free = np.ones(tenants)
    sm_domain, dram_domain, priority = domains[:, 0].copy(), domains[:, 1].copy(), domains[:, 3].copy()
    block, holds, weight = np.zeros(tenants), np.zeros(tenants), np.ones(tenants)
    sliced = slice_ns > 0
    written = 0
    now = device[NOW_NS]
    row = min(int((now + _ALMOST_NS) / period), activity.shape[0] - 1)
    row_end = (row + 1) * period
    count = int(order[tenants])
    for place in range(count):
        tenant = order[place]
        k = spans[tenant, 0] + ints[tenant, KERNEL]
        occupancy[tenant], dram[tenant], tensor[tenant] = kernels[k, 1], kernels[k, 2], kernels[k, 3]
        block[tenant], holds[tenant], weight[tenant] = kernels[k, 6], kernels[k, 7], kernels[k, 9]
    changed = True
    unfinished, hosting, shares_host = 0, 0, False
    for tenant in range(tenants):
        if ints[tenant, FINISHED] == 0:
            unfinished += 1
        if domains[tenant, 2] > 0:
            shares_host = True
            if floats[tenant, WORK_NS] < floats[tenant, TOTAL_NS]:
                hosting += 1
    while True:
        # 1. Speeds of kernels on the device
        if changed and count > 0:
            if not sliced:
                fill_rates(count, order, occupancy, dram, weight, sm_domain, dram_domain, priority, free, rate)
            else:
                active = int(device[ACTIVE])
                found = False
                for place in range(count):
                    rate[order[place]] = 0.0
                    found = found or order[place] == active
                if not found or (device[SLICE_END_NS] <= now + _ALMOST_NS and count > 1):
                    # Round robin: the next index after the last one served.
                    chosen, best = active, 2 * tenants + 1
                    for place in range(count):
                        distance = (order[place] - active - 1) % tenants
                        if distance < best:
                            chosen, best = order[place], distance
                    if chosen != active:
                        device[SWITCH_END_NS] = now + (preempt_ns if found else yield_ns)
                    active = chosen
                    device[ACTIVE] = active
                    device[SLICE_END_NS] = max(device[SWITCH_END_NS], now) + slice_ns
                if device[SWITCH_END_NS] <= now + _ALMOST_NS:
                    rate[active] = 1.0
            changed = False

        # 2. Time of the next event
        soon = _NEVER
        for tenant in range(tenants):
            if ints[tenant, STATE] != RESIDENT and floats[tenant, NEXT_NS] < soon:
                soon = floats[tenant, NEXT_NS]
        if shares_host and hosting > 0:
            # One thread launches for all: host work progresses at an even part of its speed.
            for tenant in range(tenants):
                if floats[tenant, WORK_NS] < floats[tenant, TOTAL_NS]:
                    target = floats[tenant, TOTAL_NS]
                    if ints[tenant, STATE] == LAUNCHING and ints[tenant, DRAINED] == 0:
                        k = spans[tenant, 0] + ints[tenant, KERNEL]
                        target = (host[tenant, 0] + kernels[k, 5]) * floats[tenant, STRETCH]
                    soon = min(soon, now + max(target - floats[tenant, WORK_NS], 0.0) * hosting)
        for place in range(count):
            tenant = order[place]
            if rate[tenant] > 0:
                needed = floats[tenant, LEFT_NS]
                if rate[tenant] < 1.0:
                    needed /= rate[tenant]
                soon = min(soon, now + needed)
        if sliced and count > 0:
            if device[SWITCH_END_NS] > now + _ALMOST_NS:
                soon = min(soon, device[SWITCH_END_NS])
            elif count > 1:
                soon = min(soon, device[SLICE_END_NS])
        soon = min(soon, row_end, deadline)

        # 3. Advance to it
        passed = max(soon - now, 0.0)
        if count > 0 and passed > 0:
            any_rate = False
            for place in range(count):
                tenant = order[place]
                speed = rate[tenant]
                if speed > 0:
                    any_rate = True
                    floats[tenant, LEFT_NS] -= passed * speed
                    floats[tenant, DEVICE_NS] += passed
                    activity[row, 1] += passed * speed * occupancy[tenant] * host[tenant, 3]
                    activity[row, 2] += passed * speed * tensor[tenant] * host[tenant, 3]
                    activity[row, 3] += passed * speed * dram[tenant] * host[tenant, 4]
            if any_rate:
                activity[row, 0] += passed
        now = soon
        if now >= row_end:
            row = min(row + 1, activity.shape[0] - 1)
            row_end += period
        if shares_host and hosting > 0:
            part, still = passed / hosting, 0
            for tenant in range(tenants):
                if floats[tenant, WORK_NS] < floats[tenant, TOTAL_NS]:
                    floats[tenant, WORK_NS] += part
                    if floats[tenant, WORK_NS] >= floats[tenant, TOTAL_NS] - _ALMOST_NS:
                        floats[tenant, WORK_NS] = floats[tenant, TOTAL_NS]
                    else:
                        still += 1
                    if ints[tenant, STATE] == LAUNCHING and ints[tenant, DRAINED] == 0:
                        k = spans[tenant, 0] + ints[tenant, KERNEL]
                        if (
                            floats[tenant, WORK_NS]
                            >= (host[tenant, 0] + kernels[k, 5]) * floats[tenant, STRETCH] - 2 * _ALMOST_NS
                        ):
                            floats[tenant, NEXT_NS] = now
            hosting = still
        if now >= deadline:
            device[NOW_NS] = now
            order[tenants] = count
            return written, DEADLINE
        if sliced and count > 0:
            changed = (
                changed or device[SLICE_END_NS] <= now + _ALMOST_NS or abs(device[SWITCH_END_NS] - now) <= _ALMOST_NS
            )

        # 4. Handle events
        for tenant in range(tenants):
            state = ints[tenant, STATE]
            if state == RESIDENT:
                if floats[tenant, LEFT_NS] > _ALMOST_NS:
                    continue
                # A kernel is done
                device[COMPLETIONS] += 1
                here = ints[tenant, KERNEL]
                k = spans[tenant, 0] + here
                last = k + 1 == spans[tenant, 1]
                if here == int(host[tenant, 2]):
                    floats[tenant, FIRST_NS] = now
                if last or slots[k + 1] != slots[k]:
                    slot_ends[tenant, slots[k]] = now
                changed = True
                ready = now
                if not last:
                    if kernels[k, 8] > 0.0 and domains[tenant, 2] == 0:
                        # The host continues when the copy is done.
                        floats[tenant, HOST_NS] = max(
                            floats[tenant, HOST_NS], now - kernels[k, 5] * floats[tenant, STRETCH]
                        )
                    if domains[tenant, 2] == 0:
                        ready = floats[tenant, HOST_NS] + kernels[k + 1, 5] * floats[tenant, STRETCH]
                    elif (
                        floats[tenant, WORK_NS]
                        < (host[tenant, 0] + kernels[k + 1, 5]) * floats[tenant, STRETCH] - 2 * _ALMOST_NS
                    ):
                        ready = _NEVER
                delay = 0.0
                if not last and count > 1 and not sliced:
                    delay = drain_ns(
                        tenant, kernels[k + 1, 7], count, order, holds, block, rate, sm_domain, priority, waits,
                        waits_first,
                    )  # fmt: skip
                if not last and ready <= now + _ALMOST_NS and delay <= _ALMOST_NS:
                    # The next kernel is already queued: it starts at once, behind the others.
                    ints[tenant, KERNEL] = here + 1
                    floats[tenant, LEFT_NS] += kernels[k + 1, 0]
                    occupancy[tenant], dram[tenant], tensor[tenant] = (
                        kernels[k + 1, 1],
                        kernels[k + 1, 2],
                        kernels[k + 1, 3],
                    )
                    block[tenant], holds[tenant], weight[tenant] = (
                        kernels[k + 1, 6],
                        kernels[k + 1, 7],
                        kernels[k + 1, 9],
                    )
                    if count > 1 and not sliced:
                        place = 0
                        while order[place] != tenant:
                            place += 1
                        while place + 1 < count and domains[order[place + 1], 3] >= domains[tenant, 3]:
                            order[place] = order[place + 1]
                            place += 1
                        order[place] = tenant
                    elif not sliced:
                        changed = False  # alone: still at full speed
                    continue
                place = 0
                while order[place] != tenant:
                    place += 1
                for later in range(place, count - 1):
                    order[later] = order[later + 1]
                count -= 1
                rate[tenant] = 0.0
                if last:
                    ints[tenant, STATE] = CLOSING
                    floats[tenant, NEXT_NS] = now + host[tenant, 1] * floats[tenant, STRETCH]
                    if host[tenant, 1] > 0:
                        continue
                    state = CLOSING
                else:
                    ints[tenant, KERNEL] = here + 1
                    ints[tenant, STATE] = LAUNCHING
                    floats[tenant, NEXT_NS] = ready
                    if ready <= now + _ALMOST_NS:  # queued; waits for thread blocks of other tenants to end
                        ints[tenant, DRAINED] = 1
                        floats[tenant, NEXT_NS] = now + delay
                    continue
            if floats[tenant, NEXT_NS] > now + _ALMOST_NS:
                continue
            if state == CLOSING:
                # A request is done
                number = ints[tenant, NUMBER]
                slot_ends[tenant, slots[spans[tenant, 1] - 1] + 1] = now
                out_ints[written, 0] = tenant
                out_ints[written, 1] = number
                out_floats[written, 0] = floats[tenant, INTENDED_NS]
                out_floats[written, 1] = floats[tenant, STARTED_NS]
                out_floats[written, 2] = floats[tenant, FIRST_NS]
                out_floats[written, 3] = now
                out_floats[written, 4] = floats[tenant, DEVICE_NS]
                for slot in range(slot_ends.shape[1]):
                    out_floats[written, 5 + slot] = slot_ends[tenant, slot]
                written += 1
                number += 1
                ints[tenant, NUMBER] = number
                if outstanding[tenant] > 0:
                    ring[tenant, (number - 1) % outstanding[tenant]] = now
                    due = ring[tenant, number % outstanding[tenant]] if number >= outstanding[tenant] else 0.0
                else:
                    at_arrival = arrival_spans[tenant, 0] + number
                    due = arrivals[at_arrival] if at_arrival < arrival_spans[tenant, 1] else _NEVER
                floats[tenant, INTENDED_NS] = due
                if due >= window_end and ints[tenant, FINISHED] == 0:
                    ints[tenant, FINISHED] = 1
                    unfinished -= 1
                ints[tenant, STATE] = IDLE
                floats[tenant, NEXT_NS] = max(due, now)
                state = IDLE
                if due > now + _ALMOST_NS:
                    continue
            if state == IDLE:
                # A request begins
                number = ints[tenant, NUMBER]
                # Uniform with the given spread: host times vary by request and never stay in step.
                stretch = 1.0 + spread * 3.4641016 * (uniform(seed, first_index + tenant, number) - 0.5)
                floats[tenant, STRETCH] = stretch
                floats[tenant, STARTED_NS] = now
                floats[tenant, FIRST_NS] = -1.0
                floats[tenant, DEVICE_NS] = 0.0
                floats[tenant, HOST_NS] = now + host[tenant, 0] * stretch
                slot_ends[tenant, 0] = floats[tenant, HOST_NS]
                ints[tenant, KERNEL] = 0
                ints[tenant, STATE] = LAUNCHING
                first = spans[tenant, 0]
                if domains[tenant, 2] == 0:
                    floats[tenant, NEXT_NS] = floats[tenant, HOST_NS] + kernels[first, 5] * stretch
                else:
                    floats[tenant, WORK_NS] = 0.0
                    floats[tenant, TOTAL_NS] = (host[tenant, 0] + kernels[spans[tenant, 1] - 1, 5]) * stretch
                    floats[tenant, NEXT_NS] = now if floats[tenant, TOTAL_NS] <= 0 else _NEVER
                    hosting += 1 if floats[tenant, TOTAL_NS] > 0 else 0
                state = LAUNCHING
                if floats[tenant, NEXT_NS] > now + _ALMOST_NS:
                    continue
            # LAUNCHING: the kernel reaches the device, behind those of at least its priority
            k = spans[tenant, 0] + ints[tenant, KERNEL]
            if ints[tenant, DRAINED] == 0 and count > 0 and not sliced:
                delay = drain_ns(
                    tenant, kernels[k, 7], count, order, holds, block, rate, sm_domain, priority, waits, waits_first
                )
                if delay > _ALMOST_NS:
                    ints[tenant, DRAINED] = 1
                    floats[tenant, NEXT_NS] = now + delay
                    continue
            ints[tenant, DRAINED] = 0
            ints[tenant, STATE] = RESIDENT
            floats[tenant, LEFT_NS] = kernels[k, 0]
            occupancy[tenant], dram[tenant], tensor[tenant] = kernels[k, 1], kernels[k, 2], kernels[k, 3]
            block[tenant], holds[tenant], weight[tenant] = kernels[k, 6], kernels[k, 7], kernels[k, 9]
            place = count
            while place > 0 and domains[order[place - 1], 3] < domains[tenant, 3]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = tenant
            count += 1
            if sliced and count == 2 and tenant != int(device[ACTIVE]):
                # A tenant that was alone had no turn to end: it gets a full one from now before the new one's turn.
                device[SLICE_END_NS] = now + slice_ns
            changed = True
        if unfinished == 0 or written + tenants > room:
            device[NOW_NS] = now
            order[tenants] = count
            return written, ALL_DONE if unfinished == 0 else EMPTY_BUFFER
