"""Names of cells and runs in a report: short, stating only what differs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from cotenant.analyse.sharing import Cell, load_said, settings_said, sharing_said
from cotenant.reporting.figures.figure import Spec
from cotenant.reporting.figures.style import PALETTE, QUIET, label
from cotenant.text import literal

ALONE = "alone"


def letters(number: int) -> str:
    """A, B, ..., Z, AA, AB, ..."""
    name = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        name = ascii_uppercase[rest] + name
    return name


@dataclass(frozen=True, slots=True)
class Condition:
    """What must be equal for trials to be comparable: device, settings and load."""

    device: str
    settings: str
    load: str

    @classmethod
    def of(cls, cell: Cell) -> "Condition":
        """The condition of a cell."""
        return cls(cell.device, cell.settings, cell.load)


class Names:
    """Names for the cells of these runs, with a run's letter if there are several."""

    def __init__(self, cells: Sequence[Cell], runs: Sequence[str]) -> None:
        self._letters = {run: letters(index) for index, run in enumerate(runs)}
        self.several_runs = len(runs) > 1
        self.conditions = list(dict.fromkeys(Condition.of(cell) for cell in cells))
        self._varying = [
            name
            for name in ("load", "settings", "device")
            if len({getattr(condition, name) for condition in self.conditions}) > 1
        ]

    def run(self, run: str) -> str:
        """`A`, or empty if there is only one."""
        return self._letters.get(run, "") if self.several_runs else ""

    def place(self, cell: Cell) -> str:
        """`bert+gpt2, processes`; `alone` for a solo cell."""
        return ALONE if cell.solo else literal(f"{cell.mix}, {sharing_said(cell.sharing)}")

    def condition(self, condition: Condition) -> str:
        """What distinguishes a condition from the others of these runs; empty if there is only one."""
        words = {
            "load": load_said(condition.load),
            "settings": settings_said(condition.settings).replace("as found", "settings as found"),
            "device": f"on {condition.device}",
        }
        return literal(", ".join(words[name] for name in self._varying))

    def cell(self, cell: Cell) -> str:
        """The full name: `run A: bert+gpt2, processes (load closed(1))`."""
        run = f"run {self.run(cell.run)}: " if self.several_runs else ""
        condition = self.condition(Condition.of(cell))
        where = literal(cell.mix) + ", alone" if cell.solo else self.place(cell)
        return f"{run}{where}{f' ({condition})' if condition else ''}"


# --- one colour per way to share, consistent across a report


def mode_of(sharing: str) -> str:
    """`mig` of `mig[4g.20gb, 3g.20gb]`."""
    return literal(sharing.partition("[")[0])


class Ways:
    """The ways to share of these cells, in a fixed order. Alone is grey, as the reference."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        shared = [cell for cell in cells if not cell.solo]
        self.names: Sequence[str] = sorted({mode_of(cell.sharing) for cell in shared})
        """Modes: different shares of one mode are one way to share."""
        self._colours = {name: PALETTE[number % len(PALETTE)] for number, name in enumerate(self.names)}

    def colour(self, way: str) -> str:
        """Colour of a way to share; grey for tenants alone."""
        return self._colours.get(mode_of(way), QUIET)

    def channel(self, *, legend: bool = False) -> Spec:
        """Colour by the field `mode`; no legend where marks are labelled directly."""
        scale = {"domain": [ALONE, *self.names], "range": [QUIET, *(self._colours[name] for name in self.names)]}
        return label("mode", **({} if legend else {"legend": None}), scale=scale)
