"""What a profiler left behind, on the trial's own clock and under its tenants' names."""

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cotenant import importing
from cotenant.errors import DataError
from cotenant.importing.result import KERNEL_COLUMNS
from cotenant.records import Columns


def from_tenants(folder: Path) -> Columns:
    """The files that tenants wrote themselves; empty if none had kernels."""
    parts: list[Mapping[str, Any]] = []
    for file in sorted(folder.glob("[0-9]*.npz")):
        with np.load(file, allow_pickle=False) as stored:
            parts.append({name: stored[name] for name in KERNEL_COLUMNS})
    full = [part for part in parts if len(part["name"])]
    return {name: np.concatenate([part[name] for part in full]) for name in KERNEL_COLUMNS} if full else {}


def from_export(file: Path, pids: Mapping[int, str], start_ns: int, device: str) -> tuple[Columns, Columns, str | None]:
    """Kernels and counter samples of an export of nsys, and a note on its clock.

    Args:
        file: The SQLite export.
        pids: The tenant of each process.
        start_ns: When the trial started, on the monotonic clock.
        device: The device's name, for the samples.
    """
    try:
        found = importing.read(file, format="nsys", skip_bad=True)
    except DataError as problem:
        return {}, {}, problem.message
    anchored = found.facts.get("session_start_utc_ns") is not None
    note = None
    if anchored:
        shift = time.monotonic_ns() - time.time_ns()
    else:
        firsts = [found.kernels["start_ns"].min()] if found.kernels else []
        shift = start_ns - int(min([*firsts, *(one.t_ns[0] for one in found.series)]))
        note = "The export says nothing of its clock: its first kernel is taken for the start of the trial."
    kernels = dict(found.kernels)
    if kernels:
        kernels["start_ns"] = kernels["start_ns"] + shift
        kernels["tenant"] = np.array([_tenant(name, pids) for name in kernels["tenant"]], dtype=object)
    samples = dict(found.samples())
    if samples:
        samples["t_ns"] = samples["t_ns"] + shift
        samples["device"] = np.full(len(samples["t_ns"]), device, dtype=object)
    return kernels, samples, note


def of_tenants(kernels: Columns, tenants: Sequence[str], start_ns: int) -> Columns:
    """Only what tenants did, and only from the trial's start on: before it they were built and warmed."""
    if not kernels:
        return {}
    keep = np.isin(np.asarray(kernels["tenant"]).astype(str), list(tenants)) & (kernels["start_ns"] >= start_ns)
    return {name: column[keep] for name, column in kernels.items()}


def _tenant(name: str, pids: Mapping[int, str]) -> str:
    """The tenant's name; a process that carries no range is known by its number."""
    number = re.search(r"(\d+)\)?$", name)
    return pids.get(int(number[1]), name) if number else name
