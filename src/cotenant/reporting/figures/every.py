"""Every figure of a report, in reading order."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cotenant.reporting.figures.figure import Absent, Figure
from cotenant.reporting.figures.latency import latency_figure
from cotenant.reporting.figures.load_curves import load_figure
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.names import Condition
from cotenant.reporting.figures.roofline import roofline_figure
from cotenant.reporting.figures.sensors import sensors_figure
from cotenant.reporting.figures.slowdown import slowdown_figure
from cotenant.reporting.figures.stages import stages_figure
from cotenant.reporting.figures.sweeps import sweep_figure
from cotenant.reporting.figures.work import fairness_figure, stp_figure, throughput_figure

if TYPE_CHECKING:
    from cotenant.reporting.html.variability_material import FleetMaterial

MOST_LINES_TOGETHER = 60

Drawn = Sequence[Figure | Absent]


def figures(material: Material) -> dict[str, Drawn]:
    """Figures by kind, for every condition and run; a missing kind is reported once."""
    by_condition: dict[str, Callable[[Material, Condition], Figure | Absent]] = {
        "slowdown": slowdown_figure,
        "latency": latency_figure,
        "stages": stages_figure,
    }
    conditions = material.names.conditions or [Condition("", "", "")]
    found = {
        kind: _drawable([draw(material, condition) for condition in conditions]) for kind, draw in by_condition.items()
    }
    together: dict[str, Callable[[Material, Sequence[Condition]], Figure | Absent]] = {
        "throughput": throughput_figure,
        "stp": stp_figure,
        "fairness": fairness_figure,
    }
    # A few lines are easier to compare in one figure.
    few = len(material.summary.tenants) <= MOST_LINES_TOGETHER
    groups = [conditions] if few else [[condition] for condition in conditions]
    found |= {kind: _drawable([draw(material, group) for group in groups]) for kind, draw in together.items()}
    found["sweeps"] = [sweep_figure(material)]
    found["load"] = [load_figure(material)]
    found["roofline"] = _drawable([roofline_figure(material, run) for run in material.runs])
    found["sensors"] = _drawable([sensors_figure(material, run) for run in material.runs])
    order = ("sweeps", "slowdown", "latency", "throughput", "stp", "fairness", "load", "stages", "roofline", "sensors")
    fleet = every_fleet_figure(material.fleet) if material.fleet is not None else []
    return {kind: found[kind] for kind in order} | ({"variability": fleet} if fleet else {})


def every_fleet_figure(fleet: "FleetMaterial") -> list[Figure | Absent]:
    """Figures about the members of a group, by kind; missing ones are left out, since others say more."""
    from cotenant.reporting.figures.clocks import clock_figures, timeline_figures  # most runs have a single device
    from cotenant.reporting.figures.variability import fleet_figures

    drawn = [one for many in fleet_figures(fleet).values() for one in many if isinstance(one, Figure)]
    return [*drawn, *clock_figures(fleet.curves), *timeline_figures(fleet.timelines)]


def _drawable(drawn: Drawn) -> Drawn:
    """The figures that could be drawn, else one reason; names numbered if there are several."""
    real = [figure for figure in drawn if isinstance(figure, Figure)]
    if not real:
        return drawn[:1]
    if len(real) == 1:
        return real
    return [replace(figure, name=f"{figure.name}-{number}") for number, figure in enumerate(real, 1)]
