"""Events of a running search."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WithoutWeights:
    """Candidates that will only be timed. Comes first: torch is not loaded yet."""

    models: tuple[str, ...]
    others: int
    """Candidates that will be ranked."""


@dataclass(frozen=True, slots=True)
class Began:
    """The folder exists: from now on the search can be resumed."""

    folder: Path
    resumed: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan."""

    models: int
    items: int
    rounds: int
    predicted_s: float
    steps_alone: int
    steps_shared: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Working:
    """Progress."""

    doing: str
    share: float
    left_s: float | None
    leader: str | None = None


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """A round of halving is over."""

    number: int
    of: int
    items: int
    models: int
    kept: int
    leader: str
    score: float


Event = WithoutWeights | Began | Planned | Working | RoundEnded
Listener = Callable[[Event], None]


def silent(_: Event) -> None:
    """Ignores everything."""
