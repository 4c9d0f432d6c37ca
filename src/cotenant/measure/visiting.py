"""Selects the cells of a block to visit: precise ones less often, so that others get the time."""

from collections.abc import Collection, Sequence
from typing import Any

from cotenant.tenancy.nouns import Trial

SELDOM = 4
"""A cell that is precise enough is visited in one of this many blocks."""

CellKey = tuple[str, str, str]
"""Mix, sharing and load, as results name them."""


class Visits:
    """The block from which each cell was precise enough; kept in the manifest, so that a resumed run skips the same."""

    def __init__(self, kept: Sequence[Any] = ()) -> None:
        self._since = [(int(one["from"]), frozenset(tuple(cell) for cell in one["cells"])) for one in kept]

    def note(self, block: int, precise: Collection[CellKey]) -> bool:
        """Note that these cells are precise enough from this block on; return True if that is new."""
        found = frozenset(precise)
        if found == (self._since[-1][1] if self._since else frozenset()):
            return False
        self._since.append((block, found))
        return True

    def of(self, trials: Sequence[Trial], block: int) -> tuple[Trial, ...]:
        """The trials of a block to carry out, in order."""
        precise: frozenset[CellKey] = next(
            (cells for since, cells in reversed(self._since) if since <= block), frozenset()
        )
        return visited(trials, block, precise)

    def to_json(self) -> list[dict[str, Any]]:
        """As JSON, for the manifest."""
        return [{"from": block, "cells": sorted(map(list, cells))} for block, cells in self._since]


def cell_of(trial: Trial) -> CellKey:
    """The cell that a trial visits."""
    return trial.mix, str(trial.sharing), trial.load


def visited(trials: Sequence[Trial], block: int, precise: Collection[CellKey]) -> tuple[Trial, ...]:
    """All trials of every fourth block; in the others those of imprecise cells, and their baselines."""
    wanting = [trial for trial in trials if not trial.solo and cell_of(trial) not in precise]
    if block % SELDOM == 0 or not precise or not wanting:
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
