"""Integrity of a run: trials that match their seals, damaged ones and missing ones."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cotenant import opening
from cotenant.errors import DamagedTrials, IntegrityWarning, RunFolderError
from cotenant.store import seals
from cotenant.store.folder import RunFolder, resume_command
from cotenant.text import amount

# --- gaps in the records of a run: requests that were served but could not be written, and why

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
    """Add a gap, joined with the last if they belong together."""
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


_NAMED = 3
"""Damaged trials named in a sentence; `verify` lists all of them."""


@dataclass(frozen=True, slots=True)
class RunState:
    """State of a run's trials on disk."""

    whole: Mapping[int, seals.Seal | None]
    """Usable trials with their seal; None if written before seals existed."""
    damaged: Mapping[int, seals.Broken]
    missing: int
    """Trials that a completed run had and that are gone."""

    gaps: tuple[Gap, ...] = ()
    """Requests that could not be written."""

    @property
    def requests(self) -> int:
        """Recorded requests, by the seals of usable trials."""
        return sum(
            tables.get("requests", 0)
            for trial, seal in self.whole.items()
            if seal is not None
            for number, tables in seal.rows.items()
            if number == trial
        )

    @property
    def unsealed(self) -> int:
        """Trials whose damage can't be detected."""
        return sum(seal is None for seal in self.whole.values())


def standing(folder: RunFolder) -> RunState:
    """Compare every committed trial with its seal.

    Raises:
        RunFolderError: The folder can't be read.
    """
    whole: dict[int, seals.Seal | None] = {}
    broken: dict[int, seals.Broken] = {}
    promised = bool(folder.manifest.get("sealed"))
    for chunk, trials in folder.chunks().items():
        try:
            seal = seals.check(chunk, folder.run, required=promised)
        except seals.Broken as how:
            broken |= dict.fromkeys(trials, how)
        except OSError as error:
            broken |= dict.fromkeys(trials, seals.Broken(".", opening.why(error)))
        else:
            whole |= dict.fromkeys(trials, seal)
    return RunState(whole, broken, _missing(folder, len(whole) + len(broken)), gaps_of(folder.manifest))


def usable(folder: RunFolder) -> RunState:
    """The standing of a run about to be read, with a warning for what is left out or can't be checked.

    Raises:
        RunFolderError: The folder can't be read, or none of its trials is intact.
    """
    found = standing(folder)
    if found.damaged and not found.whole:
        trial, how = next(iter(found.damaged.items()))
        raise RunFolderError(
            f"{folder.trial_path(trial) / how.file} is damaged: {how.how}.",
            hint=f"No trial of {folder.path} is intact. Measure them again: {resume_command(folder.path)}",
        )
    for sentence in sentences(folder, found):
        warnings.warn(sentence, DamagedTrials, stacklevel=3)
    if found.unsealed:
        warnings.warn(unsealed_sentence(folder, found), IntegrityWarning, stacklevel=3)
    return found


def sentences(folder: RunFolder, found: RunState) -> list[str]:
    """Sentences about damaged or missing trials and requests; empty for an intact run."""
    lines = []
    if found.damaged:
        folders = [(path, trials) for path, trials in folder.chunks().items() if trials[0] in found.damaged]
        named = [f"{path.name} ({found.damaged[trials[0]]})" for path, trials in folders[:_NAMED]]
        more = f" and {len(folders) - _NAMED} more" if len(folders) > _NAMED else ""
        total = len(found.damaged) + len(found.whole)
        lines.append(
            f"{len(found.damaged)} of {total} trials of {folder.path} are damaged and left out: "
            f"{', '.join(named)}{more}."
        )
    if found.missing:
        lines.append(f"{found.missing} trials that {folder.path} had when it was complete are missing.")
    if found.gaps:
        lines.append(f"In {folder.path} {gap_sentence(found.gaps, found.requests)}.")
    return lines


def unsealed_sentence(folder: RunFolder, found: RunState) -> str:
    """That damage can't be detected."""
    which = "It" if len(found.whole) == found.unsealed else f"{found.unsealed} trials"
    return f"{folder.path} was written without seals. {which} can be read, but damage to files can't be detected."


def set_damaged_aside(folder: RunFolder) -> list[Path]:
    """Move damaged trials out of a run that is taken over, to measure them again. Returns their new paths."""
    damaged = standing(folder).damaged
    return [folder.set_aside(chunk) for chunk, trials in folder.chunks().items() if trials[0] in damaged]


def _missing(folder: RunFolder, there: int) -> int:
    expected = folder.manifest.get("trials")
    complete = folder.manifest.get("state") == "complete"
    return max(0, expected - there) if complete and isinstance(expected, int) else 0
