"""The master problem: choose among known columns to cover every unit at the least cost within the available devices.

A unit may be left out at a price above everything else, so the problem is always feasible and the solution names the
units that can't be placed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.planning.solver.problem import Floats, PlacedGroup, Problem

LEFT_OUT = 50.0
"""Price of leaving a unit out, relative to the most expensive column."""


@dataclass(frozen=True, slots=True)
class Relaxed:
    """The linear relaxation over the known columns."""

    cost: float
    worth: Floats
    """By unit: the marginal cost of placing it."""
    scarce: Floats
    """By kind: what another device would save; 0 while some are unused."""
    weight: Floats
    """By column."""
    left_out: Floats
    """By unit, the fraction not covered."""


@dataclass(frozen=True, slots=True)
class ChosenGroups:
    """Whole columns."""

    columns: tuple[PlacedGroup, ...]
    left_out: tuple[int, ...]
    bound: float
    """Lower bound for any choice of these columns, including units left out."""
    penalty: float
    """What each unit left out adds to the bound."""


def relax(problem: Problem, columns: Sequence[PlacedGroup]) -> Relaxed:
    """Solve the relaxation and return its dual prices."""
    from scipy.optimize import linprog

    cost, cover, counts = _matrices(problem, columns)
    done = linprog(
        cost,
        A_ub=_stacked(-cover, counts),
        b_ub=np.concatenate([-np.ones(problem.units), np.asarray(problem.available, float)]),
        bounds=(0, None),
        method="highs",
    )
    if done.x is None:
        raise ArithmeticError(f"the relaxation was not solved: {done.message}")
    prices = -np.asarray(done.ineqlin.marginals)
    return Relaxed(
        float(done.fun or 0.0),
        prices[: problem.units],
        prices[problem.units :],
        np.asarray(done.x[: len(columns)]),
        np.asarray(done.x[len(columns) :]),
    )


def choose(
    problem: Problem, columns: Sequence[PlacedGroup], *, seconds: float, exactly: bool = False, gap: float = 0.0
) -> ChosenGroups | None:
    """The best choice of whole columns; None if none was found in time.

    Args:
        problem: The units to cover.
        columns: The known columns.
        seconds: Time limit.
        exactly: Cover each unit exactly once rather than at least once, for judges whose groups can't be thinned out.
        gap: Stop at this relative distance from the optimum over these columns.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    cost, cover, counts = _matrices(problem, columns)
    done = milp(
        cost,
        integrality=np.ones(cost.size, np.int64),
        bounds=Bounds(0, np.concatenate([_most(problem, columns), np.ones(problem.units)])),
        constraints=[
            LinearConstraint(cover, 1, 1 if exactly else np.inf),
            LinearConstraint(counts, -np.inf, np.asarray(problem.available, float)),
        ],
        options={"time_limit": max(seconds, 0.05), "mip_rel_gap": gap},
    )
    if done.x is None:
        return None
    taken = np.round(done.x).astype(int)
    chosen = tuple(column for column, times in zip(columns, taken, strict=False) for _ in range(times))
    missing = tuple(int(unit) for unit in np.flatnonzero(taken[len(columns) :]))
    bound = float(done.mip_dual_bound) if done.mip_dual_bound is not None else -np.inf
    return ChosenGroups(chosen, missing, bound, float(cost[-1]) if cost.size > len(columns) else 0.0)


def _most(problem: Problem, columns: Sequence[PlacedGroup]) -> Floats:
    return np.array([min(1, problem.available[problem.options[column.option].kind]) for column in columns], float)


def _stacked(cover: Any, counts: Any) -> Any:
    from scipy.sparse import vstack

    return vstack([cover, counts], format="csr")


def _matrices(problem: Problem, columns: Sequence[PlacedGroup]) -> tuple[Floats, Any, Any]:
    """Costs of columns and of leaving units out, the unit-column incidence, and the devices each column takes."""
    from scipy.sparse import csr_array, eye_array, hstack

    dearest = max((column.cost for column in columns), default=1.0)
    rows = [unit for column in columns for unit in column.members]
    places = [index for index, column in enumerate(columns) for _ in column.members]
    cover = csr_array((np.ones(len(rows)), (rows, places)), shape=(problem.units, len(columns)))
    kinds = [problem.options[column.option].kind for column in columns]
    devices = [float(column.devices) for column in columns]
    size = (len(problem.available), len(columns) + problem.units)
    counts = csr_array((devices, (kinds, list(range(len(columns))))), shape=size)
    penalty = LEFT_OUT * (dearest if dearest > 0 else 1.0)  # devices may be free; the solver ignores tiny prices
    cost = np.concatenate([[column.cost for column in columns], np.full(problem.units, penalty)])
    return cost, hstack([cover, eye_array(problem.units)], format="csr"), counts
