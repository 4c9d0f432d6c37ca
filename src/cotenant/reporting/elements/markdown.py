"""Elements as Markdown, short enough for a pull request. Names are text: they can be neither markup nor HTML."""

import re
from collections.abc import Iterable, Sequence

from cotenant.reporting.elements import (
    COMPUTED,
    SIMULATED,
    DataTable,
    Drawing,
    Element,
    Facts,
    Section,
    Sentence,
    Sentences,
    Value,
)
from cotenant.text import NOTHING, literal

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#!|~&@])")


def to_markdown(elements: Iterable[Element], *, level: int = 2) -> str:
    """The text of elements, with sections from this level of heading on."""
    return "\n\n".join(part for element in elements if (part := _part(element, level)))


def _part(element: Element, level: int) -> str:
    match element:
        case Section():
            return _section(element, level)
        case Sentence():
            return _sentence(element)
        case Sentences():
            return "\n\n".join(filter(None, (escaped(element.title), bullets(element.lines).rstrip())))
        case Facts():
            facts = "".join(f"- {escaped(name)}: {escaped(value)}\n" for name, value in element.rows).rstrip()
            return f"> **{SIMULATED}**: {COMPUTED}.\n\n{facts}" if element.simulated else facts
        case Drawing():
            return f"{escaped(element.figure.title)}\n\n{_table(element.instead)}"
    return _table(element)


def _section(section: Section, level: int) -> str:
    inside = to_markdown(section.elements, level=level + 1)
    if section.folded:
        return f"<details><summary>{escaped(section.title)}</summary>\n\n{inside}\n\n</details>"
    return f"{'#' * level} {escaped(section.title)}\n\n{inside}"


def _sentence(sentence: Sentence) -> str:
    if sentence.command:
        return f"```sh\n{literal(sentence.text)}\n```"
    return escaped(sentence.text) if sentence.tone in {"plain", "quiet"} else f"**{escaped(sentence.text)}**"


def _table(element: DataTable) -> str:
    heading = escaped(element.title)
    if not element.groups:
        return "\n\n".join(filter(None, (heading, table(element.columns, element.rows, element.numbers).rstrip())))
    rows = [(f"{row[0]}", group.heading, *row[1:]) for group in element.groups for row in group.rows]
    first, *others = element.columns
    where = any(group.heading for group in element.groups)
    columns = (first, "where", *others) if where else element.columns
    kept = rows if where else [(row[0], *row[2:]) for row in rows]
    return "\n\n".join(filter(None, (heading, table(columns, kept, element.numbers).rstrip())))


def escaped(words: str) -> str:
    """Escape text for Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", literal(words))


def bullets(sentences: Iterable[str]) -> str:
    """Sentences as a list."""
    return "".join(f"- {escaped(sentence)}\n" for sentence in sentences)


def table(head: Sequence[str], rows: Sequence[Sequence[Value]], numbers: frozenset[str] = frozenset()) -> str:
    """A table; empty without rows."""
    if not rows:
        return ""
    lines = [
        tuple(map(escaped, head)),
        tuple("---:" if name in numbers else "---" for name in head),
        *(tuple(escaped(NOTHING if value is None else str(value)) for value in row) for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
