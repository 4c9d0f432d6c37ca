"""Work done by sharing: throughput of every tenant, STP and fairness of every mix, with intervals."""

from collections.abc import Sequence
from typing import Any

from cotenant.analyse.sharing import Cell, sharing_said
from cotenant.reporting.figures.figure import Absent, Figure, Row, Spec, Understanding
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.names import ALONE, Condition, Names, mode_of
from cotenant.reporting.figures.style import (
    QUIET,
    colour,
    faceted,
    interval_layers,
    interval_rows_height,
    label,
    marks,
    quantity,
    tips,
    whole,
)
from cotenant.tenancy.interval import Number
from cotenant.text import literal

LABEL_ROOM = 96
"""Width reserved beside a dot for the name of the way to share, in pixels."""
ROOM_FOR_LABELS = 1.45
"""Factor by which the axis extends beyond the data, to fit `LABEL_ROOM` in a column of half a page."""
THROUGHPUT = Understanding(
    shows="Requests per second of every tenant, alone and in every mix, with 95 % intervals over blocks.",
    look="How far a tenant's dots fall to the left of the one alone. Overlapping intervals can't be told apart.",
    misleads="Under an open load, the rate is given: throughput only shows whether the tenant kept up. Requests of "
    "different tenants are different work, so don't add them up: use STP.",
)
STP = Understanding(
    shows="System throughput (STP): the sum of all tenants' progress, each relative to its own speed alone. "
    "1 equals taking turns; with two tenants, 2 would be perfect sharing.",
    look="An interval entirely to the right of 1: sharing gets more done than taking turns. Entirely to the "
    "left: sharing costs. Across 1: undecided by these blocks.",
    misleads="STP ignores who pays. A high value may come from one tenant at full speed beside one that starves: "
    "read it together with fairness and the slowdowns.",
)
FAIRNESS = Understanding(
    shows="How evenly a mix spreads the cost. Fairness is the least progress over the greatest; Jain's index is 1 if "
    "all progress equally and 1 over the number of tenants if one has it all.",
    look="The left-most dots: these mixes favour one tenant. The heat map shows which.",
    misleads="Fair is not good: two tenants at a tenth of their speed are perfectly fair. Noise can only lower "
    "fairness, so 0.97 from a few blocks is not evidence of unfairness.",
)


def throughput_figure(material: Material, conditions: Sequence[Condition]) -> Figure | Absent:
    """One panel per tenant, one dot per mix and sharing."""
    title = "Throughput"
    rows: list[Row] = [
        _placed(material.names, tenant.cell, conditions)
        | {"tenant": literal(tenant.tenant), "of": literal(tenant.of)}
        | _numbers(tenant.throughput_rps)
        for tenant in material.summary.tenants
        if Condition.of(tenant.cell) in conditions and tenant.throughput_rps.est is not None
    ]
    if not rows:
        return Absent("throughput", title, "no tenant has a usable trial")
    runs = list(dict.fromkeys(str(row["run"]) for row in rows))
    tip = tips(("tenant", "tenant"), ("place", "mix"), *_NUMBERS)
    layers = interval_layers(label("place", sort=None), "requests per second", material.ways.channel(), tip, zero=True)
    if material.names.several_runs:
        for layer in layers:
            layer["encoding"] |= {"yOffset": {"field": "run", "sort": runs}}
        layers[1]["encoding"] |= {"shape": label("run", "run", sort=runs)}
    tenants = list(dict.fromkeys(str(row["of"]) for row in rows))
    return Figure(
        name="throughput",
        title=title,
        condition=_only(material.names, conditions),
        spec=faceted(
            "of",
            tenants,
            {"layer": layers},
            interval_rows_height(len(rows)),
            {"scale": {"x": "independent", "y": "independent"}},
        ),
        rows=tuple(rows),
        understanding=THROUGHPUT,
        margin=220 if len(conditions) == 1 else 290,
    )


def stp_figure(material: Material, conditions: Sequence[Condition]) -> Figure | Absent:
    """One dot per mix and sharing, and the line of taking turns."""
    title = "STP: work done against taking turns"
    rows = _mix_rows(material, conditions, ("stp",))
    if not rows:
        return Absent("stp", title, "no mix has a usable shared trial and usable solo trials in one block")
    layers: list[Spec] = [_taking_turns(), *_mix_layers(material, rows, "STP")]
    return Figure(
        name="stp",
        title=title,
        condition=_only(material.names, conditions),
        spec=whole({"layer": layers}, {"step": 22}),
        rows=tuple(rows),
        understanding=STP,
        margin=220,
    )


