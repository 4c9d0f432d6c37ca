"""Figures of a run as Vega-Lite specifications: records are reduced first, then pure functions build the specs."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.reporting.figures.every import export_figures, figures
    from cotenant.reporting.figures.figure import Figure
    from cotenant.reporting.figures.material import gather
else:
    __getattr__, __dir__ = front(__name__, __file__)
