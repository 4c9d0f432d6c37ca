"""`run --active`: measure the most informative mixes, predict the others, stop when all are known well enough."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.api.paths import AnyPath
from cotenant.measure.events import Listener, silent

if TYPE_CHECKING:
    from cotenant.prediction.interference.forecast import MixForecast, Prediction
    from cotenant.study.model import Study

WIDTH = 0.15
"""Relative half-width at which a slowdown counts as known."""
ROUND_SHARE = 0.15
"""Share of all mixes to measure before choosing again: every round measures its tenants alone once more."""
FEWEST_PER_ROUND = 2
MEASURED = ("measured", "simulated,")


@dataclass(frozen=True, slots=True)
class ActiveResult:
    """What was measured, and what is known about every mix."""

    folders: tuple[Path, ...]
    """One run per round."""
    prediction: "Prediction"
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


def run_active(
    study: "str | Path | Study",
    *,
    device: str | None = None,
    overrides: Sequence[str] = (),
    width: float = WIDTH,
    out: AnyPath = Path("runs"),
    listener: Listener = silent,
) -> ActiveResult:
    """Measure a study in rounds until every mix is known, measured or predicted.

    The first round measures every tenant alone and beside the next one of the study. Each further round measures the
    mixes that say most about the others, as named by `predict --next`, under the ways to share that are not known yet.

    Args:
        study: A built-in study's name, a YAML file, or a study.
        device: Overrides the study's device.
        overrides: `key=value` each, as `--set`.
        width: Relative half-width of the 90 % interval at which a slowdown counts as known.
        out: Parent folder of the rounds' run folders.
        listener: Receives progress events.

    Raises:
        CotenantError: It can't be carried out. Finished measurements are kept.
    """
    from cotenant.api.predict import predict
    from cotenant.api.run import run
    from cotenant.study.files import load_study, study_from
    from cotenant.study.model import Study

    out = Path(out)
    if not isinstance(study, Study):
        study = load_study(study, overrides)
    elif overrides:
        study = study_from(study.model_dump(mode="json", by_alias=True), overrides)
    groups = {mix.members for mix in study.mix_list()}
    per_round = max(FEWEST_PER_ROUND, round(ROUND_SHARE * len(groups)))
    deadline = None if study.budget_s is None else time.monotonic() + study.budget_s
    chosen = _ring(tuple(study.tenants), groups)
    folders: list[Path] = []
    done: set[tuple[str, ...]] = set()
    ways: tuple[str, ...] = ()
    while True:
        left_s = None if deadline is None else max(deadline - time.monotonic(), 1.0)
        part = _round(study, chosen, ways, left_s)
        folders.append(run(part, device=device, out=out, listener=listener).folder)
        done |= set(chosen)
        found = predict(study, device=device, runs=folders, next_mixes=4 * len(groups))
        unknown = [one for one in found.mixes if not _is_known(one, width)]
        ways = tuple(dict.fromkeys(one.sharing for one in unknown))
        wanted = list(dict.fromkeys(one.mix for one in found.next if one.sharing in ways))
        why = _reason(unknown, wanted, deadline, width)
        if why is not None:
            return ActiveResult(tuple(folders), found, len(done), len(groups), why)
        chosen = wanted[:per_round]


def _ring(tenants: tuple[str, ...], groups: set[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Every tenant beside the next, as far as the study has such mixes; any two mixes if it has none."""
    pairs = [(first, tenants[(place + 1) % len(tenants)]) for place, first in enumerate(tenants)]
    there = [group for pair in pairs for group in (pair, pair[::-1]) if group in groups]
    return list(dict.fromkeys(there)) or sorted(groups)[:FEWEST_PER_ROUND]


def _round(study: "Study", chosen: Sequence[tuple[str, ...]], ways: tuple[str, ...], left_s: float | None) -> "Study":
    """These mixes under these ways to share; without ways, under all, and every tenant alone: the first round."""
    from cotenant.study.mixes import MixLists
    from cotenant.tenancy.nouns import Sharing

    under = tuple(Sharing(mode=way) for way in ways)
    lists = MixLists(groups={f"m{number}": group for number, group in enumerate(chosen, 1)})
    changes: dict[str, Any] = {"mixes": (lists,), "sharing": under} if ways else {"mixes": ("solo", lists)}
    return study.model_copy(update={**changes, "budget_s": left_s}).placed(study.places)


def _is_known(mix: "MixForecast", width: float) -> bool:
    for one in mix.tenants:
        ends = one.slowdown.lo, one.slowdown.hi
        if one.basis.startswith(MEASURED):
            continue
        if ends[0] is None or ends[1] is None or (ends[1] - ends[0]) / 2 > width * one.slowdown.est:
            return False
    return True


def _reason(
    unknown: Sequence["MixForecast"], wanted: Sequence[Any], deadline: float | None, width: float
) -> str | None:
    if not unknown:
        return f"every mix is known to ±{100 * width:g} %, measured or predicted"
    if not wanted:
        return "every mix was measured"
    if deadline is not None and time.monotonic() >= deadline:
        return f"the time budget is used; {len(unknown)} mixes are known less precisely than ±{100 * width:g} %"
    return None
