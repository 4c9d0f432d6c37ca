"""Tenants whose true slowdowns differ from the prior by effects of victim and neighbour."""

from functools import partial

import numpy as np

from cotenant.prediction.interference.correction import Evidence
from cotenant.prediction.interference.profiles import GpuProfiles
from cotenant.prediction.interference.setting import Setting, by_victim, every_mix, placed, present, setting_of

TENANTS = 12


def profiles(tenants: int = TENANTS, seed: int = 3) -> GpuProfiles:
    random = np.random.default_rng(seed)
    device = random.uniform(2e6, 5e7, tenants)
    serial = random.uniform(0.0, 2e7, tenants)
    return GpuProfiles(
        solo_ns=device + serial,
        device_ns=device,
        work_ns=device * random.uniform(0.4, 0.9, tenants),
        occupancy=np.ones(tenants),
        dram=random.uniform(0.1, 0.6, tenants),
        launch_ns=device * random.uniform(0.1, 0.8, tenants),
        serial_ns=serial,
        kernels=random.integers(50, 1000, tenants).astype(float),
    )


def expected(solo: GpuProfiles, mixes: np.ndarray) -> np.ndarray:
    """A prior: a tenant loses what its neighbours keep of the device, as far as it needs the device."""
    kept = placed(solo.work_ns / solo.solo_ns, mixes, 0.0)
    needed = placed(solo.device_ns / solo.solo_ns, mixes, 0.0)
    others = kept.sum(axis=1, keepdims=True) - kept
    return np.where(present(mixes), np.log1p(needed * others), np.nan)


def setting(tenants: int = TENANTS) -> Setting:
    solo = profiles(tenants)
    return setting_of([f"model-{tenant // 2}" for tenant in range(tenants)], solo.features(), partial(expected, solo))


def measured(where: Setting, mixes: np.ndarray, *, noise: float = 0.01, seed: int = 5) -> Evidence:
    """Every victim of every mix: prior, effects of about 8 % each, noise."""
    effects = np.random.default_rng(1).normal(0.0, 0.08, (2, len(where)))
    which, place, rows = by_victim(mixes)
    neighbours = np.where(rows[:, 1:] >= 0, effects[1][np.maximum(rows[:, 1:], 0)], 0.0)
    of_neighbours = neighbours.sum(axis=1) / (rows[:, 1:] >= 0).sum(axis=1)
    random = np.random.default_rng(seed)
    logs = where.prior(mixes)[which, place] + effects[0][rows[:, 0]] + of_neighbours
    count = len(rows)
    return Evidence(
        rows,
        logs + random.normal(0.0, noise, count),
        variance=np.full(count, noise**2),
        cell=which,
        blocks=np.full(count, 5, np.int64),
        half=np.full(count, 2 * noise),
    )


def pairs(tenants: int = TENANTS) -> np.ndarray:
    return every_mix(tenants, 2)
