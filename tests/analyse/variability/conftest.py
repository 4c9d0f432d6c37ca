"""Fleets with known answers."""

import numpy as np
import pytest

from cotenant.analyse.variability.readings import FleetReadings


def fleet(gpus=60, runs=20, *, between=0.02, within=0.001, seed=0, slow=None, days=10, **columns):
    """A fleet at a power cap: time goes with 1 / clock, power is pinned, a GPU's runs differ little."""
    random = np.random.default_rng(seed)
    factor = 1 + between * random.standard_normal(gpus)
    for number, value in (slow or {}).items():
        factor[number] = value
    gpu = np.repeat(np.arange(gpus), runs)
    time = 1000 * factor[gpu] * (1 + within * random.standard_normal(gpu.size))
    given = {
        "clock_mhz": 1365 / factor[gpu],
        "temperature_c": 65 + 4 * random.standard_normal(gpus)[gpu],
        "power_w": 297 + 0.5 * random.standard_normal(gpu.size),
        "at_s": 1.6e9 + np.tile(np.linspace(0, days * 86_400, runs), gpus),
        "cabinet": np.array([f"c{number // 20}" for number in gpu]),
        "node": np.array([f"n{number // 4}" for number in gpu]),
    } | columns
    return FleetReadings.of([f"GPU-{number:03d}" for number in gpu], time, **given)


@pytest.fixture(name="fleet")
def _fleet():
    return fleet
