"""Rows that can't be judged, counted by reason: nothing is dropped silently."""

from collections import Counter, defaultdict

_NAMED = 6
"""Maximum names listed; the rest are counted."""


class LeftOutRows:
    """Rows left out of one data set, and why."""

    def __init__(self) -> None:
        self._found: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, why: str, what: str, rows: int = 1) -> None:
        """Count rows.

        Args:
            why: A clause: ``the GPU isn't in the catalogue``.
            what: What they share: a model, a GPU, a file.
            rows: Number of rows.
        """
        self._found[why][what] += rows

    def sentences(self) -> tuple[str, ...]:
        """One sentence per reason."""
        return tuple(_sentence(why, what) for why, what in self._found.items())


def _sentence(why: str, what: Counter[str]) -> str:
    total = what.total()
    names = [f"{name} ({rows})" if rows > 1 and len(what) > 1 else name for name, rows in sorted(what.items())]
    others = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{total:,} {'row' if total == 1 else 'rows'} left out, as {why}: {', '.join(names[:_NAMED])}{others}."
