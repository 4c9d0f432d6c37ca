"""`predict`: mixes that were not measured, from those that were."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from cotenant import opening
from cotenant.errors import CotenantError, StudyError
from cotenant.paths import AnyPath

if TYPE_CHECKING:
    from cotenant.prediction.interference.forecast import NextMix, Prediction
    from cotenant.prediction.interference.forecasting import Asked
    from cotenant.study.model import Study

NextFor = Literal["all", "pairing"]


def predict(
    study: "str | Path | Study",
    *,
    device: str | None = None,
    runs: Sequence[str | Path] = (),
    mix: str | None = None,
    next_mixes: int = 0,
    next_for: "NextFor" = "all",
    width: float | None = None,
    db: AnyPath | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> "Prediction":
    """Slowdown, throughput, latency and memory of every mix of a study, each with an interval and its basis.

    Args:
        study: A built-in study's name, a YAML file, or a study: tenants, mixes, ways to share, loads.
        device: Overrides the study's device.
        runs: Run folders or saved names to learn from; `db`: all runs of the database on this kind of device.
        mix: Only this mix: names of tenants joined by `+`; it needn't be one of the study's.
        next_mixes: Also suggest this many mixes to measure.
        next_for: `all`: those that say most about all others; `pairing`: those that decide which tenants to put
            on devices two by two.
        width: Relative half-width at which a mix counts as known: with `all`, suggest no more mixes than it takes to
            know all.
        db: The database's folder instead of the default.
        say: Called with each tenant's load before it is predicted.

    Raises:
        PredictionError: Something must be measured first; the hint is the command that does.
        CotenantError: The study, the device or a run is wrong.
    """
    from cotenant.prediction.interference.forecasting import forecast
    from cotenant.store.learnt import learnt
    from cotenant.study.files import load_study
    from cotenant.study.model import Study
    from cotenant.study.prediction_inputs import asked_of, place_of
    from cotenant.tenancy.tenant_entry import demands

    wanted = study if isinstance(study, Study) else load_study(study)
    for line in demands(wanted.tenants):
        say(line)
    groups = _groups(wanted, mix)
    place = place_of(wanted, device)
    named = wanted.name if isinstance(study, Study) else str(study)
    asked = asked_of(wanted, place, learnt(runs, place, db=db), study_name=named, exact=mix is not None)
    sharings = dict.fromkeys(map(str, wanted.sharings(place.modes)))
    if next_for == "all":
        return forecast(asked, groups, tuple(sharings), next_mixes=next_mixes, width=width)
    known = [sharing for sharing in sharings if sharing in asked.priors]
    chosen = [one for sharing in known for one in _for_pairing(asked, groups, sharing, next_mixes)]
    return replace(forecast(asked, groups, tuple(sharings)), next=tuple(chosen[:next_mixes]))


def write_prediction_page(prediction: "Prediction", path: AnyPath, *, source: str = "a study") -> None:
    """Write a prediction as an HTML page that needs no network: measured mixes solid, predicted ones hatched.

    Args:
        prediction: The result of `predict`, or that of `run_active`.
        path: The file.
        source: The study's name, for the title.

    Raises:
        CotenantError: The file can't be written.
    """
    from cotenant.reporting.html.prediction_page import page

    path = Path(path)
    try:
        path.write_text(page(prediction, source=source), encoding="utf-8")
    except OSError as error:
        raise CotenantError(f"{path} can't be written: {opening.why(error)}", hint="choose another file") from None


def _for_pairing(asked: "Asked", groups: Sequence[tuple[str, ...]], sharing: str, count: int) -> "list[NextMix]":
    """Pairs of the best pairing that were not measured, then those that may turn out to belong to it."""
    from cotenant.planning.pair_plan import next_pairs
    from cotenant.prediction.interference.forecast import NextMix
    from cotenant.prediction.interference.forecasting import predictor_for
    from cotenant.prediction.interference.next_cells import next_cells

    named = [group for group in groups if len(set(group)) == 2 == len(group)]
    if not named:
        raise StudyError("the study has no pairs of different tenants", hint="add `mixes: [solo, pairs]`")
    pairs = np.array([[asked.names.index(name) for name in group] for group in named], np.int64)
    predictor = predictor_for(asked, sharing)
    chosen = next_pairs(predictor, pairs, count)
    if not chosen:
        return []
    buys = dict(next_cells(predictor.correction, pairs[chosen], len(chosen)))
    return [NextMix(named[place], sharing, buys[number]) for number, place in enumerate(chosen)]


def _groups(study: "Study", mix: str | None) -> tuple[tuple[str, ...], ...]:
    """The requested mixes, by tenants' names."""
    from cotenant.prediction.interference.mixes import LARGEST
    from cotenant.text import did_you_mean

    if mix is None:
        groups = tuple(one.members for one in study.mix_list())
    else:
        names = tuple(name.strip() for name in mix.split("+"))
        if not all(names):
            raise StudyError(f"the mix {mix!r} has a name missing", hint="join tenants by one +: --mix a+b")
        for name in names:
            if name not in study.tenants:
                raise StudyError(
                    f"the study has no tenant {name!r}",
                    hint=did_you_mean(name, study.tenants) or f"its tenants are {', '.join(study.tenants)}",
                )
        groups = (names,)
    if not groups:
        raise StudyError(
            "the study has no mix of several tenants", hint="add `mixes: [solo, pairs]`, or name one: --mix a+b"
        )
    for group in groups:
        if not 2 <= len(group) <= LARGEST:
            raise StudyError(
                f"{' + '.join(group)} has {len(group)} tenants; mixes of 2 to {LARGEST} can be predicted",
                hint="name fewer tenants with --mix a+b+c",
            )
    return groups
