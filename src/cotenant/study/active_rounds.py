"""Rounds of `run --active`: which mixes to measure next, how precisely, and when all of them are known."""

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cotenant.errors import CotenantError
from cotenant.prediction.interference import FEWEST, MixForecast, PredictedMixes
from cotenant.study.mixes import MixLists
from cotenant.study.model import BlocksEntry, Study, Until
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.sharing import Sharing
from cotenant.text import amount

FIRST_SHARE, LATER_SHARE = 2 / 3, 1 / 3
"""Share of the mixes that seem to be needed to measure before choosing again: the first round has to tell how far the
deviations are right, and every round measures its tenants alone once more. Later ones take fewer: as the intervals are
calibrated on more mixes, fewer turn out to be needed."""
BLOCKS_PER_ROUND = 2
"""Of a study with a fixed number of blocks: a mix gets more in the next round if these don't agree."""
MEASURED_SHARE = 1 / 2
"""Of any other study: a mix is measured to this share of the width, because others are predicted from it."""
FEWEST_PER_ROUND = 2


@dataclass(frozen=True, slots=True)
class ActiveResult:
    """What was measured, and what is known about every mix. Reports of the last round show both."""

    folders: tuple[Path, ...]
    """One run per round."""
    prediction: PredictedMixes
    measured: int
    """Measured mixes, out of ``mixes``: each under the ways to share that were not known yet."""
    mixes: int
    why: str
    """Why it stopped."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "folders": [str(folder) for folder in self.folders],
            "measured": self.measured,
            "mixes": self.mixes,
            "why": self.why,
            "prediction": self.prediction,
        }


class Predict(Protocol):
    """Predictions from the runs so far, with suggestions of what to measure next."""

    def __call__(self, runs: Sequence[Path], *, next_mixes: int, width: float | None) -> PredictedMixes:
        """Every mix of the study. Raises CotenantError if something must be measured first."""


def in_rounds(study: Study, width: float, *, measure: Callable[[Study], Path], predict: Predict) -> ActiveResult:
    """Measure in rounds until every mix is known, measured or predicted; nothing is left to measure, or no time.

    Args:
        study: With all of its mixes.
        width: Relative half-width at which a slowdown counts as known.
        measure: Runs a round's study; returns its folder.
        predict: Predicts every mix from the folders so far.
    """
    groups = {mix.members for mix in study.mix_list()}
    deadline = None if study.budget_s is None else time.monotonic() + study.budget_s
    chosen = _first_mixes(study, width, groups, predict)
    most = 1 if study.until is not None else math.ceil(study.blocks.max / BLOCKS_PER_ROUND)
    folders: list[Path] = []
    tried: Counter[tuple[tuple[str, ...], str]] = Counter()
    ways: tuple[str, ...] = ()
    while True:
        left_s = None if deadline is None else max(deadline - time.monotonic(), 1.0)
        folders.append(measure(round_of(study, chosen, ways, width, left_s)))
        mixes = predict(folders, next_mixes=4 * len(groups), width=width)
        tried.update((mix, way) for mix in chosen for way in ways or {estimate.sharing for estimate in mixes.mixes})
        unknown = [estimate for estimate in mixes.mixes if not is_known(estimate, width)]
        left = [estimate for estimate in unknown if tried[estimate.mix, estimate.sharing] < most]
        why = reason_to_stop(
            unknown, left, deadline, width, "simulated" if DeviceName(mixes.device).simulated else "measured"
        )
        if why is not None:
            return ActiveResult(tuple(folders), mixes, len({mix for mix, _ in tried}), len(groups), why)
        ways = tuple(dict.fromkeys(estimate.sharing for estimate in left))
        suggested = suggested_mixes(mixes, ways, tried)
        again = [estimate.mix for estimate in left if tried[estimate.mix, estimate.sharing]]
        chosen = list(dict.fromkeys([*again, *suggested[: math.ceil(LATER_SHARE * len(suggested))]]))
        least = max(FEWEST_PER_ROUND, FEWEST - min(sum(way == used for _, used in tried) for way in ways))
        if len(chosen) < least:
            # The intervals are wider than the deviations promise, or there is too little evidence for intervals.
            more = predict(folders, next_mixes=4 * len(groups), width=None)
            others = [*chosen, *suggested_mixes(more, ways, tried), *(estimate.mix for estimate in left)]
            chosen = list(dict.fromkeys(others))[:least]


def _first_mixes(study: Study, width: float, groups: set[tuple[str, ...]], predict: Predict) -> list[tuple[str, ...]]:
    """Mixes of the first round."""
    around = ring(tuple(study.tenants), groups)
    try:
        mixes = predict((), next_mixes=4 * len(groups), width=width)
    except CotenantError:  # nothing can be predicted before the solos are measured
        return around
    suggested = suggested_mixes(mixes, tuple(dict.fromkeys(estimate.sharing for estimate in mixes.mixes)), ())
    suggested = suggested[: math.ceil(FIRST_SHARE * len(suggested))]
    if len(suggested) <= len(around):
        return around
    alone = set(study.tenants) - {name for mix in suggested for name in mix}
    return list(dict.fromkeys([*suggested, *(mix for mix in around if alone & set(mix))]))


def suggested_mixes(
    found: PredictedMixes, ways: tuple[str, ...], tried: Collection[tuple[tuple[str, ...], str]]
) -> list[tuple[str, ...]]:
    """Mixes suggested for the way to share that needs most: a round measures its mixes under all ways."""
    by_way = [
        [
            suggestion.mix
            for suggestion in found.next
            if suggestion.sharing == way and (suggestion.mix, way) not in tried
        ]
        for way in ways
    ]
    return max(by_way, key=len, default=[])


def ring(tenants: tuple[str, ...], groups: set[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Every tenant beside the next, as far as the study has such mixes; any two mixes if it has none."""
    pairs = [(first, tenants[(place + 1) % len(tenants)]) for place, first in enumerate(tenants)]
    there = [group for pair in pairs for group in (pair, pair[::-1]) if group in groups]
    return list(dict.fromkeys(there)) or sorted(groups)[:FEWEST_PER_ROUND]


