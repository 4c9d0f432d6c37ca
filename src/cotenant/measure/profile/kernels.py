"""A profiler's results, on the trial's clock and under its tenants' names."""

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.errors import DataError
from cotenant.store import imports as importing
from cotenant.store.imports.result import KERNEL_COLUMNS
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
        shift = start_ns - int(min([*firsts, *(one.t_ns[0] for one in found.series)]))
        note = "The export has no clock reference: its first kernel is taken as the start of the first trial."
    kernels, samples = dict(found.kernels), dict(found.samples())
    if kernels:
        kernels["start_ns"] = kernels["start_ns"] + shift
    if samples:
        samples["t_ns"] = samples["t_ns"] + shift
    return kernels, samples, note


def of_trial(kernels: Columns, tenants: Mapping[str, int | None], span: tuple[int, int]) -> Columns:
    """The kernels of one trial's tenants, without those from building and warming up before its start.

    Args:
        kernels: Those of all trials.
        tenants: The trial's, with their processes.
        span: Start of the trial, and of the next one.
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
    """Counters sampled during one trial, under the device's name."""
    if not samples:
        return {}
    keep = (samples["t_ns"] >= span[0]) & (samples["t_ns"] < span[1])
    mine = {name: column[keep] for name, column in samples.items()}
    return {**mine, "device": np.full(int(keep.sum()), device, dtype=object)} if keep.any() else {}


def _tenant(name: str, pids: Mapping[int, str]) -> str:
    """The tenant's name; by process where it has no range."""
    number = re.search(r"(\d+)\)?$", name)
    return pids.get(int(number[1]), name) if number else name
