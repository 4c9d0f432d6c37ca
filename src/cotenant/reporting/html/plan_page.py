"""A plan as one HTML file without network access or scripts."""

from cotenant import __version__
from cotenant.planning.mixes.plan import PlannedDevice, SeatedTenant, ServingPlan
from cotenant.reporting.html.assets import environment, markup, policy, resource
from cotenant.reporting.terminal.serving_plan import (
    answer_of,
    no_room_for,
    reasons_of,
    seat_table,
    seated,
    share_of,
    shared_by,
)
from cotenant.text import figure, percent, size

WORDS = ("tenant", "software", "share", "objective")
"""Columns of words; all others are numbers."""


def page(plan: ServingPlan, *, source: str) -> str:
    """The complete page.

    Args:
        plan: The plan.
        source: The tenants file it is for.
    """
    template = environment().get_template("plan.html.j2")
    return template.render(
        title=f"Plan for {source}",
        version=__version__,
        policy=policy([]),
        style=markup(resource("templates", "report.css")),
        answer=answer_of(plan),
        kept=plan.keeps_all,
        simulated=any(device.simulated for device in plan.devices),
        no_room=no_room_for(plan),
        reasons=reasons_of(plan, everything=True),
        devices=[
            {
                "name": device.name,
                "title": _title(device),
                "parts": _parts(device),
                "bars": _bars(device),
                "table": seat_table(device),
            }
            for device in plan.devices
        ],
        words=WORDS,
    )


def _title(device: PlannedDevice) -> str:
    held = f" at {device.clock_mhz:.0f} MHz" if device.clock_mhz else ""
    shared = "for one tenant" if len(device.tenants) == 1 else f"shared by {device.sharing}"
    shared = shared if device.devices == 1 else shared_by(device)
    return f"{device.title}{held}, {shared}; {device.basis}"


def _parts(device: PlannedDevice) -> list[tuple[str, str, float]]:
    """Parts of the device: a tenant or its copies, the share of each, and the relative size of all together."""
    copies: dict[tuple[str, str], list[SeatedTenant]] = {}
    for tenant in device.tenants:
        copies.setdefault((tenant.tenant, share_of(tenant)), []).append(tenant)
    return [
        (seated(group), share and (f"{share} each" if len(group) > 1 else share), _weight(group[0].share) * len(group))
        for (_, share), group in copies.items()
    ]


def _weight(share: float | str | None) -> float:
    if isinstance(share, str):  # 3g.40gb has 3 slices
        slices = share.partition("g")[0]
        return float(slices) if slices.isdigit() else 1.0
    return 1.0 if share is None else share


def _bars(device: PlannedDevice) -> list[tuple[str, float, str]]:
    """Expected use: the resource, its fraction (up to 1), and a text."""
    memory = device.used_bytes / device.memory_bytes
    return [
        ("compute", min(device.busy, 1.0), percent(device.busy)),
        ("bandwidth", min(device.bandwidth, 1.0), percent(device.bandwidth)),
        ("memory", min(memory, 1.0), f"{size(device.used_bytes)} of {size(device.memory_bytes)}"),
        *([("power", 0.0, _power(device))] if device.power_w else []),
    ]


def _power(device: PlannedDevice) -> str:
    limit = f" (at most {figure(device.power_limit_w)} W)" if device.power_limit_w else ""
    return f"{figure(device.power_w)} W{limit}"
