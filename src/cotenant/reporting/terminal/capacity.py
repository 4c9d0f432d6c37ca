"""Capacity for a terminal: rate against attainment, and the knee, for each tenant alone and shared."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from cotenant.analyse.sharing.capacity import Curve
from cotenant.reporting.terminal.grouped import Grouped, Section
from cotenant.reporting.terminal.literal import literal
from cotenant.text import NOTHING, figure, in_time


def capacity_table(curves: Sequence[Curve]) -> tuple[RenderableType, ...]:
    """One line per rate, under a heading per tenant of each mix."""
    if not curves:
        return ()
    sections = []
    for curve in curves:
        where = "alone" if curve.cell.solo else f"in {curve.cell.mix}, {curve.cell.sharing}"
        where += f", {curve.cell.load}" if curve.cell.load else ""
        rows = tuple(
            (
                Text(figure(level.rate_rps)),
                Text(in_time(level.attainment), "" if level.kept else "red"),
                Text(in_time(level.quantile)),
                Text(NOTHING if level.goodput_rps is None else figure(level.goodput_rps)),
                Text("knee" if level is curve.knee and curve.broken else "", "bold"),
            )
            for level in curve.levels
        )
        sections.append(Section(Text(literal(f"{curve.tenant} {where}"), "cyan"), rows))
    return (Grouped(("requests/s asked", "in time", "wanted", "in time, requests/s", ""), sections),)
