"""Gavel's jobs as tenants of a matrix: solo profiles, the prior, and every measured pair."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from cotenant.prediction.contention.closed_form import log_slowdowns
from cotenant.prediction.contention.demand import demands_of
from cotenant.prediction.interference.correction import Evidence
from cotenant.prediction.interference.profiles import profiles_of
from cotenant.prediction.interference.setting import Setting, setting_of
from cotenant.prediction.kernels.columns import Floats
from validation.interference.gavel_data import GPUS, LOOKED_AT, Job, jobs_of, measured_pairs, read_tables, traces_of

__all__ = ["LOOKED_AT", "Matrix", "gavel_matrix"]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A GPU's pairs."""

    title: str
    jobs: tuple[Job, ...]
    setting: Setting
    evidence: Evidence
    """Every measured pair."""
    features: Floats
    """Tenants x solo features."""

    @property
    def families(self) -> tuple[str, ...]:
        """By tenant."""
        return tuple(job.family for job in self.jobs)


def gavel_matrix(data: Path, gpu: str, *, blind: Collection[str] = ()) -> Matrix:
    """The pairs of a GPU.

    Args:
        data: The folder of measured data.
        gpu: `v100` or `p100`.
        blind: Families for which the prior uses nothing chosen with pairs in view.
    """
    table = read_tables(data)[gpu]
    jobs = jobs_of(table)
    traces = traces_of(jobs, GPUS[gpu], blind=blind)
    names = list(jobs)
    profiles = profiles_of([traces[name] for name in names], [1e9 * jobs[name].seconds for name in names])
    features = profiles.features()
    setting = setting_of(
        [jobs[name].family for name in names],
        features,
        partial(log_slowdowns, demands_of([traces[name] for name in names])),
    )
    return Matrix(
        GPUS[gpu].title, tuple(jobs.values()), setting, _evidence(measured_pairs(table, jobs), names), features
    )


def _evidence(pairs: Mapping[tuple[str, str], tuple[float, float]], names: list[str]) -> Evidence:
    rows, logs, cells = [], [], []
    for cell, ((first, second), slowdowns) in enumerate(pairs.items()):
        a, b = names.index(first), names.index(second)
        directions = [(a, b, slowdowns[0])] if a == b else [(a, b, slowdowns[0]), (b, a, slowdowns[1])]
        for victim, neighbour, slowdown in directions:
            rows.append((victim, neighbour))
            logs.append(np.log(slowdown))
            cells.append(cell)
    count = len(logs)
    return Evidence(
        np.array(rows, np.int64),
        np.array(logs),
        variance=np.zeros(count),
        cell=np.array(cells, np.int64),
        blocks=np.ones(count, np.int64),
        half=np.zeros(count),
    )
