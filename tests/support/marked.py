"""Which files have slow or quiet tests, by their text: importing all the others to find none takes longer."""

from functools import cache
from pathlib import Path

WORDS = {"slow": ("mark.slow", "NEEDS_CHROMIUM"), "quiet": ("mark.quiet",)}
"""What a file contains that has such tests."""


def only(expression: str) -> str | None:
    """The mark without which an expression of `-m` selects nothing."""
    return next((mark for mark in WORDS if expression.split()[:1] == [mark] and " or " not in expression), None)


@cache
def marks(path: Path) -> frozenset[str]:
    """The marks that a file's tests can have."""
    text = path.read_text(encoding="utf-8")
    return frozenset(mark for mark, words in WORDS.items() if any(word in text for word in words))


def hidden(items) -> list[str]:
    """Marked tests in files whose text doesn't show it."""
    return [
        f"{item.nodeid} is {mark}"
        for item in items
        for mark in WORDS
        if mark not in marks(item.path) and item.get_closest_marker(mark)
    ]
