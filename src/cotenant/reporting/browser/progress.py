"""Cheap progress of a run: names of trials and their verdicts, no requests.

Watching shares the machine with the run, so nothing here computes an estimate.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from cotenant.analyse.tabular import fields_of
from cotenant.errors import RunFolderError, StudyError
from cotenant.reporting.browser.entry import STATES
from cotenant.reporting.browser.index import ListedRun
from cotenant.store.folder import RunFolder, resume_command


class AtDevice(NamedTuple):
    """What one of several devices does."""

    device: str
    trials: int
    doing: str


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Progress of a run."""

    state: str
    meaning: str
    trials: int
    verdicts: Mapping[str, int]
    block: int
    """The current block, from 1; 0 before the first trial."""
    blocks_min: int | None
    blocks_max: int | None
    last_utc: str
    why: str
    resume: str
    """Command that resumes it; empty if there is none."""
    devices: tuple["AtDevice", ...] = ()
    """Devices of a cluster that measure at the same time."""

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.state == "running"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        known = fields_of(self, "running", without=("meaning", "resume"), last_utc="last_trial_utc")
        return known | {
            "last_trial_utc": self.last_utc or None,
            "devices": [device._asdict() for device in self.devices],
        }


def progress_of(listed: ListedRun) -> RunProgress:
    """Progress of a run."""
    entry, tally = listed.entry, listed.tally
    manifest = _manifest_of(listed)
    least, most = _blocks_of(manifest)
    return RunProgress(
        state=entry.state,
        meaning=STATES[entry.state],
        trials=len(entry.trials),
        verdicts=tally.verdicts if tally else {},
        block=tally.blocks if tally else 0,
        blocks_min=least,
        blocks_max=most,
        last_utc=tally.last_utc if tally else "",
        why=entry.why,
        resume=resume_command(entry.path) if entry.state in {"interrupted", "failed", "cut short"} else "",
        devices=_devices_of(manifest) if entry.state == "running" else (),
    )


def _manifest_of(listed: ListedRun) -> Mapping[str, Any]:
    try:
        return RunFolder.open(listed.entry.path).manifest
    except RunFolderError:
        return {}


def _devices_of(manifest: Mapping[str, Any]) -> tuple[AtDevice, ...]:
    noted = manifest.get("devices_at")
    return tuple(
        AtDevice(str(name), int(device["trials"]), str(device["doing"]))
        for name, device in (noted.items() if isinstance(noted, dict) else ())
        if isinstance(device, dict) and isinstance(device.get("trials"), int) and "doing" in device
    )


def _blocks_of(manifest: Mapping[str, Any]) -> tuple[int, int] | tuple[None, None]:
    study = manifest.get("study")
    return _blocks_in(study) if isinstance(study, str) else (None, None)


@lru_cache(maxsize=64)
def _blocks_in(study: str) -> tuple[int, int] | tuple[None, None]:
    """The minimum and maximum blocks of a study."""
    from cotenant.study.files import study_from_text

    try:
        blocks = study_from_text(study, source="the manifest").blocks
    except StudyError:
        return None, None
    return blocks.min, blocks.max
