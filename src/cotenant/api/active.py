"""`run --active`: measure the most informative mixes, predict the others, stop when all are known well enough."""

import math
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.api.progress_output import with_progress
from cotenant.measure.events import Listener
from cotenant.paths import AnyPath
from cotenant.tenancy.device_names import DeviceName
from cotenant.text import amount

if TYPE_CHECKING:
    from cotenant.prediction.interference.forecast import MixForecast, PredictedMixes
    from cotenant.study.model import Study

WIDTH = 0.1
"""Relative half-width at which a slowdown counts as known."""
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
    prediction: "PredictedMixes"
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


@with_progress
def run_active(
    study: "str | Path | Study",
    *,
    device: str | None = None,
    overrides: Sequence[str] = (),
    width: float = WIDTH,
    out: AnyPath = Path("runs"),
    listener: Listener | None = None,
    quiet: bool = False,  # noqa: ARG001 - `with_progress` reads it
) -> ActiveResult:
    """Measure a study in rounds until every mix is known, measured or predicted.

    Each round measures mixes that say most about those still unknown, under the ways to share that are not known yet:
    many at once, because every round measures its tenants alone again. The first round measures all tenants alone and
    each in a mix at least; where predictions need solos, as on a CPU, each beside the study's next tenant.

    A measured mix gets no more blocks than the width takes: two of the study's fixed number per round, or as many as it
    takes to half the width instead of the study's `until`.

    Args:
        study: A built-in study's name, a YAML file, or a study.
        device: Overrides the study's device.
        overrides: `key=value` each, as `--set`.
        width: Relative half-width of the 90 % interval at which a slowdown counts as known.
        out: Parent folder of the rounds' run folders.
        listener: Receives progress events; default: a display on stderr, or a bar in a notebook.
        quiet: No progress.

    Raises:
        CotenantError: It can't be carried out. Finished measurements are kept.
    """
    from cotenant.api.predict import predict
    from cotenant.api.report import write_whole
    from cotenant.api.run import run
    from cotenant.prediction.interference.forecast import NAME, text_of
    from cotenant.prediction.interference.intervals import FEWEST
    from cotenant.study.files import load_study, study_from
    from cotenant.study.model import Study

    out = Path(out)
    if not isinstance(study, Study):
        study = load_study(study, overrides)
    elif overrides:
        study = study_from(study.model_dump(mode="json", by_alias=True), overrides)
    groups = {mix.members for mix in study.mix_list()}
    deadline = None if study.budget_s is None else time.monotonic() + study.budget_s
    chosen = _first(study, device, width, groups)
    most = 1 if study.until is not None else math.ceil(study.blocks.max / BLOCKS_PER_ROUND)
    folders: list[Path] = []
    tried: Counter[tuple[tuple[str, ...], str]] = Counter()
    ways: tuple[str, ...] = ()
    while True:
        left_s = None if deadline is None else max(deadline - time.monotonic(), 1.0)
        folders.append(
            run(_round(study, chosen, ways, width, left_s), device=device, out=out, listener=listener).folder
        )
        found = predict(study, quiet=True, device=device, runs=folders, next_mixes=4 * len(groups), width=width)
        tried.update((mix, way) for mix in chosen for way in ways or {estimate.sharing for estimate in found.mixes})
        unknown = [estimate for estimate in found.mixes if not _is_known(estimate, width)]
        left = [estimate for estimate in unknown if tried[estimate.mix, estimate.sharing] < most]
        why = _reason(unknown, left, deadline, width, "simulated" if DeviceName(found.device).simulated else "measured")
        if why is not None:
            write_whole(folders[-1] / NAME, text_of(found))
            return ActiveResult(tuple(folders), found, len({mix for mix, _ in tried}), len(groups), why)
        ways = tuple(dict.fromkeys(estimate.sharing for estimate in left))
        suggested = _suggested(found, ways, tried)
        again = [estimate.mix for estimate in left if tried[estimate.mix, estimate.sharing]]
        chosen = list(dict.fromkeys([*again, *suggested[: math.ceil(LATER_SHARE * len(suggested))]]))
        least = max(FEWEST_PER_ROUND, FEWEST - min(sum(way == used for _, used in tried) for way in ways))
        if len(chosen) < least:
            # The intervals are wider than the deviations promise, or there is too little evidence for intervals.
            more = predict(study, quiet=True, device=device, runs=folders, next_mixes=4 * len(groups))
            others = [*chosen, *_suggested(more, ways, tried), *(estimate.mix for estimate in left)]
            chosen = list(dict.fromkeys(others))[:least]


def _first(study: "Study", device: str | None, width: float, groups: set[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Mixes of the first round."""
    from cotenant.api.predict import predict
    from cotenant.errors import CotenantError

    ring = _ring(tuple(study.tenants), groups)
    try:
        found = predict(study, quiet=True, device=device, next_mixes=4 * len(groups), width=width)
    except CotenantError:  # nothing can be predicted before the solos are measured
        return ring
    suggested = _suggested(found, tuple(dict.fromkeys(estimate.sharing for estimate in found.mixes)), ())
    suggested = suggested[: math.ceil(FIRST_SHARE * len(suggested))]
    if len(suggested) <= len(ring):
        return ring
    alone = set(study.tenants) - {name for mix in suggested for name in mix}
    return list(dict.fromkeys([*suggested, *(mix for mix in ring if alone & set(mix))]))


def _suggested(
    found: "PredictedMixes", ways: tuple[str, ...], tried: Collection[tuple[tuple[str, ...], str]]
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


def _ring(tenants: tuple[str, ...], groups: set[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Every tenant beside the next, as far as the study has such mixes; any two mixes if it has none."""
    pairs = [(first, tenants[(place + 1) % len(tenants)]) for place, first in enumerate(tenants)]
    there = [group for pair in pairs for group in (pair, pair[::-1]) if group in groups]
    return list(dict.fromkeys(there)) or sorted(groups)[:FEWEST_PER_ROUND]


def _round(
    study: "Study", chosen: Sequence[tuple[str, ...]], ways: tuple[str, ...], width: float, left_s: float | None
) -> "Study":
    """These mixes under these ways to share; without ways, under all, and every tenant alone: the first round."""
    from cotenant.study.mixes import MixLists
    from cotenant.study.model import BlocksEntry, Until
    from cotenant.tenancy.sharing import Sharing

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


def _is_known(mix: "MixForecast", width: float) -> bool:
    for tenant in mix.tenants:
        number = tenant.narrowable
        if number.lo is None or number.hi is None or (number.hi - number.lo) / 2 > width * number.est:
            return False
    return True


def _reason(
    unknown: Sequence["MixForecast"], left: Sequence["MixForecast"], deadline: float | None, width: float, how: str
) -> str | None:
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
