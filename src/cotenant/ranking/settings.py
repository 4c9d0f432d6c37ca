"""Settings of a search."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_MEMORY = 4 * 10**9
DEFAULT_TOP = 10


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Everything that determines what a search computes; kept in its folder, so that it can be resumed."""

    data: str
    models: tuple[str, ...]
    scorer: str = "linear"
    budget_s: float | None = None
    memory_bytes: int = DEFAULT_MEMORY
    exact: bool = False
    device: str = "cpu"
    skip_bad: bool = False
    top: int = DEFAULT_TOP
    """Number of entries of the ranking with an interval and a line in the table."""
    seed: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SearchSettings":
        """From plain data."""
        return cls(**{**data, "models": tuple(data["models"])})