def round_of(
    study: Study, chosen: Sequence[tuple[str, ...]], ways: tuple[str, ...], width: float, left_s: float | None
) -> Study:
    """These mixes under these ways to share; without ways, under all, and every tenant alone: the first round."""
    lists = MixLists(groups={f"m{number}": group for number, group in enumerate(chosen, 1)})
    changes: dict[str, Any] = {"mixes": (lists,) if ways else ("solo", lists), "budget_s": left_s}
    if study.until is None:
        blocks = min(BLOCKS_PER_ROUND, study.blocks.max)
        changes["blocks"] = BlocksEntry(min=blocks, max=blocks)
    else:
        changes["until"] = Until(interval=MEASURED_SHARE * width)
    if ways:
        changes["sharing"] = tuple(Sharing(mode=way) for way in ways)
    return study.model_copy(update=changes).placed(study.places)


def is_known(mix: MixForecast, width: float) -> bool:
    """Whether every slowdown of a mix is known to this relative half-width."""
    halves = [tenant.narrowable.relative_half_width for tenant in mix.tenants]
    return all(half is not None and half <= width for half in halves)


def reason_to_stop(
    unknown: Sequence[MixForecast], left: Sequence[MixForecast], deadline: float | None, width: float, how: str
) -> str | None:
    """Why to stop; None if there is something left to measure and the time for it."""
    if not unknown:
        return f"every mix is known to ±{100 * width:g} %, {how} or predicted"
    if deadline is not None and time.monotonic() >= deadline:
        return f"the time budget is used; {len(unknown)} mixes are known less precisely than ±{100 * width:g} %"
    if not left:
        return (
            f"{amount(len(unknown), 'mix is', 'mixes are')} known less precisely than ±{100 * width:g} %, although "
            f"{how} in as many blocks as the study allows"
        )
    return None
