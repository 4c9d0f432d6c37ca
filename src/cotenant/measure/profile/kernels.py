"""A profiler's results, on the trial's clock and under its tenants' names."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.analyse.kernel_overlap import KernelProfile, OverlapWindow, profile_of
from cotenant.errors import DataError, RunFolderError
from cotenant.store import imports as importing
from cotenant.store.imports import KERNEL_COLUMNS, Imported, sentence
from cotenant.store.manifest import PROFILE_PASS
from cotenant.store.reading import open_runs
from cotenant.tenancy.records import Columns


def from_tenants(folder: Path) -> Columns:
    """Read the files tenants wrote themselves; empty if none had kernels."""
    parts: list[Mapping[str, Any]] = []
    for file in sorted(folder.glob("[0-9]*.npz")):
        with np.load(file, allow_pickle=False) as stored:
            parts.append({name: stored[name] for name in KERNEL_COLUMNS})
    full = [part for part in parts if len(part["name"])]
    return {name: np.concatenate([part[name] for part in full]) for name in KERNEL_COLUMNS} if full else {}


def from_export(file: Path, start_ns: int) -> tuple[Columns, Columns, str | None]:
    """Kernels and counter samples of an nsys export on the monotonic clock, and a note if something is wrong.

    Args:
        file: The SQLite export.
        start_ns: When the first trial started, for exports without a clock reference.
    """
    try:
        found = importing.read(file, format="nsys", skip_bad=True)
    except DataError as problem:
        return {}, {}, problem.message
    note = None
    if found.facts.get("session_start_utc_ns") is not None:
        shift = time.monotonic_ns() - time.time_ns()
    else:
        firsts = [found.kernels["start_ns"].min()] if found.kernels else []
        shift = start_ns - int(min([*firsts, *(series.t_ns[0] for series in found.series)]))
        note = "The export has no clock reference: its first kernel is taken as the start of the first trial."
    kernels, samples = dict(found.kernels), dict(found.samples())
    if kernels:
        kernels["start_ns"] = kernels["start_ns"] + shift
    if samples:
        samples["t_ns"] = samples["t_ns"] + shift
    return kernels, samples, note


def of_trial(kernels: Columns, tenants: Mapping[str, int | None], span: tuple[int, int]) -> Columns:
    """The kernels of a trial's tenants, without those from building and warming up before its start.

    Args:
        kernels: Those of all trials.
        tenants: The trial's, with their processes.
        span: Start of the trial, and of the next trial.
    """
    if not kernels:
        return {}
    pids = {pid: tenant for tenant, pid in tenants.items() if pid is not None}
    keep = (kernels["start_ns"] >= span[0]) & (kernels["start_ns"] < span[1])
    mine = {name: column[keep] for name, column in kernels.items()}
    mine["tenant"] = np.array([_tenant(str(name), pids) for name in mine["tenant"]], dtype=object)
    known = np.isin(mine["tenant"].astype(str), list(tenants))
    return {name: column[known] for name, column in mine.items()}


def samples_of_trial(samples: Columns, device: str, span: tuple[int, int]) -> Columns:
    """Counters sampled during a trial, under the device's name."""
    if not samples:
        return {}
    keep = (samples["t_ns"] >= span[0]) & (samples["t_ns"] < span[1])
    mine = {name: column[keep] for name, column in samples.items()}
    return {**mine, "device": np.full(int(keep.sum()), device, dtype=object)} if keep.any() else {}


def _tenant(name: str, pids: Mapping[int, str]) -> str:
    """The tenant's name; by process where it has no range."""
    number = re.search(r"(\d+)\)?$", name)
    return pids.get(int(number[1]), name) if number else name


# --- reads profiles from a run folder, or from another tool's file

SHOWN = ("sm_active", "sm_issue", "tensor_active", "dram_active", "dram_read_active", "dram_write_active",
         "sm_clock_mhz", "power_w", "temperature_c")  # fmt: skip
"""Counters shown beside kernels."""


