"""One colour for each way to share, the same in every figure and table of a report."""

from collections.abc import Iterable, Sequence

from cotenant.analyse.sharing.cells import Cell
from cotenant.reporting.figures.figure import Spec
from cotenant.reporting.figures.names import ALONE
from cotenant.reporting.figures.style import PALETTE, QUIET
from cotenant.reporting.terminal.literal import literal


class Ways:
    """The ways to share of these cells, in a fixed order. Alone is grey: the others are compared with it."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self.names: Sequence[str] = sorted({literal(cell.sharing) for cell in cells if not cell.solo})
        self._colours = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(self.names)}

    def colour(self, way: str) -> str:
        """Of a way to share; grey for whatever is alone."""
        return self._colours.get(literal(way), QUIET)

    def channel(self, *, legend: bool = False) -> Spec:
        """Colour by the field `sharing`; without a legend where lines and dots are labelled where they are."""
        return {
            "field": "sharing",
            "type": "nominal",
            "title": None,
            **({} if legend else {"legend": None}),
            "scale": {
                "domain": [ALONE, *self.names],
                "range": [QUIET, *(self._colours[name] for name in self.names)],
            },
        }
