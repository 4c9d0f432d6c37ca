"""Gavel: 26 training jobs, alone and in all pairs, on a V100 and a P100."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cotenant.errors import DataError
from cotenant.prediction.contention.trace import Trace
from validation.interference.anatomy import TYPICAL, Anatomy, Measured, fit_anatomy
from validation.reading import HINT, LeftOutRows, read_json

FILE = "sharing/v100_p100_pairs_gavel.json"
SOURCE = "stanford-futuredata/gavel, oracle_throughputs.json (OSDI'20), MIT"
HOST_US = 25.0
"""Host time per launch of eager PyTorch of that time, if no measurement determines it: ParvaGPU's plateaus at small
batches are 25 to 30 us per operator for every one of its vision models."""
LOOKED_AT = frozenset({"A3C", "CycleGAN", "Recommendation"})
"""Models whose anatomy was chosen with their pairs in view."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of the source."""

    title: str
    flops: float
    """Sustained float32 rate: 80 % of its peak."""
    bytes_per_s: float
    """Sustained DRAM rate: 80 % of its peak."""


GPUS = {
    "v100": Gpu("V100", 12.5e12, 720e9),
    "p100": Gpu("P100", 7.6e12, 586e9),
}


@dataclass(frozen=True, slots=True)
class Family:
    """Facts about a model from its architecture."""

    kernels: int | None
    """Launches of an eager training step: forward, backward and optimiser. None: derived from the host's time."""
    item_flops: float | None = None
    """Training FLOPs per item, if times over batches can't separate host from device."""
    item_bytes: float = 0.0
    counted: bool = True
    """True if the FLOPs are counted from the architecture, False if guessed."""
    steps_per_iteration: float = 0.0
    """Items per reported iteration; 0 if an iteration is a step."""


