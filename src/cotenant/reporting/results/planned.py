"""A plan for tenants: the answer, cost and devices, each device's tenants against their limits, the reasons."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cotenant.planning.assignment import JobPlan, Placed
from cotenant.planning.mixes import KeptObjective, PlanMove, PlannedDevice, SeatedTenant, ServingPlan
from cotenant.reporting.elements import (
    SIMULATED,
    Bullet,
    DataTable,
    Element,
    Remark,
    Section,
    Sentence,
    Sentences,
    TableCell,
)
from cotenant.reporting.elements import html as page
from cotenant.reporting.results.varied import short_names
from cotenant.tenancy.interval import Interval
from cotenant.text import amount, duration, figure, percent, size, together, with_interval

FEW = 3
WORDS = frozenset({"tenant", "software", "share", "objective"})
"""Columns of words; all others are numbers."""
_UNIT = {"cost": "$/h", "energy": "W", "latency": "of the limits"}
PREDICTED = "A model predicted these numbers; no such device was measured."
LEGEND = (
    "Predicted: the estimate and its interval; a plan uses only mixes whose upper end meets every objective. Holds to: "
    "the tenant's rate may grow by this factor before any tenant on the device misses."
)


def plan_elements(plan: ServingPlan, *, everything: bool = True) -> list[Element]:
    """The answer, the devices, the reasons; one screen has the first devices and alternatives."""
    first: list[Element] = [Sentence(answer_of(plan), "good" if plan.keeps_all else "bad")]
    first += no_room_for(plan)
    if everything and plan.devices:
        first.append(devices_table(plan))
    shown = plan.devices if everything else plan.devices[:FEW]
    devices: list[Element] = []
    for device in shown:
        seats: tuple[Element, ...] = (Sentence(described(device) + run_by(device)), seat_table(device, software=False))
        devices.append(Section(device.name, f"device-{len(devices)}", seats))
    if len(shown) < len(plan.devices):
        devices.append(Sentence(f"and {amount(len(plan.devices) - len(shown), 'more device')} with --all"))
    devices += [Remark(LEGEND)] if everything and plan.devices else []
    reasons: list[Element] = [Sentences(tuple(reasons_of(plan, everything=everything)))]
    if plan.measure is not None and plan.measure.command:
        reasons.append(Sentence(plan.measure.command, command=True))
    return [
        Section("The plan", "plan", tuple(first)),
        *([Section("Tenants by device", "devices", tuple(devices))] if devices else []),
        Section("Why this plan", "why", tuple(reasons)),
    ]


def plan_page(plan: ServingPlan, *, source: str) -> str:
    """The complete page.

    Args:
        plan: The plan.
        source: The tenants file it is for.
    """
    simulated = PREDICTED if any(device.simulated for device in plan.devices) else ""
    return page.page(plan_elements(plan), title=f"Plan for {source}", brand="cotenant plan", simulated=simulated)


def devices_table(plan: ServingPlan) -> DataTable:
    """Each device, its price and its use: bars are shares of what the device has."""
    priced = any(device.price_per_h for device in plan.devices)
    columns = (
        "device",
        "tenants",
        "shared by",
        *(("$/h",) if priced else ()),
        "compute",
        "bandwidth",
        "memory",
        "power",
    )
    rows = tuple(
        (
            device.name,
            together([tenant.tenant for tenant in device.tenants]),
            shared_by(device) + (f" at {device.clock_mhz:.0f} MHz" if device.clock_mhz else ""),
            *((f"{device.price_per_h:.2f}",) if priced else ()),
            TableCell(percent(device.busy), part=min(device.busy, 1.0)),
            TableCell(percent(device.bandwidth), part=min(device.bandwidth, 1.0)),
            TableCell(
                f"{size(device.used_bytes)} of {size(device.memory_bytes)}",
                part=min(device.used_bytes / device.memory_bytes, 1.0) if device.memory_bytes else None,
            ),
            f"{figure(device.power_w)} W" if device.power_w else "",
        )
        for device in plan.devices
    )
    return DataTable(columns, rows, numbers=frozenset({"$/h", "power"}))


def no_room_for(plan: ServingPlan) -> list[Element]:
    """The tenants that are not placed, why, and the change that would admit each; empty if all are placed."""
    if not plan.left_out:
        return []
    hint = "" if any(refusal.change for refusal in plan.refusals) else ": add devices or relax their objectives"
    found: list[Element] = [Sentence(f"no room for {', '.join(plan.left_out)}{hint}", "open")]
    for refusal in plan.refusals:
        fits = f"; it fits {refusal.change}:" if refusal.change else ""
        found.append(Sentence(f"{refusal.tenant} {refusal.reason}{fits}"))
        if refusal.command:
            found.append(Sentence(refusal.command, command=True))
        if refusal.measure is not None:
            found += [Sentence(refusal.measure.sentence), Sentence(refusal.measure.command, command=True)]
    return found


def answer_of(plan: ServingPlan) -> str:
    """The number of devices, their cost, and whether they suffice."""
    kinds: dict[str, int] = {}
    for device in plan.devices:
        kinds[device.kind] = kinds.get(device.kind, 0) + device.devices
    what = " + ".join(f"{count} x {kind}" for kind, count in kinds.items()) or "no device"
    cost = f", ${plan.cost_per_h:.2f}/h (${plan.cost_per_month:,.0f} a month)" if plan.cost_per_h else ""
    keeps = "keeps every objective" if plan.keeps_all else "does NOT meet every objective"
    if plan.left_out and plan.devices:
        placed = {tenant.tenant for device in plan.devices for tenant in device.tenants} - {*plan.left_out}
        keeps = f"has room for {len(placed)} of {amount(len(placed) + len(plan.left_out), 'tenant')}"
    label = " SIMULATED" if any(device.simulated for device in plan.devices) else ""
    return f"{what}{cost}: {keeps} at the upper end of what is predicted (risk {percent(plan.risk)}).{label}"


def run_by(device: PlannedDevice) -> str:
    """`; embed + rerank in onnxruntime`: the tenants of each software but `eager`. A column would exceed 80."""
    tenants: dict[str, dict[str, None]] = {}
    for tenant in device.tenants:
        if tenant.software != "eager":
            tenants.setdefault(tenant.software, {})[tenant.tenant] = None
    return "".join(f"; {together(list(names))} in {software}" for software, names in tenants.items())


def seat_table(device: PlannedDevice, *, software: bool = True) -> DataTable:
    """Columns that have a value, and one row per tenant and objective; copies that run alike are one."""
    columns = ("tenant", "at once", "software", "share", "objective", "predicted ms", "limit", "left", "holds to")
    copies: dict[tuple[str | int | float | None, ...], list[SeatedTenant]] = {}
    for tenant in device.tenants:
        copies.setdefault((tenant.tenant, tenant.at_once, tenant.software, tenant.share), []).append(tenant)
    rows = [
        ("" if number else seated(group), *line)
        for group in copies.values()
        for number, line in enumerate(_seat(group))
    ]
    used = [
        number
        for number, column in enumerate(columns)
        if any(row[number] for row in rows) and (software or column != "software")
    ]
    return DataTable(
        tuple(columns[number] for number in used),
        tuple(tuple(row[number] for number in used) for row in rows),
        numbers=frozenset(columns) - WORDS,
    )


def seated(copies: Sequence[SeatedTenant]) -> str:
    """`embed`, `embed-2` for one of several replicas, `embed x3` for three of them."""
    return copies[0].name if len(copies) == 1 else together(copy.tenant for copy in copies)


def _seat(copies: Sequence[SeatedTenant]) -> list[tuple[str | TableCell, ...]]:
    """A line for each objective; the first also has what holds for all. Ranges cover every copy."""
    tenant = copies[0]
    software = "" if tenant.software == "eager" else tenant.software
    growth = min((copy.holds_to for copy in copies if copy.holds_to), default=0.0)
    first = (str(tenant.at_once), software, share_of(tenant))
    last = f"{growth:.3g}x" if growth else ""
    lines = [_figures([copy.kept[number] for copy in copies]) for number in range(len(tenant.kept))]
    if tenant.ends_s is not None and tenant.due_s is not None:
        lines.append(_ends(tenant.ends_s, tenant.due_s))
    return [
        (*(("", "", "") if number else first), *line, "" if number else last)
        for number, line in enumerate(lines or [("", "", "", "")])
    ]


def _figures(kept: Sequence[KeptObjective]) -> tuple[str, str | TableCell, str, str]:
    worst = max(kept, key=lambda objective: objective.time_ms.ends[1])
    bullet = Bullet(replace(worst.time_ms, lo=min(each.time_ms.ends[0] for each in kept)), worst.limit_ms)
    return (
        worst.objective,
        TableCell(with_interval(bullet.time), bullet=bullet),
        figure(worst.limit_ms),
        percent(worst.headroom),
    )


def _ends(ends_s: Interval, due_s: float) -> tuple[str, str | TableCell, str, str]:
    """When a job ends, and has to, in the unit that suits the latter."""
    unit, seconds = next((pair for pair in (("h", 3600.0), ("min", 60.0)) if due_s >= pair[1]), ("s", 1.0))
    return (
        "ends after",
        f"{with_interval(ends_s.scaled(1 / seconds))} {unit}",
        f"{figure(due_s / seconds)} {unit}",
        percent(1 - ends_s.ends[1] / due_s),
    )


def share_of(tenant: SeatedTenant) -> str:
    """`40 %`, `3g.40gb`; empty if unrestricted."""
    return "" if tenant.share is None else tenant.share if isinstance(tenant.share, str) else f"{tenant.share:.0f} %"


def described(device: PlannedDevice) -> str:
    """How it is shared, its use, and the basis."""
    held = f" at {device.clock_mhz:.0f} MHz" if device.clock_mhz else ""
    power = f", {figure(device.power_w)} W" if device.power_w else ""
    each = " each" if device.devices > 1 else ""
    power += f" (at most {figure(device.power_limit_w)} W)" if device.power_limit_w else ""
    return (
        f"{device.name}, {shared_by(device)}{held}: compute {percent(device.busy)}, "
        f"bandwidth {percent(device.bandwidth)}, "
        f"memory {size(device.used_bytes)} of {size(device.memory_bytes)}{each}{power}; {device.basis}"
    )


def shared_by(device: PlannedDevice) -> str:
    """The way to share, or over how many GPUs its only tenant is spread."""
    if device.devices == 1:
        return device.sharing
    split = any(tenant.rate_rps for tenant in device.tenants)  # a job is not
    return f"split over {device.devices} GPUs (tensor parallelism)" if split else f"{device.devices} GPUs"


def _bound(plan: ServingPlan) -> str:
    if plan.minimised == "devices":
        return amount(math.ceil(plan.bound - 1e-9), "device")
    return f"{figure(plan.bound)} {_UNIT[plan.minimised]}"


def reasons_of(plan: ServingPlan, *, everything: bool) -> list[str]:
    """Bound, binding constraint, next cheaper plan, rejected alternatives, next measurement, price sources."""
    sentences = []
    bound = _bound(plan)
    if plan.gap is None:
        sentences.append(f"no bound is known ({plan.proof})")
    elif plan.gap < 1e-9:
        sentences.append(f"no plan is better: bound {bound} ({plan.proof})")
    else:
        sentences.append(f"at most {percent(plan.gap)} above the best: bound {bound} ({plan.proof})")
    if plan.binding:
        sentences.append(f"binding: {plan.binding}")
    if plan.cheaper:
        sentences.append(f"the next cheaper: {plan.cheaper}")
    others = plan.rejected[1:] if everything else plan.rejected[1:FEW]
    sentences += dict.fromkeys(
        f"rejected: {together(alternative.tenants)} under {alternative.sharing} on {alternative.kind}, "
        f"saving {alternative.saving}: {alternative.reason}"
        for alternative in others
    )
    if plan.measure is not None:
        sentences.append(plan.measure.sentence)
    sentences += doubts_of(plan)
    sentences += [f"price of {device}" for device in plan.prices]
    if not everything and len(plan.rejected) > FEW:
        sentences.append(f"{amount(len(plan.rejected) - FEW, 'more alternative')} with --all")
    return sentences


def doubts_of(plan: ServingPlan) -> list[str]:
    """Predictions that nothing validates, with the tenants they concern."""
    doubts: dict[str, dict[str, None]] = {}
    for device in plan.devices:
        for tenant in device.tenants:
            if tenant.doubt:
                doubts.setdefault(tenant.doubt, {})[tenant.tenant] = None
    return [f"not validated for {together(list(names))}: {doubt}" for doubt, names in doubts.items()]


def moves_elements(moves: Sequence[PlanMove]) -> list[Element]:
    """From one plan to another."""
    if not moves:
        return [Sentence("no moves needed")]
    rows = tuple(
        (move.tenant, move.change, move.old, move.new, size(move.loads_bytes) if move.loads_bytes else "")
        for move in moves
    )
    return [DataTable(("tenant", "", "from", "to", "loads"), rows)]


# --- jobs placed on the GPUs of the database

MOST_GPUS = 8
"""Maximum GPUs named per job; `--json` has all."""


def job_elements(plan: JobPlan) -> list[Element]:
    """One line per job, then its GPUs by name, the power, and the jobs that wait."""
    columns = ("job", "GPUs", "clock MHz", "beside", "time", "stretch", "W", "kJ")
    rows = tuple(
        (
            job.job.name,
            len(job.gpus),
            f"{job.clock_mhz:.0f}",
            job.beside or "",
            duration(job.seconds),
            f"{job.stretch:.3f}",
            figure(job.power_w),
            figure(job.energy_j / 1e3),
        )
        for job in plan.placed
    )
    short = short_names([gpu for job in plan.placed for gpu in job.gpus])
    budget = "" if plan.budget_w is None else f" of a budget of {figure(plan.budget_w)} W"
    names = ", ".join(job.name for job in plan.waiting)
    wait = f"no GPU is left for {names}: they wait, or mark jobs with `beside: true`"
    profiles = f"simulated profiles {SIMULATED}" if plan.simulated else "measured profiles"
    return [
        Sentence(f"plan for {plan.objective}; all figures are predicted from {profiles}", "answer"),
        DataTable(columns, rows),
        Sentences(tuple(_gpus_of(job, short) for job in plan.placed)),
        Sentence(f"all GPUs together draw {figure(plan.power_w)} W{budget}"),
        *([Sentence(wait, "open")] if plan.waiting else ()),
    ]


def _gpus_of(placed: Placed, short: Mapping[str, str]) -> str:
    names = ", ".join(short[gpu] for gpu in placed.gpus[:MOST_GPUS])
    more = len(placed.gpus) - MOST_GPUS
    return f"{placed.job.name}: {names}" + (f" and {more} more" if more > 0 else "")
