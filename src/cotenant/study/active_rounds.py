"""Rounds of `run --active`: which mixes to measure next, how precisely, and when all of them are known."""

import time
from collections.abc import Collection, Sequence
from typing import Any

from cotenant.prediction.interference import MixForecast, PredictedMixes
from cotenant.study.mixes import MixLists
from cotenant.study.model import BlocksEntry, Study, Until
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
