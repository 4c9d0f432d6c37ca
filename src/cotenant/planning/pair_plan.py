"""Pair tenants, a pair per device: the best pairs, and which to measure before trusting them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cotenant.errors import StudyError
from cotenant.planning.solver.problem import Floats, Ints
from cotenant.prediction.interference import MEASURED, NextMix, Predictor, choose_next_cells, predictor_for

if TYPE_CHECKING:
    from cotenant.prediction.interference import Asked

HOPES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""Standard deviations by which unmeasured pairs may beat their prediction; larger ones if smaller add no pair."""


def best_pairs(worth: Floats, pairs: Ints, tenants: int) -> Ints:
    """Positions in ``pairs`` of the most valuable disjoint pairs that cover all tenants but the last of an odd number.

    Args:
        worth: Worth of each pair.
        pairs: Rows of two tenant indices.
        tenants: Number of tenants.

    Raises:
        ValueError: No choice of these pairs covers them.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    holds = np.zeros((tenants, len(pairs)))
    holds[pairs[:, 0], np.arange(len(pairs))] = 1
    holds[pairs[:, 1], np.arange(len(pairs))] = 1
    solution = milp(
        -worth,
        constraints=[LinearConstraint(holds, 0, 1), LinearConstraint(np.ones((1, len(pairs))), tenants // 2)],
        integrality=np.ones(len(pairs), np.int64),
        bounds=Bounds(0, 1),
    )
    if solution.x is None:
        raise ValueError("these pairs can't cover all tenants")
    return np.flatnonzero(solution.x > 0.5)


def together(slowdowns: Floats) -> Floats:
    """Throughput of a pair: the sum of both speeds relative to alone."""
    return np.asarray((1 / slowdowns).sum(axis=1))


def next_pairs(predictor: Predictor, pairs: Ints, count: int) -> list[int]:
    """Positions of the pairs to measure for a plan: those it would use, least certain first.

    Once all of these are measured, pairs are ranked by an optimistic bound, so that underestimated ones are measured
    too.

    Args:
        predictor: Fitted to the measurements so far.
        pairs: All pairs that can share a device.
        count: Number of pairs to return.
    """
    predicted = predictor.slowdowns(pairs)
    known = predicted.basis[:, 0] == MEASURED
    both = [predictor.correction.variance(pairs), predictor.correction.variance(pairs[:, ::-1])]
    spread = np.where(known[:, None], 0.0, np.sqrt(np.stack(both, axis=1)))
    chosen: list[int] = []
    for hope in HOPES:
        hoped = together(np.maximum(predicted.estimate * np.exp(-hope * spread), 1.0))
        used = best_pairs(hoped, pairs, len(predictor.setting))
        fresh = [int(pair) for pair in used if not known[pair] and pair not in chosen]
        chosen += sorted(fresh, key=lambda pair: -float(spread[pair].sum()))
        if len(chosen) >= count:
            break
    return chosen[:count]


def for_pairing(asked: "Asked", groups: Sequence[tuple[str, ...]], sharing: str, count: int) -> list[NextMix]:
    """Pairs of the best pairing that were not measured, then those that may turn out to belong to it."""
    named = [group for group in groups if len(set(group)) == 2 == len(group)]
    if not named:
        raise StudyError("the study has no pairs of different tenants", hint="add `mixes: [solo, pairs]`")
    pairs = np.array([[asked.names.index(name) for name in group] for group in named], np.int64)
    predictor = predictor_for(asked, sharing)
    chosen = next_pairs(predictor, pairs, count)
    if not chosen:
        return []
    buys = dict(choose_next_cells(predictor.correction, pairs[chosen], len(chosen)))
    return [NextMix(named[place], sharing, buys[number]) for number, place in enumerate(chosen)]
