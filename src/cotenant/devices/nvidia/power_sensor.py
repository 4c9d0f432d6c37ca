"""How a GPU's power readings are made: published by architecture and driver, or found by polling.

The published values are measurements of more than 70 GPUs by Yang, Adamek and Armour (arXiv 2312.02741).
"""

import time
from collections.abc import Callable, Mapping

import numpy as np

from cotenant.analyse.energy.energy import FEWEST_CHANGES, Counter, Floats, PowerSensor

SPLIT_DRIVER = "530"
"""The driver branch in which the average on Ampere and Ada was an instantaneous reading."""


_FAST = {"usage": (20, 10), "instant": (20, 10)}
_PLAIN = {"usage": (100, 100), "instant": (100, 100)}
_QUARTER = {"usage": (100, 25), "instant": (100, 25)}
_AVERAGED = {"usage": (100, 1000), "average": (100, 1000), "instant": (100, 100)}
_HOPPER = {"usage": (100, 1000), "average": (100, 1000), "instant": (100, 25)}
_PUBLISHED: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "kepler": _PLAIN, "maxwell": _PLAIN, "pascal": _FAST, "volta": _FAST, "turing": _PLAIN, "ga100": _QUARTER,
    "ampere": _AVERAGED, "ada": _AVERAGED, "hopper": _HOPPER,
}  # fmt: skip
"""Update period and window in milliseconds, by architecture and counter."""


def expected(
    architecture: str, compute_capability: tuple[int, int], driver: str, counter: Counter
) -> PowerSensor | None:
    """Published values for this counter on this kind of GPU; None if it lacks the counter."""
    kind = "ga100" if architecture == "ampere" and compute_capability == (8, 0) else architecture
    branch = driver.partition(".")[0]
    if kind in {"ampere", "ada"} and counter == "usage" and branch == SPLIT_DRIVER:
        return PowerSensor(counter, 0.1, 0.1)
    found = _PUBLISHED.get(kind, _HOPPER).get(counter)
    return None if found is None else PowerSensor(counter, found[0] / 1e3, found[1] / 1e3, known=kind in _PUBLISHED)


def watch(read: Callable[[], float], *, at_most_s: float = 0.7, pause_s: float = 0.002) -> tuple[Floats, Floats]:
    """Poll until the value has changed often enough; return times and values."""
    begin = time.monotonic()
    t_s, values = [0.0], [read()]
    changes = 0
    while t_s[-1] < at_most_s and changes < 3 * FEWEST_CHANGES:
        time.sleep(pause_s)
        values.append(read())
        t_s.append(time.monotonic() - begin)
        changes += values[-1] != values[-2]
    return np.array(t_s), np.array(values)
