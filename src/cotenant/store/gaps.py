"""Gaps in the records of a run: requests that were served but could not be written, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cotenant.text import amount

KEY = "gaps"
"""The manifest's entry."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Requests that are missing, and the time they arrived in."""

    requests: int
    from_utc: str
    to_utc: str
    why: str

    def joined(self, following: "Gap") -> "Gap | None":
        """Both as a single gap, if they have the same reason and nothing was recorded in between."""
        if (self.why, self.to_utc) != (following.why, following.from_utc):
            return None
        return Gap(self.requests + following.requests, self.from_utc, following.to_utc, self.why)


def with_gap(gaps: Sequence[Gap], new: Gap) -> tuple[Gap, ...]:
    """The gaps with another one behind them."""
    joined = gaps[-1].joined(new) if gaps else None
    return (*gaps, new) if joined is None else (*gaps[:-1], joined)


def as_entry(gaps: Sequence[Gap]) -> list[dict[str, Any]]:
    """The manifest's entry of some gaps."""
    return [asdict(gap) for gap in gaps]


def gaps_of(manifest: Mapping[str, Any]) -> tuple[Gap, ...]:
    """The gaps that a manifest states; entries in another form are ignored."""
    stated = manifest.get(KEY) or ()
    return tuple(
        Gap(entry["requests"], str(entry.get("from_utc")), str(entry.get("to_utc")), str(entry.get("why")))
        for entry in stated
        if isinstance(entry, Mapping) and type(entry.get("requests")) is int and entry["requests"] > 0
    )


def gap_sentence(gaps: Sequence[Gap], recorded: int) -> str:
    """`40 of 51 requests are missing: disk full from 12:00:05 to 12:01:10`."""
    missing = sum(gap.requests for gap in gaps)
    reasons = "; ".join(f"{gap.why} from {gap.from_utc} to {gap.to_utc}" for gap in gaps)
    return f"{missing:,} of {amount(missing + recorded, 'request')} are missing: {reasons}"
