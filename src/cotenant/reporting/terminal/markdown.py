"""Markdown in which names are text: they can be neither markup nor HTML."""

import re
from collections.abc import Iterable, Sequence

from cotenant.reporting.terminal.literal import literal

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#!|~&@])")


def escaped(words: str) -> str:
    """Escape text for Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", literal(words))


def bullets(sentences: Iterable[str]) -> str:
    """Sentences as a list."""
    return "".join(f"- {escaped(sentence)}\n" for sentence in sentences)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; empty without rows."""
    if not rows:
        return ""
    lines = [tuple(map(escaped, head)), ("---",) * len(head), *(tuple(map(escaped, row)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
