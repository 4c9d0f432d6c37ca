"""Turns labels into numbers, and rejects unusable ones."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from cotenant.errors import DataError
from cotenant.ranking.protocol import Labels

_LEAST = 2


def usable_items(name: str, written: Sequence[Hashable], *, skip_bad: bool) -> list[int]:
    """Positions of usable items; a class with one item can't be both trained and tested on."""
    counts = Counter(written)
    rare = [label for label, count in counts.items() if count < _LEAST]
    if rare and not skip_bad:
        others = f", and so have {len(rare) - 1} others" if len(rare) > 1 else ""
        raise DataError(
            f"{name}: class {rare[0]!r} has only one item{others}, so it can't be both trained and tested on",
            hint="check the label column; or add items, or skip bad ones: --skip-bad",
        )
    classes = len(counts) - len(rare)
    if classes < _LEAST:
        raise DataError(
            f"{name} has {'one usable class' if classes else 'no usable class'}, but a ranking needs two",
            hint="check the folder or label column",
        )
    return [position for position, label in enumerate(written) if counts[label] >= _LEAST]


def numbered(written: Sequence[Any], names: Sequence[str] | None = None) -> tuple[tuple[str, ...], Labels]:
    """Class names in order, and each item's number; ``names`` are those of the numbers in ``written``."""
    kinds = sorted(set(written))
    position = {kind: number for number, kind in enumerate(kinds)}
    titles = tuple(names[kind] if names is not None and 0 <= int(kind) < len(names) else str(kind) for kind in kinds)
    return titles, np.array([position[one] for one in written], np.int64)
