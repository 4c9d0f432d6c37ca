"""A plan for serving tenants, for a terminal: the answer, the placements, the reasons."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.promises import JudgedPromise, promise_sentence
from cotenant.planning.mixes.moves import PlanMove
from cotenant.planning.mixes.plan import KeptObjective, PlannedDevice, SeatedTenant, ServingPlan
from cotenant.reporting.elements.terminal import sentence_list
from cotenant.reporting.terminal.grouped import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.text import NOTHING, amount, duration, figure, in_time, percent, size, together

if TYPE_CHECKING:
    from cotenant.serving.dry_run import SimulatedContracts


FEW = 3
_UNIT = {"cost": "$/h", "energy": "W", "latency": "of the limits"}


def serving_plan_parts(plan: ServingPlan, *, everything: bool) -> tuple[RenderableType, ...]:
    """One screen: the answer, the devices, the reasons; ``everything`` adds all devices and alternatives."""
    parts: list[RenderableType] = [Text(literal(answer_of(plan)), "bold")]
    shown = plan.devices if everything else plan.devices[:FEW]
    for device in shown:
        parts += [Text(literal(described(device) + run_by(device))), listing(*seat_table(device, software=False))]
    if len(shown) < len(plan.devices):
        parts.append(Text(f"and {amount(len(plan.devices) - len(shown), 'more device')} with --all"))
    reasons = reasons_of(plan, everything=everything)
    if reasons:
        parts.append(sentence_list(reasons))
    if no_room := no_room_for(plan):
        parts.append(Text(literal(no_room), "yellow"))
    return tuple(parts)


def no_room_for(plan: ServingPlan) -> str:
    """The tenants that are not placed; empty if all are."""
    names = ", ".join(plan.left_out)
    return f"no room for {names}: add devices or relax their objectives" if names else ""


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


def seat_table(device: PlannedDevice, *, software: bool = True) -> tuple[list[str], list[list[str]]]:
    """Columns that have a value, and one row per tenant and objective; copies with the same figures share theirs."""
    columns = ("tenant", "at once", "software", "share", "objective", "predicted ms", "limit", "left", "holds to")
    copies: dict[tuple[str, tuple[tuple[str, ...], ...]], list[SeatedTenant]] = {}
    for tenant in device.tenants:
        copies.setdefault((tenant.tenant, _seat(tenant)), []).append(tenant)
    rows = [
        ("" if number else seated(group), *line)
        for (_, lines), group in copies.items()
        for number, line in enumerate(lines)
    ]
    used = [
        number
        for number, column in enumerate(columns)
        if any(row[number] for row in rows) and (software or column != "software")
    ]
    return [columns[number] for number in used], [[row[number] for number in used] for row in rows]


def seated(copies: Sequence[SeatedTenant]) -> str:
    """`embed`, `embed-2` for one of several replicas, `embed x3` for three of them."""
    return copies[0].name if len(copies) == 1 else together(copy.tenant for copy in copies)


def _seat(tenant: SeatedTenant) -> tuple[tuple[str, ...], ...]:
    """A line for each objective; the first also has what holds for all."""
    software = "" if tenant.software == "eager" else tenant.software
    growth = f"{tenant.holds_to:.3g}x" if tenant.holds_to else ""
    first, *others = tenant.kept or (None,)
    return (
        (str(tenant.at_once), software, share_of(tenant), *_figures(first), growth),
        *(("", "", "", *_figures(kept), "") for kept in others),
    )


def _figures(kept: KeptObjective | None) -> tuple[str, str, str, str]:
    if kept is None:
        return "", "", "", ""
    ends = f"{figure(kept.estimate_ms)} [{figure(kept.lower_ms)}, {figure(kept.upper_ms)}]"
    return kept.objective, ends, figure(kept.limit_ms), percent(kept.headroom)


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
        mix = together(plan.measure.tenants)
        way = "alone" if plan.measure.sharing == "alone" else f"under {plan.measure.sharing}"
        sentences.append(f"measure next: {mix} {way} on {plan.measure.kind}: {plan.measure.would}")
        if plan.measure.command:
            sentences.append(f"that is: {plan.measure.command}")
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


def moves_table(moves: Sequence[PlanMove]) -> RenderableType:
    """From one plan to another."""
    if not moves:
        return Text("no moves needed")
    rows = [
        (move.tenant, move.change, move.old, move.new, size(move.loads_bytes) if move.loads_bytes else "")
        for move in moves
    ]
    return listing(("tenant", "", "from", "to", "loads"), rows)


class AttainedTenant(Protocol):
    """A tenant's result in a check."""

    @property
    def tenant(self) -> str: ...  # noqa: D102
    @property
    def objective_ms(self) -> float: ...  # noqa: D102
    @property
    def wanted(self) -> float: ...  # noqa: D102
    @property
    def attained(self) -> float: ...  # noqa: D102
    @property
    def lo(self) -> float: ...  # noqa: D102
    @property
    def hi(self) -> float: ...  # noqa: D102
    @property
    def shed(self) -> float: ...  # noqa: D102
    @property
    def p99_ms(self) -> float: ...  # noqa: D102
    @property
    def verdict(self) -> str: ...  # noqa: D102


