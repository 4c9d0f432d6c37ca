"""The trials of a run on a device or group: the study's, minus sharing modes the device lacks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cotenant.devices import find_device
from cotenant.devices.group_names import require_group
from cotenant.devices.protocol import Device
from cotenant.errors import CotenantError, DeviceError, RunFolderError, SharingUnavailable, StudyError
from cotenant.measure.tenants.ordered import arranged
from cotenant.store.folder import RunFolder, slug
from cotenant.store.manifest import PROFILE_PASS
from cotenant.study import windows
from cotenant.study.consistency import MOST_TRIALS
from cotenant.study.expand import Layouts, expand, trials_per_block
from cotenant.study.files import study_from_text
from cotenant.study.model import Study
from cotenant.study.windows import Windows
from cotenant.tenancy.nouns import Block
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.values import Controls


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A study with everything resolved: the same blocks now and when the run is resumed."""

    study: Study
    modes: tuple[str, ...]
    """The sharing modes that `sharing: all` stands for."""
    members: tuple[str, ...] = ()
    """Members of a group, by name; all trials are spread over them."""
    settings: tuple[Controls, ...] | None = None
    """The study's settings with relative values resolved; None if none are."""
    layouts: Layouts = field(default_factory=dict)
    """Shares tried besides the defaults of MPS and MIG."""
    left_out: tuple[str, ...] = ()
    """Why some mixes are not measured under some modes, a sentence each."""
    too_small_for: tuple[str, ...] = ()
    """Tenants left out because they don't fit on the device, a sentence each."""
    alone_s: Mapping[str, float] = field(default_factory=dict)
    """Time of a request alone by tenant, once known: each trial gets a window of its own, unless the study sets it."""
    as_written: Study | None = None
    """The study before its windows were known."""
    shortest: windows.Windows = windows.SHORT
    """The least lengths of a trial where the study leaves them open."""
    _skipped: frozenset[tuple[str, str]] = frozenset()

    @property
    def trials_per_block(self) -> int:
        """Number of trials per block."""
        return len(self.block(0).trials)

    def to_json(self) -> dict[str, Any]:
        """The device-dependent decisions as plain data; the study itself is stored as YAML."""
        return {
            "modes": self.modes,
            "settings": self.settings,
            "layouts": [
                [mix, mode, [way.model_dump(mode="json") for way in ways]] for (mix, mode), ways in self.layouts.items()
            ],
            "left_out": self.left_out,
            "skipped": sorted(self._skipped),
            "shortest": [self.shortest.window_s, self.shortest.lead_s],
        }

    @classmethod
    def from_json(cls, study: Study, members: Sequence[str], decided: Mapping[str, Any]) -> "RunPlan":
        """The plan of a study for members elsewhere, from the decisions of a device there."""
        settings = decided["settings"]
        return cls(
            study=study,
            modes=tuple(decided["modes"]),
            members=tuple(members),
            settings=None if settings is None else tuple(settings),
            layouts={
                (mix, mode): tuple(Sharing.model_validate(way) for way in ways)
                for mix, mode, ways in decided["layouts"]
            },
            left_out=tuple(decided["left_out"]),
            as_written=study,
            shortest=windows.Windows(*decided["shortest"]),
            _skipped=frozenset((mix, sharing) for mix, sharing in decided["skipped"]),
        )

    def with_study(self, study: Study) -> "RunPlan":
        """The same plan with the study's windows now known."""
        return replace(self, study=study)

    def with_windows(self, lengths: windows.Windows, alone_s: Mapping[str, float]) -> "RunPlan":
        """The same plan with windows for all trials now known, and the times of requests behind them."""
        return replace(self, study=windows.with_windows(self.study, lengths), alone_s=alone_s)

    def block(self, number: int) -> Block:
        """The trials of a block, in order."""
        study = self.study if self.settings is None else self.study.model_copy(update={"settings": self.settings})
        whole = expand(study, number, self.modes, self.members, self.layouts)
        kept = tuple(trial for trial in whole.trials if (trial.mix, str(trial.sharing)) not in self._skipped)
        written = self.study if self.as_written is None else self.as_written
        own = windows.fitted(kept, self.alone_s, written, self.shortest)
        return Block(number=number, trials=windows.with_a_long_one(own, number))


def plan_for(study: Study, device: Device, modes: Sequence[str] | None = None) -> RunPlan:
    """Lay out every mix once before anything starts.

    Raises:
        SharingUnavailable: A sharing named by the study is unavailable for all of its mixes.
        StudyError: It can't be spread over the device as written.
        DeviceError: The device lacks a control or value, or this user may not set it.
    """
    as_written, switched = study, not device.simulated and not device.names and study.fresh != "trial"
    study = windows.settled(study, switched=switched)
    study = _shares_settled(study, device, new=modes is None)
    if modes is None:
        modes = [mode.mode for mode in device.sharings() if mode.available]
    trials = trials_per_block(study, modes, device.names)
    if trials > MOST_TRIALS:
        raise StudyError(
            f"a block would have {trials} trials on {device.name}; at most {MOST_TRIALS} are allowed",
            hint="use --set spread=together: one trial for all members",
        )
    settings = tuple(dict(device.absolute(setting)) for setting in study.settings)
    for setting in settings:
        if setting:
            device.apply(setting)  # not entered: it refuses bad settings at once, and sets nothing
    whole = RunPlan(
        study,
        tuple(modes),
        device.names,
        settings,
        as_written=as_written,
        shortest=windows.shortest(as_written, switched=switched),
    )
    whole = replace(whole, layouts=_layouts(whole, device) if study.shares == "searched" else {})
    skipped: dict[tuple[str, str], str] = {}
    refused: dict[str, SharingUnavailable] = {}
    possible = set()
    for trial in whole.block(0).trials:
        try:
            arranged(device, trial.sharing, trial.tenants)
        except SharingUnavailable as refusal:
            sentence = f"{trial.mix}: {refusal.message}"
            skipped[trial.mix, str(trial.sharing)] = sentence
            refused.setdefault(trial.sharing.mode, SharingUnavailable(sentence, hint=refusal.hint))
        else:
            possible.add(trial.sharing.mode)
    # Core blocks for two copies but not for three are a result; a named way that is possible for no mix is a mistake.
    if study.sharing != "all" and (never := [refusal for mode, refusal in refused.items() if mode not in possible]):
        raise never[0]
    return replace(whole, left_out=tuple(skipped.values()), _skipped=frozenset(skipped))


