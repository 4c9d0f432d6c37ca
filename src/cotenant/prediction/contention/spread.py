"""The numbers by which host times vary between requests: a function of the seed, without a generator's state."""

from typing import Any

import numpy as np

from cotenant.extras import compiled


@compiled(inline=True)
def uniform(seed: int, tenant: int, number: int) -> Any:
    """Deterministic number from 0 to 1 for these three values (splitmix64)."""
    z = np.uint64(seed) + np.uint64(tenant) * np.uint64(0xD1342543DE82EF95)
    z += (np.uint64(number) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return float(z >> np.uint64(11)) / 9007199254740992.0
