"""Event simulation of tenants' requests on a device: compiled, deterministic, in bounded memory.

A tenant serves one request at a time. Its host launches kernels ahead of the device, in order; a kernel starts when it
has been launched, its predecessor is done, and thread blocks of other tenants have freed SMs. Kernels on the device
progress at the rates of `contention`, or in turns if the device is time-sliced. State is a row per tenant; requests
leave through a buffer that the caller drains, so memory doesn't grow with the length of a run.
"""

import numpy as np

from cotenant.extras import compiled
from cotenant.prediction.contention.rates import drain_ns, fill_rates
from cotenant.prediction.contention.state import (
    ACTIVE,
    ALMOST_NS,
    BLOCK,
    CLOSING,
    COMPLETIONS,
    DEVICE_NS,
    DRAINED,
    DRAM,
    FINISHED,
    FIRST_NS,
    FRESH,
    HOLDS,
    HOST_NS,
    IDLE,
    INTENDED_NS,
    KERNEL,
    KNOWN_NS,
    LAUNCHING,
    LEFT_NS,
    NEVER_NS,
    NEXT_NS,
    NOW_NS,
    NUMBER,
    OCCUPANCY,
    RESIDENT,
    SINCE_NS,
    SLICE_END_NS,
    SPEED,
    STARTED_NS,
    STATE,
    STRETCH,
    SWITCH_END_NS,
    TENSOR,
    TOTAL_NS,
    WEIGHT,
    WORK_NS,
    run_alone,
    settle,
    uniform,
)  # fmt: skip
from cotenant.prediction.kernels.columns import Floats, Ints

ACTIVITIES = ("busy", "sm", "tensor", "dram")
"""Columns of activity, each a mean over the period."""

EMPTY_BUFFER, ALL_DONE, DEADLINE = 0, 1, 2
"""Why `advance` returned: buffer full; all tenants done; deadline reached."""

_WORTH = 4
"""Durations of a kernel for which a tenant must have the device to itself to be followed without looking at others."""


