"""Five repeats are too many for one pair and too few for another.

Three pairs that differ in how noisy they are; each is studied 300 times, until its slowdown is known to 3 %, with at
least 5 and at most 100 blocks. Beside it what five blocks give, whatever the pair. The last column is the price of
stopping at a narrow moment.
"""

import math

import numpy as np

from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.measure.stopping import Rule, StoppingState, reason_to_stop
from cotenant.reporting.elements.markdown import table
from cotenant.text import percent

HEAD = (
    "noise of a block",
    "half-width after 5 blocks",
    "blocks until 3 %",
    "half-width then",
    "contain the truth then",
)
TRUTH, STUDIES = 1.5, 300
RULE = Rule(target=0.03, budget_s=None, blocks_min=5, blocks_max=100)


def rows() -> list[tuple[str, ...]]:
    """By noise."""
    rng = np.random.default_rng(1)
    return [_row(rng, noise) for noise in (0.005, 0.03, 0.08)]


def _row(rng: np.random.Generator, noise: float) -> tuple[str, ...]:
    after_five, blocks, widths, right = [], [], [], 0
    for _ in range(STUDIES):
        logs = math.log(TRUTH) + noise * rng.normal(size=RULE.blocks_max)
        n = RULE.blocks_min
        found = ratio_interval(logs[:n])
        after_five.append(found.relative_half_width)
        while reason_to_stop(RULE, StoppingState(n, 0.0, 0.0, found.relative_half_width)) is None:
            n += 1
            found = ratio_interval(logs[:n])
        assert found.lo is not None
        assert found.hi is not None
        blocks.append(n)
        widths.append(found.relative_half_width)
        right += found.lo <= TRUTH <= found.hi
    return (
        percent(noise),
        percent(np.median(after_five)),
        f"{np.median(blocks):.0f}",
        percent(np.median(widths)),
        percent(right / STUDIES),
    )


if __name__ == "__main__":
    print(table(HEAD, rows()))
