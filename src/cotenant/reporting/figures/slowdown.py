"""The heat map: the slowdown of each tenant beside its neighbours."""

import math
from typing import Any

from cotenant.reporting.figures.figure import Absent, Figure, Understanding
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.names import Condition
from cotenant.reporting.figures.style import faceted, tips
from cotenant.reporting.terminal.literal import literal

TITLE = "Slowdown of every tenant in every mix"
UNDERSTANDING = Understanding(
    shows="How many times longer a tenant's requests take beside its neighbours than alone, in the same block of "
    "trials. 1.00 means that the neighbours cost nothing, 2.00 that everything takes twice as long.",
    look="Read a row from left to right to see which way to share slows a tenant least; read the rows of one "
    "tenant downwards to see which neighbour costs it most. Brackets are 95 % intervals.",
    misleads="A low slowdown of one tenant says nothing about its neighbour's: look at the neighbour's row "
    "too. Two tenants that each take twice as long have gained nothing over taking turns.",
)


def slowdown_figure(material: Material, condition: Condition) -> Figure | Absent:
    """One square per tenant, mix and sharing."""
    names = material.names
    rows: list[dict[str, Any]] = [
        {
            "tenant": literal(tenant.tenant),
            "mix": literal(tenant.cell.mix),
            "line": literal(f"{tenant.tenant} in {tenant.cell.mix}"),
            "sharing": literal(tenant.cell.sharing),
            "run": names.run(tenant.cell.run),
            "slowdown": tenant.slowdown.est,
            "lo": tenant.slowdown.lo,
            "hi": tenant.slowdown.hi,
            "blocks": tenant.slowdown.n,
            "log2": None if not tenant.slowdown.est else math.log2(tenant.slowdown.est),
        }
        for tenant in material.summary.tenants
        if not tenant.cell.solo and Condition.of(tenant.cell) == condition
    ]
    if not any(row["slowdown"] is not None for row in rows):
        return Absent("slowdown", TITLE, "no mix has a usable shared trial and a usable solo trial in one block")
    squares = {
        "x": {"field": "sharing", "type": "nominal", "title": None, "axis": {"orient": "top", "labelAngle": 0}},
        "y": {"field": "line", "type": "nominal", "title": None, "sort": None},
    }
    spec = {
        "encoding": squares,
        "layer": [
            {
                "mark": {"type": "rect", "cornerRadius": 3},
                "encoding": {
                    "color": {
                        "field": "log2",
                        "type": "quantitative",
                        "title": "slowdown, powers of two",
                        "scale": {"scheme": "orangered", "domain": [0, 2], "clamp": True},
                    },
                    "tooltip": tips(
                        ("line", "tenant"),
                        ("sharing", "sharing"),
                        ("slowdown", "#slowdown"),
                        ("lo", "#from"),
                        ("hi", "#to"),
                    ),
                },
            },
            {
                "mark": {"type": "text", "fontSize": 12, "color": "#111"},
                "encoding": {"text": {"field": "slowdown", "type": "quantitative", "format": ".2f"}},
            },
        ],
    }
    runs = [row["run"] for row in rows]
    return Figure(
        name="slowdown",
        title=TITLE,
        condition=names.condition(condition),
        spec=faceted("run", list(dict.fromkeys(runs)), spec, {"step": 28}, {"scale": {"y": "independent"}}),
        rows=tuple(rows),
        understanding=UNDERSTANDING,
        margin=200,
    )