@compiled()
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
        kernels: A row per kernel of all tenants: duration, occupancy, dram, tensor, launch, launches so far,
            block, holds, whether the host waits for it, weight.
        slots: Stage of each kernel.
        spans: First and last + 1 kernel of each tenant.
        host: Per tenant: before, after, first-output kernel (-1: none), its SM and DRAM domains' shares of the device.
        outstanding: Per tenant: requests in flight of a closed load; 0: open.
        arrivals: Due times of open loads, tenants concatenated.
        arrival_spans: First and last + 1 of each tenant.
        domains: Per tenant: SM domain, DRAM domain, 1 if it shares one host thread with others, priority.
        options: Time slice (0: kernels run side by side), cost of a switch with and without interruption, relative
            spread of host times, seed, index of the first tenant among all of the trial.
        limits: End of the window, deadline, length of a period of activity.
        ints: State.
        floats: State.
        device: State.
        order: State: resident tenants in order of arrival; the last entry is their number.
        ring: State: completion times of the last requests of closed loads.
        slot_ends: State: end times of the current requests' stages.
        activity: A row per period, columns as `ACTIVITIES`, accumulated in nanoseconds.
        out_ints: Buffer: tenant, number.
        out_floats: Buffer: intended, started, first, done, device, then the ends of stages.
    """
    tenants = spans.shape[0]
    slice_ns, preempt_ns, yield_ns, spread, seed = options[0], options[1], options[2], options[3], int(options[4])
    first_index = int(options[5])
    window_end, deadline, period = limits[0], limits[1], limits[2]
    room = out_ints.shape[0]
    at = np.empty(tenants)  # when a tenant's kernel ends or its host acts, if nothing changes before
    sliced = slice_ns > 0
    written = 0
    now = device[NOW_NS]
    row = min(int((now + ALMOST_NS) / period), activity.shape[0] - 1)
    row_end = (row + 1) * period
    busy_since = now
    count = int(order[tenants])
    unfinished, shares_host, most_held = 0, False, 0.0
    for tenant in range(tenants):
        at[tenant] = floats[tenant, NEXT_NS]
        unfinished += 1 - ints[tenant, FINISHED]
        shares_host = shares_host or domains[tenant, 2] > 0
        largest = 0.0
        for k in range(spans[tenant, 0], spans[tenant, 1]):
            largest = max(largest, kernels[k, 7])
        most_held += largest
    # Where thread blocks of all tenants fit at any time, none waits for another's.
    drains = not sliced and most_held > 1.0
    for rank in range(count):
        tenant = order[rank]
        floats[tenant, SPEED], floats[tenant, SINCE_NS], at[tenant] = 0.0, now, NEVER_NS
    changed, host_changed = True, shares_host
    hosting, host_since, host_end, turn_end = 0, now, NEVER_NS, NEVER_NS
    while True:
        # 1. The next event of a tenant
        tenant, soon = 0, at[0]
        for other in range(1, tenants):
            if at[other] < soon:
                tenant, soon = other, at[other]

        # 2. Speeds of kernels on the device, once all that happens at this time has happened
        if (changed or host_changed) and soon > now + ALMOST_NS:
            if changed:
                changed = False
                varied = sliced
                if not sliced:
                    varied = fill_rates(count, order, floats)
                elif count > 0:
                    active = int(device[ACTIVE])
                    resident = False
                    for rank in range(count):
                        floats[order[rank], FRESH] = 0.0
                        resident = resident or order[rank] == active
                    if not resident or (device[SLICE_END_NS] <= now + ALMOST_NS and count > 1):
                        # Round robin: the next index after the last served.
                        chosen, best = active, 2 * tenants + 1
                        for rank in range(count):
                            distance = (order[rank] - active - 1) % tenants
                            if distance < best:
                                chosen, best = order[rank], distance
                        if chosen != active:
                            device[SWITCH_END_NS] = now + (preempt_ns if resident else yield_ns)
                        active = chosen
                        device[ACTIVE] = active
                        device[SLICE_END_NS] = max(device[SWITCH_END_NS], now) + slice_ns
                    if device[SWITCH_END_NS] <= now + ALMOST_NS:
                        floats[active, FRESH] = 1.0
                if sliced:
                    turn_end = NEVER_NS
                    if count > 0 and device[SWITCH_END_NS] > now + ALMOST_NS:
                        turn_end = device[SWITCH_END_NS]
                    elif count > 1:
                        turn_end = device[SLICE_END_NS]
                runs = False
                for rank in range(count):
                    tenant = order[rank]
                    old, new = floats[tenant, SPEED], floats[tenant, FRESH] if varied else 1.0
                    runs = runs or new > 0.0
                    if old != new:
                        if old > 0.0:
                            passed = now - floats[tenant, SINCE_NS]
                            floats[tenant, LEFT_NS] -= passed * old
                            floats[tenant, DEVICE_NS] += passed
                        left = floats[tenant, LEFT_NS]
                        floats[tenant, SPEED], floats[tenant, SINCE_NS] = new, now
                        at[tenant] = NEVER_NS if new <= 0.0 else now + (left if new == 1.0 else left / new)
                if not runs and busy_since < NEVER_NS:
                    activity[row, 0] += now - busy_since
                    busy_since = NEVER_NS
                elif runs and busy_since == NEVER_NS:
                    busy_since = now
            if host_changed:
                # A single thread launches for all: host work progresses at an even part of its speed.
                host_changed = False
                part, hosting, least = (now - host_since) / max(hosting, 1), 0, NEVER_NS
                for tenant in range(tenants):
                    left = floats[tenant, TOTAL_NS] - floats[tenant, WORK_NS]
                    if left > 0.0:
                        left -= part
                        if left <= ALMOST_NS:
                            left = 0.0
                        else:
                            hosting += 1
                            least = min(least, left)
                        floats[tenant, WORK_NS] = floats[tenant, TOTAL_NS] - left
                host_since, host_end = now, now + least * hosting if hosting > 0 else NEVER_NS
                for tenant in range(tenants):
                    if ints[tenant, STATE] == LAUNCHING and ints[tenant, DRAINED] == 0:
                        k = spans[tenant, 0] + ints[tenant, KERNEL]
                        missing = (host[tenant, 0] + kernels[k, 5]) * floats[tenant, STRETCH] - floats[tenant, WORK_NS]
                        at[tenant] = now + max(missing, 0.0) * hosting
            continue

        # 3. What else may happen before it
        before = min(turn_end, host_end, row_end, deadline)
        if deadline <= soon or before < soon > now + ALMOST_NS:
            now = max(before, now)
            if now >= deadline:
                break
            if now >= row_end:
                for rank in range(count):
                    settle(order[rank], now, row, floats, activity)
                if busy_since < NEVER_NS:
                    activity[row, 0] += now - busy_since
                    busy_since = now
                row = min(row + 1, activity.shape[0] - 1)
                row_end += period
            changed = changed or turn_end <= now + ALMOST_NS
            host_changed = host_changed or host_end <= now
            continue
        now = max(soon, now)
        state = ints[tenant, STATE]

        # 4. A kernel ends
        if state == RESIDENT:
            device[COMPLETIONS] += 1
            here = ints[tenant, KERNEL]
            k = spans[tenant, 0] + here
            last = k + 1 == spans[tenant, 1]
            if here == int(host[tenant, 2]):
                floats[tenant, FIRST_NS] = now
            if last or slots[k + 1] != slots[k]:
                slot_ends[tenant, slots[k]] = now
            changed = True
            kept = 0
            for other in range(count):  # without branches: they would be mispredicted
                order[kept] = order[other]
                kept += order[other] != tenant
            count -= 1
            settle(tenant, now, row, floats, activity)
            floats[tenant, SPEED] = 0.0
            if last:
                state = CLOSING
                at[tenant] = now + host[tenant, 1] * floats[tenant, STRETCH]
            else:
                state = LAUNCHING
                ints[tenant, KERNEL] = here + 1
                if domains[tenant, 2] == 0:
                    if kernels[k, 8] > 0.0:
                        # The host continues when the copy is done.
                        floats[tenant, HOST_NS] = max(
                            floats[tenant, HOST_NS], now - kernels[k, 5] * floats[tenant, STRETCH]
                        )
                    at[tenant] = floats[tenant, HOST_NS] + kernels[k + 1, 5] * floats[tenant, STRETCH]
                else:
                    missing = (host[tenant, 0] + kernels[k + 1, 5]) * floats[tenant, STRETCH] - floats[tenant, WORK_NS]
                    at[tenant] = max(now, host_since + max(missing, 0.0) * hosting)
            ints[tenant, STATE] = state
            if at[tenant] > now + ALMOST_NS:
                continue

        # 5. A request ends
        if state == CLOSING:
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
                due = arrivals[at_arrival] if at_arrival < arrival_spans[tenant, 1] else NEVER_NS
            floats[tenant, INTENDED_NS] = due
            if due >= window_end and ints[tenant, FINISHED] == 0:
                ints[tenant, FINISHED] = 1
                unfinished -= 1
            state = IDLE
            ints[tenant, STATE] = IDLE
            at[tenant] = max(due, now)
            if unfinished == 0 or written == room:
                break
            if due > now + ALMOST_NS:
                continue

        # 6. A request begins
        if state == IDLE:
            # Uniform with the given spread: host times vary by request and never stay in step.
            stretch = 1.0 + spread * 3.4641016 * (uniform(seed, first_index + tenant, ints[tenant, NUMBER]) - 0.5)
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
                at[tenant] = floats[tenant, HOST_NS] + kernels[first, 5] * stretch
            else:
                floats[tenant, TOTAL_NS] = (host[tenant, 0] + kernels[spans[tenant, 1] - 1, 5]) * stretch
                floats[tenant, WORK_NS] = -(now - host_since) / max(hosting, 1)  # others' work up to now isn't its own
                host_changed = floats[tenant, TOTAL_NS] > 0
                at[tenant] = NEVER_NS if host_changed else now
            if at[tenant] > now + ALMOST_NS:
                continue

        # 7. A kernel reaches the device, behind those of at least its priority
        k = spans[tenant, 0] + ints[tenant, KERNEL]
        if drains and count > 0 and ints[tenant, DRAINED] == 0:
            delay = drain_ns(tenant, kernels[k, 7], count, order, floats)
            if delay > ALMOST_NS:  # queued; waits for thread blocks of other tenants to end
                ints[tenant, DRAINED] = 1
                at[tenant] = now + delay
                continue
        ints[tenant, DRAINED] = 0
        if count == 0 and not sliced and domains[tenant, 2] == 0:
            # Until another tenant acts, its kernels run one after another at full speed.
            at[tenant], until = NEVER_NS, min(row_end, host_end)
            for other in range(tenants):
                until = min(until, at[other] - 2 * ALMOST_NS)
            if until > now + _WORTH * kernels[k, 0]:
                before, busy_since = k, min(busy_since, now)
                busy_since, now, k = run_alone(
                    tenant, k, spans[tenant, 1] - 1, now, busy_since, until, deadline, row,
                    kernels, slots, floats, slot_ends, activity, spans[tenant, 0] + int(host[tenant, 2]),
                )  # fmt: skip
                device[COMPLETIONS] += k - before
                ints[tenant, KERNEL] = k - spans[tenant, 0]
                if k > before:
                    changed = True
                    at[tenant] = floats[tenant, HOST_NS] + kernels[k, 5] * floats[tenant, STRETCH]
                    if at[tenant] > now + ALMOST_NS:
                        ints[tenant, STATE] = LAUNCHING
                        continue
        ints[tenant, STATE] = RESIDENT
        floats[tenant, LEFT_NS] = floats[tenant, KNOWN_NS] = kernels[k, 0]
        floats[tenant, OCCUPANCY] = kernels[k, 1]
        floats[tenant, DRAM] = kernels[k, 2]
        floats[tenant, TENSOR] = kernels[k, 3]
        floats[tenant, BLOCK] = kernels[k, 6]
        floats[tenant, HOLDS] = kernels[k, 7]
        floats[tenant, WEIGHT] = kernels[k, 9]
        floats[tenant, SINCE_NS], at[tenant] = now, NEVER_NS
        rank = count
        while rank > 0 and domains[order[rank - 1], 3] < domains[tenant, 3]:
            order[rank] = order[rank - 1]
            rank -= 1
        order[rank] = tenant
        count += 1
        if sliced and count == 2 and tenant != int(device[ACTIVE]):
            # A tenant that was alone had no turn to end: it gets a full one from now before the new one's turn.
            device[SLICE_END_NS] = now + slice_ns
        changed = True

    # 8. Leave the state as of now
    for rank in range(count):
        settle(order[rank], now, row, floats, activity)
    if busy_since < NEVER_NS:
        activity[row, 0] += now - busy_since
    for tenant in range(tenants):
        floats[tenant, NEXT_NS] = at[tenant]
        if floats[tenant, WORK_NS] < floats[tenant, TOTAL_NS]:
            done = floats[tenant, WORK_NS] + (now - host_since) / max(hosting, 1)
            floats[tenant, WORK_NS] = min(done, floats[tenant, TOTAL_NS])
    device[NOW_NS] = now
    order[tenants] = count
    return written, ALL_DONE if unfinished == 0 else DEADLINE if now >= deadline else EMPTY_BUFFER
