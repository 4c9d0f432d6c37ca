"""Expectations from an earlier run of the same study on the same device."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.errors import CotenantError
from cotenant.store.folder import RunFolder, slug
from cotenant.study.files import study_from_text
from cotenant.study.model import Study
from cotenant.study.windows import Windows

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
