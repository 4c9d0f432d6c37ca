"""Time of a request by stage."""

from typing import Any

from cotenant.reporting.figures.figure import Absent, Figure, Understanding
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.names import Condition
from cotenant.reporting.figures.style import colour, faceted, tips
from cotenant.reporting.terminal.literal import literal

TITLE = "Time in each stage"
UNDERSTANDING = Understanding(
    shows="Mean time a request spends in each of its stages while it is served, alone and in every mix.",
    look="Which part of the bar grows beside neighbours: that stage competes. A stage of constant length shares "
    "nothing relevant with its neighbours.",
    misleads="Waiting before a request is served is not in the bar; under an open load it can be most of the latency. "
    "On asynchronous devices, stages only add up if the study uses synchronised stages.",
)


def stages_figure(material: Material, condition: Condition) -> Figure | Absent:
    """One panel per tenant, one bar per mix and sharing."""
    rows: list[dict[str, Any]] = [
        {
            "of": literal(stage.of),
            "tenant": literal(stage.tenant),
            "place": f"{run}: {place}" if (run := material.names.run(stage.cell.run)) else place,
            "stage": literal(stage.stage),
            "mean_ms": stage.mean_ms,
            "requests": stage.n,
        }
        for stage in material.stages
        if Condition.of(stage.cell) == condition
        for place in (
            material.names.place(stage.cell)
            + ("" if stage.cell.solo or stage.tenant == stage.of else f" ({literal(stage.tenant)})"),
        )
    ]
    rows = _pooled(rows)
    if not rows:
        return Absent("stages", TITLE, "no workload of these runs has named stages")
    rows.sort(key=lambda row: (row["of"], not row["place"].endswith("alone"), row["place"]))
    order = list(dict.fromkeys(row["stage"] for row in rows))
    spec = {
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {
            "y": {"field": "place", "type": "nominal", "title": None, "sort": None},
            "x": {"field": "mean_ms", "type": "quantitative", "title": "mean time, ms", "stack": "zero"},
            "color": colour("stage", order, "stage"),
            "tooltip": tips(
                ("tenant", "tenant"),
                ("place", "mix"),
                ("stage", "stage"),
                ("mean_ms", "#mean, ms"),
                ("requests", "#requests"),
            ),
        },
    }
    return Figure(
        name="stages",
        title=TITLE,
        condition=material.names.condition(condition),
        spec=faceted(
            "of",
            list(dict.fromkeys(row["of"] for row in rows)),
            spec,
            {"step": 24},
            {"scale": {"x": "independent", "y": "independent"}},
        ),
        rows=tuple(rows),
        understanding=UNDERSTANDING,
        margin=220,
    )


def _pooled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One bar for a tenant on all members of a group: their mean, since stacked bars would add up."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["of"], row["place"], row["stage"]), []).append(row)
    return [_mean(group) for group in groups.values()]


def _mean(rows: list[dict[str, Any]]) -> dict[str, Any]:
    if len(rows) == 1:
        return rows[0]
    requests = sum(row["requests"] for row in rows)
    mean_ms = sum(row["mean_ms"] * row["requests"] for row in rows) / requests if requests else 0.0
    return rows[0] | {"tenant": rows[0]["of"], "mean_ms": mean_ms, "requests": requests}
