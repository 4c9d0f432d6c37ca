"""One colour per way to share, consistent across a report."""

from collections.abc import Iterable, Sequence

from cotenant.analyse.sharing.cells import Cell
from cotenant.reporting.figures.figure import Spec
from cotenant.reporting.figures.names import ALONE
from cotenant.reporting.figures.style import PALETTE, QUIET
from cotenant.reporting.terminal.literal import literal


def mode_of(sharing: str) -> str:
    """`mig` of `mig[4g.20gb, 3g.20gb]`."""
    return literal(sharing.partition("[")[0])


class Ways:
    """The ways to share of these cells, in a fixed order. Alone is grey, as the reference."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        shared = [cell for cell in cells if not cell.solo]
        self.names: Sequence[str] = sorted({mode_of(cell.sharing) for cell in shared})
        """Modes: different shares of one mode are one way to share."""
        self._colours = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(self.names)}

    def colour(self, way: str) -> str:
        """Colour of a way to share; grey for tenants alone."""
        return self._colours.get(mode_of(way), QUIET)

    def channel(self, *, legend: bool = False) -> Spec:
        """Colour by the field `mode`; no legend where marks are labelled directly."""
        return {
            "field": "mode",
            "type": "nominal",
            "title": None,
            **({} if legend else {"legend": None}),
            "scale": {
                "domain": [ALONE, *self.names],
                "range": [QUIET, *(self._colours[name] for name in self.names)],
            },
        }
