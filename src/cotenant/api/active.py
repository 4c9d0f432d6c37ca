"""`run --active`: measure the most informative mixes, predict the others, stop when all are known well enough."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.api.progress_output import with_progress
from cotenant.measure.events import Listener
from cotenant.paths import AnyPath
from cotenant.study.active_rounds import (
    BLOCKS_PER_ROUND,
    FEWEST_PER_ROUND,
    FIRST_SHARE,
    LATER_SHARE,
    is_known,
    reason_to_stop,
    ring,
    round_of,
    suggested_mixes,
)
from cotenant.study.files import study_given
from cotenant.study.model import Study
from cotenant.tenancy.device_names import DeviceName

if TYPE_CHECKING:
    from cotenant.prediction.interference import PredictedMixes

WIDTH = 0.1
"""Relative half-width at which a slowdown counts as known."""


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
    study: str | Path | Study,
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
    from cotenant.api.run import run
    from cotenant.prediction.interference import FEWEST, NAME, text_of
    from cotenant.store.folder import write_whole

    out, study = Path(out), study_given(study, overrides)
    groups = {mix.members for mix in study.mix_list()}
    deadline = None if study.budget_s is None else time.monotonic() + study.budget_s
    chosen = _first_mixes(study, device, width, groups)
    most = 1 if study.until is not None else math.ceil(study.blocks.max / BLOCKS_PER_ROUND)
    folders: list[Path] = []
    tried: Counter[tuple[tuple[str, ...], str]] = Counter()
    ways: tuple[str, ...] = ()
    while True:
        left_s = None if deadline is None else max(deadline - time.monotonic(), 1.0)
        folders.append(
            run(round_of(study, chosen, ways, width, left_s), device=device, out=out, listener=listener).folder
        )
        found = predict(study, quiet=True, device=device, runs=folders, next_mixes=4 * len(groups), width=width)
        tried.update((mix, way) for mix in chosen for way in ways or {estimate.sharing for estimate in found.mixes})
        unknown = [estimate for estimate in found.mixes if not is_known(estimate, width)]
        left = [estimate for estimate in unknown if tried[estimate.mix, estimate.sharing] < most]
        why = reason_to_stop(
            unknown, left, deadline, width, "simulated" if DeviceName(found.device).simulated else "measured"
        )
        if why is not None:
            write_whole(folders[-1] / NAME, text_of(found))
            return ActiveResult(tuple(folders), found, len({mix for mix, _ in tried}), len(groups), why)
        ways = tuple(dict.fromkeys(estimate.sharing for estimate in left))
        suggested = suggested_mixes(found, ways, tried)
        again = [estimate.mix for estimate in left if tried[estimate.mix, estimate.sharing]]
        chosen = list(dict.fromkeys([*again, *suggested[: math.ceil(LATER_SHARE * len(suggested))]]))
        least = max(FEWEST_PER_ROUND, FEWEST - min(sum(way == used for _, used in tried) for way in ways))
        if len(chosen) < least:
            # The intervals are wider than the deviations promise, or there is too little evidence for intervals.
            more = predict(study, quiet=True, device=device, runs=folders, next_mixes=4 * len(groups))
            others = [*chosen, *suggested_mixes(more, ways, tried), *(estimate.mix for estimate in left)]
            chosen = list(dict.fromkeys(others))[:least]


def _first_mixes(study: Study, device: str | None, width: float, groups: set[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Mixes of the first round."""
    from cotenant.api.predict import predict
    from cotenant.errors import CotenantError

    around = ring(tuple(study.tenants), groups)
    try:
        found = predict(study, quiet=True, device=device, next_mixes=4 * len(groups), width=width)
    except CotenantError:  # nothing can be predicted before the solos are measured
        return around
    suggested = suggested_mixes(found, tuple(dict.fromkeys(estimate.sharing for estimate in found.mixes)), ())
    suggested = suggested[: math.ceil(FIRST_SHARE * len(suggested))]
    if len(suggested) <= len(around):
        return around
    alone = set(study.tenants) - {name for mix in suggested for name in mix}
    return list(dict.fromkeys([*suggested, *(mix for mix in around if alone & set(mix))]))