def fairness_figure(material: Material, conditions: Sequence[Condition]) -> Figure | Absent:
    """Fairness and Jain's index of every mix."""
    title = "Fairness"
    rows = _mix_rows(material, conditions, ("fairness", "jain"))
    if not rows:
        return Absent("fairness", title, "no mix has a usable shared trial and usable solo trials in one block")
    return Figure(
        name="fairness",
        title=title,
        condition=_only(material.names, conditions),
        spec=faceted(
            "metric",
            list(dict.fromkeys(str(row["metric"]) for row in rows)),
            {"layer": _mix_layers(material, rows, "1 is even")},
            {"step": 22},
            {"axis": {"x": "independent"}},
        ),
        rows=tuple(rows),
        understanding=FAIRNESS,
        margin=220,
    )


_NUMBERS = (("est", "#estimate"), ("lo", "#from"), ("hi", "#to"), ("n", "#blocks"))
_METRICS = {"stp": "STP", "fairness": "fairness: least over greatest progress", "jain": "Jain's index"}


def _mix_rows(material: Material, conditions: Sequence[Condition], metrics: tuple[str, ...]) -> list[Row]:
    return [
        _placed(material.names, mix.cell, conditions) | {"metric": _METRICS[metric]} | _numbers(mix.metrics[metric])
        for metric in metrics
        for mix in material.summary.mixes
        if not mix.cell.solo and Condition.of(mix.cell) in conditions and mix.metrics[metric].est is not None
    ]


def _mix_layers(material: Material, rows: list[Row], x_title: str) -> list[Spec]:
    """Ways to share stacked within a mix; several runs stacked within a mix and sharing."""
    group, series, name = ("place", "run", "run") if material.names.several_runs else ("mix", "mode", "label")
    order = sorted({str(row[series]) for row in rows})
    y, tip = label(group), tips(("place", "mix"), ("run", "run"), *_NUMBERS)
    layers = interval_layers(y, x_title, material.ways.channel(), tip, zero=True)
    text = {"y": y, "x": quantity("end", x_title), "text": {"field": name}}
    end = {"calculate": "isValid(datum.hi) ? datum.hi : datum.est", "as": "end"}
    layers.append(marks("text", text, end, align="left", dx=8, fontSize=11, limit=LABEL_ROOM))
    furthest = max(float(end) for row in rows for end in (row["est"], row["hi"]) if end is not None)
    for layer in layers:
        layer["encoding"] |= {"yOffset": {"field": series, "sort": order}}
        layer["encoding"]["x"] |= {"scale": {"domain": [0, furthest * ROOM_FOR_LABELS]}}
    return layers


def _taking_turns() -> Spec:
    at = {"x": {"field": "at", "type": "quantitative"}}
    text = at | {"text": {"field": "label"}}
    return {
        "data": {"values": [{"at": 1.0, "label": "taking turns"}]},
        "layer": [
            marks("rule", at, color=QUIET, strokeDash=[4, 3]),
            marks("text", text, align="left", dx=-4, dy=-3, baseline="bottom", y=0),
        ],
    }


def _only(names: Names, conditions: Sequence[Condition]) -> str:
    return names.condition(conditions[0]) if len(conditions) == 1 else ""


def _placed(names: Names, cell: Cell, conditions: Sequence[Condition]) -> dict[str, Any]:
    """Where a number was measured, with the condition if the figure has several."""
    under = f", {names.condition(Condition.of(cell))}" if len(conditions) > 1 else ""
    return {
        "place": names.place(cell) + under,
        "mix": literal(cell.mix) + under,
        "sharing": literal(cell.sharing),
        "mode": ALONE if cell.solo else mode_of(cell.sharing),
        "label": literal(sharing_said(cell.sharing)),
        "run": names.run(cell.run),
    }


def _numbers(number: Number) -> dict[str, Any]:
    return {"est": number.est, "lo": number.lo, "hi": number.hi, "n": number.n}


# --- time of a request by stage

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
    encoding = {
        "y": label("place", sort=None),
        "x": quantity("mean_ms", "mean time, ms", stack="zero"),
        "color": colour("stage", order, "stage"),
        "tooltip": tips(
            ("tenant", "tenant"),
            ("place", "mix"),
            ("stage", "stage"),
            ("mean_ms", "#mean, ms"),
            ("requests", "#requests"),
        ),
    }
    spec = marks("bar", encoding, cornerRadiusEnd=2)
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
