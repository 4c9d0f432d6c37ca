"""Capacity for a terminal: rate against attainment, and the knee, for each tenant alone and shared."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.sharing.capacity import Curve, beside_alone
from cotenant.reporting.terminal.grouped import Grouped, Section
from cotenant.reporting.terminal.listing import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.text import NOTHING, figure, percent

MOST_ROWS = 10


def knee_table(curves: Sequence[Curve]) -> Table:
    """The knee of each tenant, alone and in each mix."""
    rows = []
    several = len({curve.cell.sharing for curve in curves if not curve.cell.solo}) > 1
    for curve, alone in beside_alone(curves)[:MOST_ROWS]:
        knee, broken = curve.knee, curve.broken
        before = None if alone is None else alone.knee
        rows.append(
            (
                curve.tenant,
                "alone" if curve.cell.solo else curve.cell.mix + (f", {curve.cell.sharing}" if several else ""),
                NOTHING if knee is None else f"{figure(knee.rate_rps)}/s",
                NOTHING if broken is None else f"{figure(broken.rate_rps)}/s ({percent(broken.attainment)} in time)",
                NOTHING if knee is None or before is None else percent(knee.rate_rps / before.rate_rps),
            )
        )
    return listing(("tenant", "where", "kept up to", "missed at", "of alone"), rows)


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
                Text(f"{level.attainment:.1%}", "" if level.kept else "red"),
                Text(f"{level.quantile:.0%}"),
                Text(NOTHING if level.goodput_rps is None else figure(level.goodput_rps)),
                Text("knee" if level is curve.knee and curve.broken else "", "bold"),
            )
            for level in curve.levels
        )
        sections.append(Section(Text(literal(f"{curve.tenant} {where}"), "cyan"), rows))
    return (Grouped(("requests/s asked", "in time", "wanted", "in time, requests/s", ""), sections),)
