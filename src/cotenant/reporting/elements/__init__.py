"""What a result says, once: a list of elements that the terminal, a page and Markdown all render.

A result is described by a function that returns elements (`reporting.results`); `elements.terminal`, `elements.html`
and `elements.markdown` render any list of them. What one of them shows, the others show.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from cotenant.front import front
from cotenant.reporting.figures.figure import Figure
from cotenant.tenancy.interval import Interval

SIMULATED = "SIMULATED"
COMPUTED = "a model computed this; nothing was measured"
Tone = Literal["plain", "answer", "good", "bad", "open", "title", "quiet"]
"""`answer` is the first sentence of a result, `title` stands above a table; `quiet` is what most readers skip."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A paragraph."""

    text: str
    tone: Tone = "plain"
    command: bool = False
    """To be copied into a shell."""


@dataclass(frozen=True, slots=True)
class Remark(Sentence):
    """A condition or a source, in small print."""

    tone: Tone = "quiet"
    below: bool = False
    """Whether it belongs to the table above it."""


@dataclass(frozen=True, slots=True)
class Sentences:
    """Several sentences as a list; ``plain`` without bullets."""

    lines: tuple[str, ...]
    title: str = ""
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what they are: the study, the device, the seed."""

    rows: tuple[tuple[str, str], ...]
    simulated: bool = False
    """Whether a model computed what follows: stands before the rest."""


@dataclass(frozen=True, slots=True)
class Bullet:
    """A prediction against its limit, in the limit's unit: a page draws it as a bullet chart."""

    time: Interval
    limit: float

    @property
    def kept(self) -> bool:
        """Whether the upper end keeps the limit."""
        return self.time.ends[1] <= self.limit


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell that says more than its text: a page shows it by colour, hatching or a bar."""

    text: str
    beneath: str = ""
    """A second line in small print, such as the interval."""
    tone: Tone = "plain"
    warmth: float | None = None
    """Opacity of the colour of a heat map."""
    faster: bool = False
    hatched: bool = False
    hint: str = ""
    """What the number rests on."""
    bullet: Bullet | None = None
    part: float | None = None
    """A share between 0 and 1, drawn as a bar."""

    def __str__(self) -> str:
        """The text as a terminal shows it: both lines on one."""
        return f"{self.text} [{self.beneath}]" if self.beneath and self.warmth is not None else self.text


Value = str | int | float | TableCell | None


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows under a heading of their own."""

    heading: str
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class DataTable:
    """Rows under column names. The first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...] = ()
    title: str = ""
    groups: tuple[RowGroup, ...] = ()
    """Rows under headings, instead of ``rows``."""
    numbers: frozenset[str] = frozenset()
    """Columns of figures, aligned right."""
    ruled: bool = True
    """Whether a terminal draws a line below the column names."""
    cut: tuple[str, ...] = ()
    """Columns whose texts a terminal cuts where a row is too long for a line, the least important first."""
    narrow: "DataTable | None" = None
    """The same with fewer figures, for a terminal without room for this one."""

    @property
    def every_row(self) -> Iterator[tuple[Value, ...]]:
        """Rows without their headings."""
        yield from self.rows
        for group in self.groups:
            yield from group.rows


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure. Where nothing can be drawn, ``instead`` says the same as a table."""

    figure: Figure
    instead: DataTable


@dataclass(frozen=True, slots=True)
class Section:
    """Elements under a heading: a page shows it in its navigation."""

    title: str
    anchor: str
    elements: "tuple[Element, ...]" = field(default=())
    folded: bool = False
    """Whether a page shows only the heading until it is opened."""


Leaf = Sentence | Sentences | Facts | DataTable | Drawing
Element = Leaf | Section


def leaves(elements: Iterable[Element]) -> Iterator[Leaf]:
    """Every element outside of sections, in reading order."""
    for element in elements:
        if isinstance(element, Section):
            yield from leaves(element.elements)
        else:
            yield element


def drawings(elements: Iterable[Element]) -> list[Figure]:
    """The figures among elements."""
    return [element.figure for element in leaves(elements) if isinstance(element, Drawing)]


def texts(elements: Iterable[Element]) -> Iterator[str]:
    """Every text that a renderer has to show: sentences, column names and cells."""
    for element in leaves(elements):
        match element:
            case Sentence():
                yield element.text
            case Sentences():
                yield from element.lines
            case Facts():
                yield from (value for _, value in element.rows)
            case DataTable():
                yield from _cells(element)
            case Drawing():
                yield element.figure.title


def _cells(table: DataTable) -> Iterator[str]:
    yield from (name for name in table.columns if name)
    yield from (group.heading for group in table.groups if group.heading)
    for row in table.every_row:
        for value in row:
            if isinstance(value, str | TableCell):
                yield value.text if isinstance(value, TableCell) else value


def opening(sentences: Sequence[str], tone: Tone = "answer") -> list[Element]:
    """The first sentence stands out; those after it are plain."""
    return [Sentence(text, "plain" if number else tone) for number, text in enumerate(sentences)]


def grouped(
    columns: Sequence[str], rows: Sequence[tuple[str, tuple[Value, ...]]], narrow: DataTable | None = None
) -> DataTable:
    """Rows under the heading that comes with each."""
    groups: dict[str, list[tuple[Value, ...]]] = {}
    for heading, row in rows:
        groups.setdefault(heading, []).append(row)
    sections = tuple(RowGroup(heading, tuple(lines)) for heading, lines in groups.items())
    return DataTable(tuple(columns), groups=sections, numbers=frozenset(columns[1:]), narrow=narrow)


if TYPE_CHECKING:
    from cotenant.reporting.elements.markdown import to_markdown
    from cotenant.reporting.elements.terminal import to_terminal
else:
    __getattr__, __dir__ = front(__name__, __file__)