def check_parts(tenants: Sequence[AttainedTenant], basis: str) -> tuple[RenderableType, ...]:
    """Whether the plan holds, then tenant by tenant."""
    verdicts = [tenant.verdict for tenant in tenants]
    kept = verdicts.count("kept")
    answer = f"{kept} of {amount(len(tenants), 'objective')} kept under simulated arrivals"
    for word in ("missed", "can't tell"):
        names = ", ".join(tenant.tenant for tenant in tenants if tenant.verdict == word)
        answer += f"; {word}: {names}" if names else ""
    columns = ("tenant", "limit ms", "wanted", "in time %", "shed", "p99 ms", "verdict")  # within 80 columns
    rows = [
        (
            tenant.tenant,
            figure(tenant.objective_ms),
            f"{tenant.wanted * 100:.4g}",
            f"{tenant.attained * 100:.1f} [{tenant.lo * 100:.1f}, {tenant.hi * 100:.1f}]",
            f"{tenant.shed * 100:.2g}",
            figure(tenant.p99_ms),
            tenant.verdict,
        )
        for tenant in tenants
    ]
    return Text(literal(answer), "bold"), listing(columns, rows), Text(literal(basis))


# --- promises: those of a dry run of `serve`, and those that were judged by what came


def judged_parts(rows: Sequence[JudgedPromise], *, simulated: bool = False) -> tuple[RenderableType, ...]:
    """How many objectives were kept, then each of them, and how far it was from the plan's range."""
    if not rows:
        return ()
    planned = any(row.upper_ms is not None for row in rows)
    table = listing(
        ("tenant", "limit ms", "in time", "verdict", *(("plan ms",) if planned else ()), "measured ms"),
        [
            (
                row.tenant,
                f"{row.objective} {figure(row.limit_ms)}",
                NOTHING if row.share is None else f"{in_time(row.share)} of {row.requests:,}",
                row.verdict,
                *((_range(row),) if planned else ()),
                _measured(row),
            )
            for row in rows
        ],
    )
    lines = [*undecided_lines(rows), *(["the run is simulated"] if simulated else [])]
    return Text(literal(promise_sentence(rows)), "bold"), table, Text("\n".join(map(literal, lines)))


def undecided_lines(rows: Sequence[JudgedPromise]) -> list[str]:
    """What would decide each objective without a verdict."""
    lines = []
    for row in rows:
        if row.verdict != "can't tell":
            continue
        what = f"{row.tenant} {row.objective}"
        if row.reason is not None:
            lines.append(f"{what}: {row.reason}")
        elif row.more is None:
            lines.append(f"{what}: the share in time is too close to {in_time(row.quantile)} to decide")
        else:
            usual = " if as many are in time as so far" if row.requests else ", all of them in time"
            lines.append(f"{what}: {row.more:,} more requests decide{usual}")
    return lines


def _range(row: JudgedPromise) -> str:
    if row.lower_ms is None or row.upper_ms is None:
        return NOTHING
    return f"{figure(row.lower_ms)}-{figure(row.upper_ms)}"


def _measured(row: JudgedPromise) -> str:
    """`40.0 (+29 %)`: above the plan's range; with `?` if the measured interval overlaps it."""
    if row.measured_ms is None:
        return "too few"
    value = figure(row.measured_ms)
    if not row.outside:
        return value
    doubt = "" if row.clearly_outside else "?"
    return f"{value} ({'+' if row.outside > 0 else '-'}{percent(abs(row.outside))}{doubt})"


def promise_parts(promise: "SimulatedContracts") -> tuple[Text, Table]:
    """The answer, then each tenant."""
    broken = [tenant.tenant for tenant in promise.tenants if not tenant.kept]
    answer = "Every objective will be met." if not broken else f"Missed: {', '.join(broken)}."
    basis = "measured here" if promise.basis == "measured" else promise.basis
    sentence = Text(f"{answer} Simulated for {duration(promise.seconds)} on {promise.device}, 5 seeds; costs {basis}.")
    table = Table(box=None, pad_edge=False)
    for name in ("tenant", "objective", "demand", "in time", "worst seed", ""):
        table.add_column(name, justify="left" if name in ("tenant", "") else "right")
    for tenant in promise.tenants:
        table.add_row(
            tenant.tenant,
            duration(tenant.objective_ms / 1e3),
            percent(tenant.asked_share),
            percent(tenant.attainment),
            percent(tenant.worst),
            "kept" if tenant.kept else f"below {percent(tenant.quantile)}",
        )
    return sentence, table
