"""A plan as one HTML file without network access or scripts."""

from cotenant import __version__
from cotenant.planning.mixes.plan import PlannedDevice, ServingPlan
from cotenant.reporting.html.assets import environment, markup, policy, resource
from cotenant.reporting.terminal.serving_plan import answer_of, described, reasons_of, seat_rows
from cotenant.text import figure, percent, size

WIDTH = 600.0
"""Width of a device's picture, in its own units."""


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
        reasons=reasons_of(plan, everything=True),
        devices=[
            {
                "name": device.name,
                "title": device.title,
                "described": described(device),
                "parts": _parts(device),
                "bars": _bars(device),
                "rows": seat_rows(device),
            }
            for device in plan.devices
        ],
        width=WIDTH,
    )


def _parts(device: PlannedDevice) -> list[dict[str, object]]:
    """Each tenant's part of the device, from left to right: by share or instance, else equal."""
    weights = [_weight(tenant.share) for tenant in device.tenants]
    total = max(sum(weights), 1.0)
    parts: list[dict[str, object]] = []
    left = 0.0
    for tenant, weight in zip(device.tenants, weights, strict=True):
        width = weight / total * WIDTH
        label = tenant.share if isinstance(tenant.share, str) else f"{tenant.share:.0f} %" if tenant.share else ""
        parts.append({"name": tenant.name, "label": label, "left": left, "width": width, "middle": left + width / 2})
        left += width
    return parts


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
        *([("power", 0.0, f"{figure(device.power_w)} W")] if device.power_w else []),
    ]
