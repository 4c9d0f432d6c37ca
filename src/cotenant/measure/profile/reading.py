"""Reads profiles from a run folder, or from another tool's file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.analyse.kernel_overlap import KernelProfile, Window, profile_of
from cotenant.errors import RunFolderError
from cotenant.store.imports.result import Imported
from cotenant.store.manifest import PROFILE_PASS
from cotenant.store.reading import open_runs

SHOWN = ("sm_active", "sm_issue", "tensor_active", "dram_active", "dram_read_active", "dram_write_active",
         "sm_clock_mhz", "power_w", "temperature_c")  # fmt: skip
"""Counters shown beside kernels."""


def from_run(path: Path, *, top: int) -> tuple[tuple[KernelProfile, ...], Mapping[str, Any]]:
    """The profile of each trial of a profile pass, and the pass's manifest entry.

    Raises:
        RunFolderError: Not a run, or one without a profile.
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
    window = Window(int(start_ns), int(start_ns + window_s * 1e9))
    return profile_of(plain, _readings(samples), mix=mix, sharing=sharing, window=window, top=top)


def _readings(samples: Mapping[str, Any]) -> list[tuple[str, str, str, Any, Any]]:
    columns = {name: np.ma.getdata(column) for name, column in samples.items()}
    kinds = dict.fromkeys(zip(columns["device"], columns["sensor"], columns["unit"], strict=True))
    readings = []
    for device, sensor, unit in kinds:
        mine = (columns["device"] == device) & (columns["sensor"] == sensor)
        readings.append((str(device), str(sensor), str(unit), columns["t_ns"][mine], columns["value"][mine]))
    return readings