def laid_out(study: Study, device: str | None = None, devices: str | None = None) -> tuple[RunPlan, Device]:
    """A study's plan on its own device, on another, or on a group of devices. Raises CotenantError."""
    if device is not None and devices is not None:
        raise DeviceError("--device and --devices were both given", hint="name one device, or one group of devices")
    named = device if devices is None else devices
    place = find_device(study.device if named is None else named)  # an empty name is a mistake, not the default
    if devices is not None:
        place = require_group(place, devices)
    study = study.model_copy(update={"device": place.name}).placed(study.places)
    return plan_for(study, place), place


def reopened(path: Path) -> tuple[RunFolder, RunPlan, Device]:
    """A run to resume: its folder, its plan and its device. Raises CotenantError."""
    folder = RunFolder.open(path)
    if PROFILE_PASS in folder.manifest:
        raise RunFolderError(
            f"{path} is a profile pass: it can't be mixed with timed trials",
            hint="profile again: cotenant profile STUDY",
        )
    text = folder.manifest.get("study")
    if not isinstance(text, str):
        raise RunFolderError(f"the manifest of {path} does not name its study", hint="start a new run")
    study = study_from_text(text, source=str(path / "manifest.json"))
    device = find_device(study.device)
    return folder, plan_for(study, device, folder.manifest.get("modes")), device


def _shares_settled(study: Study, device: Device, *, new: bool) -> Study:
    """With `sharing: all` the shares of a simulated GPU are searched; a resumed run keeps its shares."""
    if study.shares is not None:
        return study
    searched = new and study.sharing == "all" and device.simulated and not device.names
    return study.model_copy(update={"shares": "searched" if searched else "given"}).placed(study.places)


def _layouts(plan: RunPlan, device: Device) -> Layouts:
    """The shares worth trying for every mix; a tenant that names its own share keeps it."""
    layouts: dict[tuple[str, str], tuple[Sharing, ...]] = {}
    for trial in plan.block(0).trials:
        key = trial.mix, trial.sharing.mode
        free = not trial.sharing.shares and all(tenant.share is None for tenant in trial.tenants)
        if len(trial.tenants) > 1 and free and key not in layouts:
            layouts[key] = device.layouts(trial.sharing.mode, trial.tenants)
    return layouts


# --- expectations from an earlier run of the same study on the same device

MOST_LOOKED_AT = 5
"""Number of recent runs to look at; older ones say little about the machine today."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """Figures from the latest completed run."""

    run: str
    windows: Windows | None
    alone_s: Mapping[str, float]
    """Seconds of a request alone, by tenant."""
    widest: float | None
    """Relative half-width of the widest slowdown after that many blocks."""
    blocks: int
    seconds: float
    """Duration on the device's clock."""
    wall_s: float

    def widest_after(self, blocks: int) -> float | None:
        """Expected half-width after another number of blocks: intervals shrink with the square root."""
        return None if self.widest is None or not blocks else self.widest * math.sqrt(self.blocks / blocks)


def earlier(out: Path, study: Study, device: str) -> Earlier | None:
    """The latest run under ``out`` of a study with these tenants on this device; None if there is none."""
    for manifest in _manifests(out / slug(study.name)):
        reached, windows = manifest.get("reached"), manifest.get("windows")
        if manifest.get("device") != device or not isinstance(reached, dict) or not _alike(manifest, study):
            continue
        try:
            return Earlier(
                run=str(manifest["run"]),
                windows=Windows(float(windows["window_s"]), float(windows["lead_s"])) if windows else None,
                alone_s={str(name): float(value) for name, value in (windows or {}).get("alone_s", {}).items()},
                widest=None if reached["widest"] is None else float(reached["widest"]),
                blocks=int(reached["blocks"]),
                seconds=float(reached["seconds"]),
                wall_s=float(reached["wall_s"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError):  # edited by hand: not evidence
            continue
    return None


def _manifests(folder: Path) -> Iterator[Mapping[str, Any]]:
    try:
        runs = sorted((path for path in folder.iterdir() if path.is_dir()), reverse=True)
    except OSError:
        return
    for path in runs[:MOST_LOOKED_AT]:
        try:
            yield RunFolder.open(path).manifest
        except CotenantError:
            continue


def _alike(manifest: Mapping[str, Any], study: Study) -> bool:
    try:
        then = study_from_text(str(manifest.get("study")), source="an earlier run")
    except CotenantError:
        return False
    return (then.tenants, then.mixes, then.sharing) == (study.tenants, study.mixes, study.sharing)