def from_run(path: Path, *, top: int) -> tuple[tuple[KernelProfile, ...], Mapping[str, Any]]:
    """The profile of each trial of a profile pass, and the pass's manifest entry.

    Raises:
        RunFolderError: Not a run, or a run without a profile.
    """
    with open_runs([path]) as runs:
        (manifest,), con = runs.manifests, runs.con
        marked = manifest.get(PROFILE_PASS)
        if not isinstance(marked, Mapping):
            raise RunFolderError(
                f"{path} is not a profile pass: its trials were measured without a profiler.",
                hint="profile its study: cotenant profile STUDY",
            )
        trials = con.execute(
            "SELECT trial, mix, sharing, window_start_ns, window_s FROM trials ORDER BY trial"
        ).fetchall()
        profiles = tuple(_trial(con, row, top) for row in trials)
    return profiles, marked


def from_import(found: Imported, *, top: int) -> KernelProfile:
    """The profile in a foreign file."""
    readings = [
        (s.device, s.sensor, s.unit, s.t_ns, s.value) for s in found.series if s.sensor in SHOWN and s.t_ns.size
    ]
    return profile_of(found.kernels, readings, mix=found.path.name, sharing=found.format, top=top)


def _trial(con: Any, row: tuple[Any, ...], top: int) -> KernelProfile:
    number, mix, sharing, start_ns, window_s = row
    kernels = con.execute(
        "SELECT tenant, name, device, start_ns, duration_ns FROM kernels WHERE trial = ? ORDER BY start_ns", [number]
    ).fetchnumpy()
    samples = con.execute(
        "SELECT device, sensor, unit, t_ns, value FROM samples WHERE trial = ? AND list_contains(?, sensor) "
        "ORDER BY t_ns",
        [number, list(SHOWN)],
    ).fetchnumpy()
    plain = {name: np.ma.getdata(column) for name, column in kernels.items()}
    window = OverlapWindow(int(start_ns), int(start_ns + window_s * 1e9))
    return profile_of(plain, _readings(samples), mix=mix, sharing=sharing, window=window, top=top)


def _readings(samples: Mapping[str, Any]) -> list[tuple[str, str, str, Any, Any]]:
    columns = {name: np.ma.getdata(column) for name, column in samples.items()}
    kinds = dict.fromkeys(zip(columns["device"], columns["sensor"], columns["unit"], strict=True))
    readings = []
    for device, sensor, unit in kinds:
        mine = (columns["device"] == device) & (columns["sensor"] == sensor)
        readings.append((str(device), str(sensor), str(unit), columns["t_ns"][mine], columns["value"][mine]))
    return readings


@dataclass(frozen=True, slots=True)
class Profile:
    """Kernels of every mix."""

    subject: str
    tool: str
    """The profiler, or the format of the file."""
    folder: Path | None
    """The run folder of a profile pass."""
    profiles: tuple[KernelProfile, ...]
    notes: tuple[str, ...]


def profile_of_run(path: Path, top: int) -> Profile:
    """What a profile pass recorded."""
    profiles, marked = from_run(path, top=top)
    notes = [str(note) for note in marked.get("notes") or ()]
    notes += [
        f"No kernel of {profile.mix} was seen: its work may run elsewhere."
        for profile in profiles
        if not profile.tenants
    ]
    return Profile(str(path), str(marked.get("tool")), path, profiles, tuple(notes))


def profile_of_file(path: Path, top: int, *, skip_bad: bool) -> Profile:
    """What an export of a profiler contains. Raises DataError."""
    found = importing.read(path, skip_bad=skip_bad)
    if not found.kernels:
        raise DataError(
            f"{path} contains no kernels: it is {importing.FORMATS[found.format].meaning}.",
            hint="profiles are exports of Nsight Systems (SQLite) and traces of nvprof (CSV)",
        )
    notes = tuple(f"Left out: {sentence(skipped)}." for skipped in found.skipped)
    return Profile(str(path), found.format, None, (from_import(found, top=top),), notes)
