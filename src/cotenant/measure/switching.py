"""Measures a run's own switching between windows: settling after a start, and carry-over."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cotenant.analyse.sharing.short_windows import Moments, carry_over, settled_after
from cotenant.tenancy.records import TrialRecords

BIN_S = 0.005
MOST_BINS = 60
"""What takes longer than this many bins is not settling after a switch."""

Key = tuple[str, str, str, str]
"""Mix, sharing, load, tenant."""


class Switching:
    """Sums over all windows of a run, so that memory does not grow with their number."""

    def __init__(self) -> None:
        self._bins: dict[int, Moments] = {}
        self._after: dict[Key, tuple[Moments, Moments]] = {}

    def add(self, trials: Sequence[TrialRecords]) -> None:
        """Add trials carried out without a pause, in that order."""
        before: set[str] | None = None
        for records in sorted(trials, key=lambda one: int(one.trial["start_ns"])):
            on = {str(tenant["of"]) for tenant in records.tenants}
            if records.trial["verdict"] != "invalid":
                for tenant in records.tenants:
                    self._add(records, str(tenant["tenant"]), None if before is None else str(tenant["of"]) in before)
            before = on

    def _add(self, records: TrialRecords, tenant: str, on_before: bool | None) -> None:
        columns = records.requests
        if not columns:
            return
        mine = (columns["tenant"] == tenant) & columns["ok"]
        counted = mine & columns["in_window"]
        if not counted.any():
            return
        took = columns["done_ns"] - columns["started_ns"]
        mean = float(took[counted].mean())
        since = (columns["started_ns"][mine] - int(records.trial["start_ns"])) / 1e9
        for number, ratio in zip((since / BIN_S).astype(int).tolist(), (took[mine] / mean).tolist(), strict=True):
            if 0 <= number < MOST_BINS and ratio > 0:
                self._bins.setdefault(number, Moments()).add(math.log(ratio))
        if on_before is not None:
            trial = records.trial
            key = (str(trial["mix"]), str(trial["sharing"]), str(trial["load"]), tenant)
            on, off = self._after.setdefault(key, (Moments(), Moments()))
            latency = columns["done_ns"][counted] - columns["intended_ns"][counted]
            (on if on_before else off).add(math.log(max(float(np.mean(latency)), 1.0)))

    def facts(self) -> dict[str, Any]:
        """For the manifest."""
        carried = carry_over(self._after.values())
        return {
            "settled_after_s": settled_after(self._bins, BIN_S),
            "carry_over": None if carried is None else carried.to_json(),
        }