FAMILIES = {
    "ResNet-50": Family(kernels=1200),
    "ResNet-18": Family(kernels=470),
    "LM": Family(kernels=400),  # two LSTM layers over 35 steps
    "Transformer": Family(kernels=3400),  # 6 + 6 layers; Adam alone launches two thirds
    # Six passes of two generators of 114 GFLOPs with their backward passes, and the discriminators.
    "CycleGAN": Family(kernels=4000, item_flops=1.9e12),
    "A3C": Family(
        kernels=900, item_flops=0.45e12, counted=False
    ),  # four simulators on the CPU; the device's part is a guess
    # An autoencoder over 20,108 items with 200 hidden units; one reported iteration covers all training users.
    "Recommendation": Family(kernels=90, item_flops=48.3e6, item_bytes=12 * 4 * 20108.0, steps_per_iteration=116_677.0),
}
UNKNOWN = Family(kernels=None)
"""An unknown model: its times over batches separate host and device. With all four held-out models treated as unknown,
their error rises from 10 to 13 %."""
FEWEST_KERNELS, MOST_KERNELS = 50, 5000


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the table."""

    name: str
    family: str
    batch: int
    seconds: float
    """Time of a step alone."""


Table = Mapping[str, Mapping[str, Any]]
"""By job: its throughput alone (`null`), and both throughputs beside each other job."""


def jobs_of(table: Table) -> Mapping[str, Job]:
    """The jobs of a GPU by name, in order."""
    return {name: _job(name, table[name]["null"]) for name in sorted(table)}


def measured_pairs(table: Table, jobs: Mapping[str, Job]) -> Mapping[tuple[str, str], tuple[float, float]]:
    """Slowdowns of both jobs of every pair that was measured and fits."""
    left_out = LeftOutRows()
    pairs = {}
    for first in jobs:
        for second in (name for name in jobs if first <= name):
            mine, theirs = _pair(table, first, second, left_out)
            if mine > 0 and theirs > 0:
                pairs[first, second] = (table[first]["null"] / mine, table[second]["null"] / theirs)
    return pairs


def traces_of(jobs: Mapping[str, Job], gpu: Gpu, *, blind: Collection[str] = ()) -> Mapping[str, Trace]:
    """A request of each job for the engine; for ``blind`` families, only times and counted FLOPs are used."""
    traces: dict[str, Trace] = {}
    for family in sorted({job.family for job in jobs.values()}):
        known = FAMILIES.get(family, UNKNOWN)
        known = _blind(known) if family in blind else known
        members = [job for job in jobs.values() if job.family == family]
        if known.item_flops is None:
            anatomy = fit_anatomy([Measured(batch=job.batch, time=job.seconds) for job in members])
            traces |= {job.name: _scaled(anatomy, job, known.kernels) for job in members}
        else:
            traces |= {job.name: _by_flops(job, known, gpu) for job in members}
    return traces


def _blind(known: Family) -> Family:
    """Without constants chosen with pairs in view."""
    return replace(known, item_bytes=0.0) if known.item_flops is not None and known.counted else UNKNOWN


def _scaled(anatomy: Anatomy, job: Job, kernels: int | None) -> Trace:
    """The family's anatomy at this batch, at this job's own time."""
    unit = job.seconds / max(anatomy.host_time(job.batch), sum(anatomy.parts(job.batch)))
    if kernels is None:
        launched = anatomy.host_time(job.batch) * unit / (HOST_US * 1e-6)
        kernels = int(min(max(launched, FEWEST_KERNELS), MOST_KERNELS))
    return anatomy.trace(job.batch, unit_ns=1e9 * unit, kernels=kernels)


def _by_flops(job: Job, known: Family, gpu: Gpu) -> Trace:
    """Device time from the architecture; the rest is host time before the device can start."""
    assert known.item_flops is not None
    assert known.kernels is not None
    device = job.batch * (known.item_flops / gpu.flops + known.item_bytes / gpu.bytes_per_s)
    device = min(device, 0.95 * job.seconds)
    launches = min(known.kernels * HOST_US * 1e-6, 0.9 * device)
    anatomy = Anatomy(host=(launches, 0.0), device=(0.0, device), fixed=TYPICAL[:2], sm_bound=TYPICAL[2:])
    return anatomy.trace(1, unit_ns=1e9, kernels=known.kernels, serial=job.seconds - device)


def _job(name: str, iterations_per_s: float) -> Job:
    family, _, rest = name.partition(" (batch size ")
    batch = int(rest.rstrip(")")) if rest.rstrip(")").isdecimal() else 1
    known = FAMILIES.get(family, UNKNOWN)
    steps = known.steps_per_iteration / max(batch, 1) or 1.0
    return Job(name, family, max(batch, 1), 1 / iterations_per_s / steps)


def read_tables(data: Path) -> Mapping[str, Table]:
    """Tables by GPU, validated."""
    tables = read_json(data, FILE)
    if not isinstance(tables, dict) or not all(isinstance(jobs, dict) and jobs for jobs in tables.values()):
        raise DataError(f"{FILE} doesn't contain jobs by GPU.", hint=HINT)
    for gpu, jobs in tables.items():
        for name, row in jobs.items():
            if not isinstance(row, dict) or not _is_rate(row.get("null")) or not row["null"]:
                raise DataError(f"{FILE} has no throughput of {name!r} alone on {gpu!r}.", hint=HINT)
            for other, pair in row.items():
                good = isinstance(pair, list) and len(pair) == 2 and all(map(_is_rate, pair))
                if other != "null" and not good:
                    raise DataError(f"{FILE} has no two throughputs of {name!r} beside {other!r}.", hint=HINT)
    return tables


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def _pair(table: Table, first: str, second: str, left_out: LeftOutRows) -> tuple[float, float]:
    """Throughputs of two jobs together, from the row of either; zeros if there are none."""
    mine, theirs = table[first].get(second) or reversed(table[second].get(first, (-1.0, -1.0)))
    if not (mine > 0 and theirs > 0):
        why = "they weren't measured together" if mine < 0 else "they don't fit together"
        left_out.add(why, f"{first} and {second}", 1 if first == second else 2)
    return mine, theirs
