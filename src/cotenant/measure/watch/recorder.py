"""What was watched as a run on disk: totals as samples, histograms with the tenants, a trial for each stretch of time.

The database that writes it takes as much memory as all the rest of `watch`. So it isn't loaded here: a small process
keeps what was read, and writes it every minute in a child of its own. That process also survives a watcher that is
killed, and writes what it has.
"""

import json
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.analyse.neighbours import Floats
from cotenant.errors import RunFolderError
from cotenant.measure.provenance import now_utc, session
from cotenant.measure.watch.track import Track
from cotenant.store.folder import RunFolder, new_run_path
from cotenant.store.reading import WATCHED
from cotenant.store.watched import role_unit, sensor_name
from cotenant.tenancy.records import TrialRecords

BLOCK_S = 300.0
KEEPER = (sys.executable, "-P", "-m", "cotenant.measure.watch.keeper")

Counts = Mapping[str, Mapping[float, float]]
"""By quantity: the number of requests up to each bound, in seconds."""


@dataclass(frozen=True, slots=True)
class TenantPortion:
    """What was read of a tenant since the last portion."""

    tenant: str
    software: str
    pid: int | None
    read: Mapping[str, tuple[Floats, Floats, str]]
    """By role: times, values and source."""
    counted: Counts


@dataclass(frozen=True, slots=True)
class Portion:
    """What was read since the last one."""

    device: str
    sharing: str
    began_s: float
    """Of the whole watch."""
    tenants: tuple[TenantPortion, ...]


