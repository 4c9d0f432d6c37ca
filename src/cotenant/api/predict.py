"""`predict`: mixes that were not measured, from those that were."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.api.paths import AnyPath
from cotenant.errors import StudyError

if TYPE_CHECKING:
    from cotenant.prediction.interference.forecast import Prediction
    from cotenant.study.model import Study


def predict(
    study: "str | Path | Study",
    *,
    device: str | None = None,
    runs: Sequence[str | Path] = (),
    mix: str | None = None,
    next_mixes: int = 0,
    db: AnyPath | None = None,
) -> "Prediction":
    """Slowdown, throughput, latency and memory of every mix of a study, each with an interval and its basis.

    Args:
        study: A built-in study's name, a YAML file, or a study: tenants, mixes, ways to share, loads.
        device: Overrides the study's device.
        runs: Run folders or saved names to learn from; `db`: all runs of the database on this kind of device.
        mix: Only this mix: names of tenants joined by `+`; it needn't be one of the study's.
        next_mixes: Also suggest this many mixes whose measurement would say most about the others.
        db: The database's folder instead of the default.

    Raises:
        PredictionError: Something has to be measured first; the hint is the command that does.
        CotenantError: The study, the device or a run is wrong.
    """
    from cotenant.api.prediction_evidence import learnt
    from cotenant.api.prediction_inputs import asked_of, place_of
    from cotenant.prediction.interference.forecasting import forecast
    from cotenant.study.files import load_study
    from cotenant.study.model import Study

    wanted = study if isinstance(study, Study) else load_study(study)
    groups = _groups(wanted, mix)
    place = place_of(wanted, device)
    named = wanted.name if isinstance(study, Study) else str(study)
    asked = asked_of(wanted, place, learnt(runs, place, db=db), study_name=named, exact=mix is not None)
    sharings = dict.fromkeys(map(str, wanted.sharings(place.modes)))
    return forecast(asked, groups, tuple(sharings), next_mixes=next_mixes)


def _groups(study: "Study", mix: str | None) -> tuple[tuple[str, ...], ...]:
    """The requested mixes, by tenants' names."""
    from cotenant.prediction.interference.mixes import LARGEST
    from cotenant.text import did_you_mean

    if mix is None:
        groups = tuple(one.members for one in study.mix_list())
    else:
        names = tuple(name.strip() for name in mix.split("+"))
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
