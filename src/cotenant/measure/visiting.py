"""Selects the cells of a block to visit: precise ones less often, so that others get the time."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from cotenant.analyse.sharing.slo import CellKey
from cotenant.analyse.sharing.slowdown import CurrentSlowdown
from cotenant.tenancy.nouns import Trial

SELDOM = 4
"""A cell that is precise enough is visited in one of this many blocks."""
RELAXED, RELAXED_EVERY = 0.5, 2
"""A cell at most this share as wide as the widest is visited in one of this many blocks: a run waits for the widest."""
LOOK_AGAIN = 1.25
"""Widths are judged again after this many times the blocks: in the short term they vary by chance."""

Cells = frozenset[CellKey]


class Visits:
    """Cells visited less often, by block; kept in the manifest, so that a resumed run skips the same."""

    def __init__(self, kept: Sequence[Any] = ()) -> None:
        self._since = [(int(one["from"]), _cells(one["cells"]), _cells(one.get("relaxed", ()))) for one in kept]

    def note(self, block: int, widths: Mapping[CellKey, float], target: float, *, relax: bool = False) -> bool:
        """Choose the cells to visit less often from this block on, by their half-widths; return True if that is new.

        ``relax``: also those that are far more precise than others.
        """
        since, *before = self._since[-1] if self._since else (0, Cells(), Cells())
        precise, relaxed = Cells(cell for cell, width in widths.items() if width <= target), before[1]
        if relax and block >= LOOK_AGAIN * since:
            widest = max(widths.values(), default=0.0)
            relaxed = Cells(cell for cell, width in widths.items() if width <= RELAXED * widest < math.inf)
        if [precise, relaxed] == before:
            return False
        self._since.append((block, precise, relaxed))
        return True

    def of(self, trials: Sequence[Trial], block: int) -> tuple[Trial, ...]:
        """The trials of a block to carry out, in order."""
        nothing = (0, Cells(), Cells())
        _, precise, relaxed = next((one for one in reversed(self._since) if one[0] <= block), nothing)
        return visited(trials, block, precise, relaxed)

    def to_json(self) -> list[dict[str, Any]]:
        """As JSON, for the manifest."""
        return [
            {"from": block, "cells": sorted(map(list, cells)), "relaxed": sorted(map(list, relaxed))}
            for block, cells, relaxed in self._since
        ]


def widths_of(now: Iterable[CurrentSlowdown], lacking: Collection[CellKey], target: float) -> dict[CellKey, float]:
    """The widest half-width of each cell; one with too few requests for an objective isn't precise enough yet."""
    widths: dict[CellKey, float] = {}
    for one in now:
        cell, width = (one.mix, one.sharing, one.load), one.estimate.relative_half_width
        widths[cell] = max(widths.get(cell, 0.0), math.inf if width is None else width)
    for cell in widths.keys() & set(lacking):
        widths[cell] = max(widths[cell], math.nextafter(target, math.inf))
    return widths


def _cells(kept: Iterable[Any]) -> Cells:
    return Cells(tuple(cell) for cell in kept)


def cell_of(trial: Trial) -> CellKey:
    """The cell that a trial visits."""
    return trial.mix, str(trial.sharing), trial.load


def visited(
    trials: Sequence[Trial], block: int, precise: Collection[CellKey], relaxed: Collection[CellKey] = ()
) -> tuple[Trial, ...]:
    """All trials of every fourth block; in the others those of cells that need it, and their baselines."""
    resting = {*(precise if block % SELDOM else ()), *(relaxed if block % RELAXED_EVERY else ())}
    wanting = [trial for trial in trials if not trial.solo and cell_of(trial) not in resting]
    if not resting or not wanting:
        return tuple(trials)
    kept = {trial.number for trial in wanting}
    needed = {_baseline(trial, tenant.of) for trial in wanting for tenant in trial.tenants}
    return tuple(
        trial
        for trial in trials
        if trial.number in kept or (trial.solo and any(_baseline(trial, one.of) in needed for one in trial.tenants))
    )


def _baseline(trial: Trial, of: str) -> tuple[str, str, str]:
    """What a mix shares with the solo trials it is compared with."""
    return of, trial.load, str(sorted(trial.settings.items()))