class WatchRecorder:
    """Keeps what was read since the last time."""

    def __init__(
        self, root: Path, device: str, words: Sequence[str], described: Mapping[str, Any] | None = None
    ) -> None:
        self._device = device
        self._began_s: float | None = None
        self._read: dict[str, dict[str, int]] = {}
        self._counted: dict[str, Counts] = {}
        manifest = {
            "study_name": WATCHED, "study": json.dumps({"watch": list(words)}), "device": device, "simulated": False,
            "device_description": dict(described or {}), "sensors": [], "sessions": [session()], "state": "running",
            "watched": {},
        }  # fmt: skip
        self._folder = RunFolder.create(new_run_path(root, WATCHED), manifest)
        self._keeper = subprocess.Popen(
            # In a session of its own: Ctrl-C is for the watcher, whose end it survives.
            [*KEEPER, str(self.path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._folder.path

    def add(self, tracks: Sequence[Track], sharing: str) -> None:
        """Keep what was read since the last time. Raises RunFolderError if something can't be written."""
        first = self._began_s is None
        portion = self.portion(tracks, sharing)
        if portion is None:
            return
        packed = pickle.dumps(portion)
        assert self._keeper.stdin is not None
        try:
            self._keeper.stdin.write(len(packed).to_bytes(8, "little") + packed)
            self._keeper.stdin.flush()
        except BrokenPipeError:
            self.close()
        if first:
            self.describe(tracks, (), ())  # so that a run whose watcher is killed has names

    def portion(self, tracks: Sequence[Track], sharing: str) -> Portion | None:
        """What was read since the last time; None if nothing."""
        tenants = tuple(self._read_of(track) for track in tracks)
        starts = [t_s[0] for tenant in tenants for t_s, _, _ in tenant.read.values()]
        if not starts:
            return None
        if self._began_s is None:
            self._began_s = float(min(starts))
        return Portion(self._device, sharing, self._began_s, tenants)

    def close(self) -> None:
        """Wait until all is on disk. Raises RunFolderError if it can't be written."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        with suppress(BrokenPipeError):
            self._keeper.stdin.close()
        problem = self._keeper.stdout.read()
        self._keeper.stdout.close()
        if self._keeper.wait():
            told = json.loads(problem or b"{}")
            raise RunFolderError(
                told.get("message", f"What was watched could not be written to {self.path}."), hint=told.get("hint")
            )

    def describe(
        self, tracks: Sequence[Track], notes: Sequence[str], unseen: Sequence[str], *, last: bool = False
    ) -> None:
        """Who was watched and what happened, in the manifest. Raises RunFolderError."""
        self._folder.update_manifest(
            watched={
                "tenants": {track.tenant: _description(track) for track in tracks},
                "notes": list(notes),
                "unseen": list(unseen),
            },
            **({"state": "complete", "why": "it was stopped", "trials": len(self._folder.committed())} if last else {}),
        )

    def _read_of(self, track: Track) -> TenantPortion:
        done = self._read.setdefault(track.tenant, {})
        read = {}
        for role, (t_s, value) in track.since(done).items():
            if t_s.size:
                done[role] = done.get(role, 0) + t_s.size
                read[role] = (t_s, value, track.sources.get(role, ""))
        counted, before = track.counted(), self._counted.get(track.tenant, {})
        self._counted[track.tenant] = counted
        new = {
            measured: {bound: count - before.get(measured, {}).get(bound, 0.0) for bound, count in counts.items()}
            for measured, counts in counted.items()
        }
        return TenantPortion(track.tenant, track.software, track.facts.get("pid"), read, new)


def records_of(portions: Sequence[Portion], trial: int) -> TrialRecords:
    """The portions of a stretch of time as one trial."""
    times, values, sensors, units, sources = [], [], [], [], []
    for portion in portions:
        for tenant in portion.tenants:
            for role, (t_s, value, source) in tenant.read.items():
                times.append(t_s)
                values.append(value)
                sensors.append(np.full(t_s.size, sensor_name(role, tenant.tenant), object))
                units.append(np.full(t_s.size, role_unit(role), object))
                sources.append(np.full(t_s.size, source, object))
    t_s, last = np.concatenate(times), portions[-1]
    since, until = float(t_s.min()), float(t_s.max())
    names = [tenant.tenant for tenant in last.tenants]
    return TrialRecords(
        trial={
            "trial": trial, "block": int((since - last.began_s) / BLOCK_S), "order": 0, "session": 0,
            "mix": "+".join(names), "solo": False, "device": last.device, "simulated": False,
            "sharing": last.sharing if len(names) > 1 else "alone", "settings": "{}", "load": WATCHED, "seed": 0,
            "started_utc": datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds"),
            "start_ns": round(since * 1e9), "window_start_ns": round(since * 1e9), "window_s": until - since,
            "verdict": "valid", "failed_checks": [], "reasons": [],
        },
        tenants=tuple(
            {
                "tenant": tenant.tenant, "of": tenant.tenant, "workload": tenant.software, "batch": 1, "load": WATCHED,
                "pid": tenant.pid, "facts": json.dumps({"buckets": _summed(portions, tenant.tenant)}),
            }
            for tenant in last.tenants
        ),
        requests={},
        samples={
            "device": np.full(t_s.size, last.device, object), "t_ns": np.round(t_s * 1e9).astype(np.int64),
            "sensor": np.concatenate(sensors), "value": np.concatenate(values), "unit": np.concatenate(units),
            "source": np.concatenate(sources),
        },
    )  # fmt: skip


def _summed(portions: Sequence[Portion], name: str) -> dict[str, dict[str, float]]:
    sums: dict[str, dict[str, float]] = {}
    for tenant in (tenant for portion in portions for tenant in portion.tenants if tenant.tenant == name):
        for measured, counts in tenant.counted.items():
            sum_ = sums.setdefault(measured, {})
            for bound, count in counts.items():
                sum_[str(bound)] = sum_.get(str(bound), 0.0) + count
    return sums


def _description(track: Track) -> Mapping[str, Any]:
    totals = track.totals()
    return {
        "software": track.software,
        "facts": dict(totals.facts),
        "grants": [asdict(grant) for grant in totals.grants],
        "as_of": now_utc(),
    }
