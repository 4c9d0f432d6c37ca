"""A watched stretch of time as a run on disk: totals as samples, a trial per stretch, histograms with the tenants.

Servers publish totals, not requests, so the table of requests stays empty; `store.watched` reads the samples back.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.measure.provenance import now_utc, session
from cotenant.measure.watch.track import Track
from cotenant.store.folder import RunFolder
from cotenant.store.naming import new_run_path
from cotenant.store.watched import WATCHED, role_unit, sensor_name
from cotenant.tenancy.records import TrialRecords

BLOCK_S = 300.0


class WatchRecorder:
    """Writes what was read since the last time."""

    def __init__(self, root: Path, device: str, words: Sequence[str]) -> None:
        self._device = device
        self._trial = 0
        self._began_s: float | None = None
        self._read: dict[str, dict[str, int]] = {}
        self._counted: dict[str, dict[str, dict[float, float]]] = {}
        manifest = {
            "study_name": WATCHED, "study": json.dumps({"watch": list(words)}), "device": device, "simulated": False,
            "device_description": {}, "sensors": [], "sessions": [session()], "state": "running", "watched": {},
        }  # fmt: skip
        self._folder = RunFolder.create(new_run_path(root, WATCHED), manifest)

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._folder.path

    def write(
        self, tracks: Sequence[Track], sharing: str, notes: Sequence[str], unseen: Sequence[str], *, last: bool
    ) -> None:
        """One trial. Raises RunFolderError if it can't be written."""
        records = self._records(tracks, sharing)
        if records is not None:
            self._folder.commit(records)
            self._trial += 1
        self._folder.update_manifest(
            watched={
                "tenants": {one.tenant: _description(one) for one in tracks},
                "notes": list(notes),
                "unseen": list(unseen),
            },
            **({"state": "complete", "why": "it was stopped", "trials": self._trial} if last else {}),
        )

    def _records(self, tracks: Sequence[Track], sharing: str) -> TrialRecords | None:
        times, sensors, values, units, sources = [], [], [], [], []
        for track in tracks:
            done = self._read.setdefault(track.tenant, {})
            for role, (t_s, value) in track.since(done).items():
                done[role] = done.get(role, 0) + t_s.size
                times.append(t_s)
                values.append(value)
                sensors.append(np.full(t_s.size, sensor_name(role, track.tenant), object))
                units.append(np.full(t_s.size, role_unit(role), object))
                sources.append(np.full(t_s.size, track.sources.get(role, ""), object))
        t_s = np.concatenate(times) if times else np.empty(0)
        if not t_s.size:
            return None
        since, until = float(t_s.min()), float(t_s.max())
        self._began_s = since if self._began_s is None else self._began_s
        names = [track.tenant for track in tracks]
        return TrialRecords(
            trial={
                "trial": self._trial, "block": int((since - self._began_s) / BLOCK_S), "order": 0, "session": 0,
                "mix": "+".join(names), "solo": False, "device": self._device, "simulated": False,
                "sharing": sharing if len(names) > 1 else "alone", "settings": "{}", "load": WATCHED, "seed": 0,
                "started_utc": datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds"),
                "start_ns": round(since * 1e9), "window_start_ns": round(since * 1e9), "window_s": until - since,
                "verdict": "valid", "failed_checks": [], "reasons": [],
            },
            tenants=tuple(self._tenant(track) for track in tracks),
            requests={},
            samples={
                "device": np.full(t_s.size, self._device, object), "t_ns": np.round(t_s * 1e9).astype(np.int64),
                "sensor": np.concatenate(sensors), "value": np.concatenate(values), "unit": np.concatenate(units),
                "source": np.concatenate(sources),
            },
        )  # fmt: skip

    def _tenant(self, track: Track) -> dict[str, Any]:
        counted = track.counted()
        before = self._counted.get(track.tenant, {})
        self._counted[track.tenant] = counted
        new = {
            measured: {str(bound): count - before.get(measured, {}).get(bound, 0.0) for bound, count in counts.items()}
            for measured, counts in counted.items()
        }
        return {
            "tenant": track.tenant, "of": track.tenant, "workload": track.software, "batch": 1, "load": WATCHED,
            "pid": track.facts.get("pid"), "facts": json.dumps({"buckets": new}),
        }  # fmt: skip


def _description(track: Track) -> Mapping[str, Any]:
    totals = track.totals()
    return {
        "software": track.software,
        "facts": dict(totals.facts),
        "grants": [asdict(grant) for grant in totals.grants],
        "as_of": now_utc(),
    }
