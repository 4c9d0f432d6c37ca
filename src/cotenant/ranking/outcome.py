"""The events and the result of a search."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cotenant.tenancy.interval import Estimate


@dataclass(frozen=True, slots=True)
class Ranked:
    """One line of the ranking."""

    rank: int
    name: str
    estimate: Estimate
    tied: bool
    """True if it is statistically tied with the leader of its rank."""
    left_in_round: int | None
    """The round after which it was dropped; None if it saw all items."""
    ms_per_item: float
    """Its time alone, loading included; measured on one batch."""
    weights: str


@dataclass(frozen=True, slots=True)
class Timed:
    """A candidate with random weights: timed, never ranked."""

    name: str
    ms_per_item: float


@dataclass(frozen=True, slots=True)
class Baseline:
    """The baseline of a ranking."""

    name: str
    estimate: Estimate
    beaten: bool
    """True if the best candidate is clearly above it, compared by item or by half."""


@dataclass(frozen=True, slots=True)
class Shared:
    """Pieces shared by several candidates."""

    candidates: tuple[str, ...]
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The complete result."""

    folder: Path
    data: str
    kind: str
    classes: int
    items: int
    items_there: int
    skipped: int
    scorer: str
    about_scorer: str
    exact: bool
    rounds: tuple[Mapping[str, Any], ...]
    ranking: tuple[Ranked, ...]
    timed: tuple[Timed, ...]
    baselines: tuple[Baseline, ...]
    shared: tuple[Shared, ...]
    steps_alone: int
    """Steps per item if every ranked candidate ran alone."""
    steps_shared: int
    stages_s: Mapping[str, float]
    predicted_s: float
    """Predicted seconds from the plan to the end."""
    actual_s: float
    prepared_s: float
    """Before that: opening the data, reading every candidate, timing a batch."""
    memory_bytes: int
    peak_bytes: int
    """Peak growth of the process."""
    parts: int
    """Number of parts the data was split into because of the memory."""
    notes: tuple[str, ...]
    top: int

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"folder": str(self.folder)}


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
class PlannedSearch:
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


Event = WithoutWeights | Began | PlannedSearch | Working | RoundEnded
Listener = Callable[[Event], None]


def silent(_: Event) -> None:
    """Ignores everything."""
