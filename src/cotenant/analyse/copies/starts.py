"""Starts of copies: failures are results, counted for each way to share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """The copies that one trial started."""

    block: int
    mix: str
    sharing: str
    copies: int
    failed: str | None
    """Why not all of them came up; None if they did."""
    died: str | None
    """How a copy ended after it was up; None if none did."""
    failed_checks: tuple[str, ...]
    reasons: tuple[str, ...]
    throughput_rps: float | None
    """Of all copies; None if the trial can't be used."""
    cores: float | None
    """Cores' worth of CPU time that all copies and their clients used in the window."""
    memory_bytes: int | None
    """Peak resident memory of all copies and their clients."""
    resolved: Mapping[str, int]
    """Cache and limits of the first copy, by its log and metrics."""

    @property
    def degraded(self) -> bool:
        """Requests failed, or its latency kept changing."""
        return (
            self.failed is None and self.died is None and bool({"requests_succeed", "steady"} & {*self.failed_checks})
        )


@dataclass(frozen=True, slots=True)
class Reliability:
    """How starts of so many copies, shared one way, turned out."""

    starts: int
    failed: int
    died: int
    degraded: int
    why: str | None
    """The latest failure."""

    @property
    def failures(self) -> int:
        """Starts that failed or lost a copy."""
        return self.failed + self.died

    @property
    def share(self) -> float:
        """Share of the starts that failed or lost a copy."""
        return self.failures / self.starts if self.starts else 0.0


def reliability(starts: Iterable[Start]) -> Reliability:
    """Count the starts of one option."""
    made = list(starts)
    sentences = [one.failed or one.died for one in made if one.failed or one.died]
    return Reliability(
        starts=len(made),
        failed=sum(one.failed is not None for one in made),
        died=sum(one.died is not None for one in made),
        degraded=sum(one.degraded for one in made),
        why=sentences[-1] if sentences else None,
    )
