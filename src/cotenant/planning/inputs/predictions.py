"""Mixes that were not measured, from the file or the tables that name them and the runs to learn from."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Literal

from cotenant.devices.target import TargetDevice, place_at
from cotenant.errors import SharingUnavailable, StudyError
from cotenant.paths import AnyPath
from cotenant.planning.check_simulated import MixQueues
from cotenant.planning.pair_plan import for_pairing
from cotenant.prediction.interference import PredictedMixes, forecast_mixes, rates_of
from cotenant.store.learnt import learnt
from cotenant.study.files import load_study
from cotenant.study.model import Study
from cotenant.study.prediction_inputs import asked_of, asked_of_tables, groups_of, place_of, settling
from cotenant.tenancy.tenant_entry import demands
from cotenant.tenancy.ways import SCHEDULED

NextFor = Literal["all", "pairing"]


def predicted_mixes(
    study: str | Path | Study | None,
    *,
    device: str | None = None,
    runs: Sequence[str | Path] = (),
    mix: str | None = None,
    next_mixes: int = 0,
    next_for: NextFor = "all",
    width: float | None = None,
    db: AnyPath | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[PredictedMixes, str]:
    """Every mix of a study, and what to call the study; arguments and errors as of `cotenant.predict`."""
    if study is None:
        return _of_tables(device, runs, mix=mix, next_mixes=next_mixes, db=db)
    wanted = study if isinstance(study, Study) else load_study(study)
    if any(way.mode == SCHEDULED for way in wanted.sharings(())):
        raise StudyError(
            "requests in a server's order are predicted by a plan, not beside always busy neighbours",
            hint=f"cotenant plan {study} --devices ..., or measure them on a simulated GPU: cotenant run {study}",
        )
    for line in demands(wanted.tenants):
        tell(line)
    groups, left_out = groups_of(wanted, mix)
    place = place_of(wanted, device)
    if place.simulated:
        _refuse_impossible(wanted, groups, place)
    named = wanted.name if isinstance(study, Study) else str(study)
    asked = asked_of(wanted, place, learnt(runs, place, db=db), study_name=named, exact=mix is not None)
    sharings = {str(way): way for way in wanted.sharings(place.modes)}
    if place.simulated:
        queues = MixQueues(asked.device, wanted.tenants, rates_of(asked, tuple(wanted.tenants)), sharings)
        asked = replace(asked, queues=queues)
    if next_for == "all":
        mixes = forecast_mixes(asked, groups, tuple(sharings), next_mixes=next_mixes, width=width)
    else:
        known = [sharing for sharing in sharings if sharing in asked.priors]
        chosen = [suggestion for sharing in known for suggestion in for_pairing(asked, groups, sharing, next_mixes)]
        mixes = replace(forecast_mixes(asked, groups, tuple(sharings)), next=tuple(chosen[:next_mixes]))
    mixes = mixes if isinstance(study, Study) else settling(mixes, wanted, named, place)
    return replace(mixes, notes=(*left_out, *mixes.notes)), named


def _refuse_impossible(study: Study, groups: Sequence[tuple[str, ...]], place: TargetDevice) -> None:
    """A way to share that a file names and no mix can have is a mistake, as it is to `run`. Raises SharingUnavailable.

    Shares for another number of tenants are left aside: a mix may be any of them.
    """
    for way in () if study.sharing == "all" else study.sharing:
        refusals = []
        for group in groups:
            sharing = way.among(len(group))
            if len(sharing.shares) not in {0, len(group)}:
                continue
            tenants = [study.tenants[name].tenant(name, name, study.loads[0]) for name in group]
            try:
                place.device.arrange(sharing, tenants)
            except SharingUnavailable as refusal:
                refusals.append(SharingUnavailable(f"{'+'.join(group)}: {refusal.message}", hint=refusal.hint))
            else:
                refusals = []
                break
        if refusals:
            raise refusals[0]


def _of_tables(
    device: str | None, runs: Sequence[str | Path], *, mix: str | None, next_mixes: int, db: AnyPath | None
) -> tuple[PredictedMixes, str]:
    """Every pair of tables' tenants, under the ways to share that the tables have."""
    if device is None:
        raise StudyError("a prediction without a study needs a device", hint="add --device sim:v100-sxm2-16gb")
    place = place_at(device)
    known = learnt(runs, place, db=db)
    if not known.tables:
        raise StudyError(
            "there are no tenants to predict", hint="name a study, or a table of measurements: --from table.csv"
        )
    asked = asked_of_tables(place, known)
    groups: list[tuple[str, ...]] = [*combinations(asked.names, 2)]
    if mix is not None:
        members = tuple(name.strip() for name in mix.split("+"))
        if absent := [name for name in members if name not in asked.names]:
            raise StudyError(f"no table has a tenant {absent[0]!r}", hint=f"tenants are {', '.join(asked.names)}")
        groups = [members]
    ways = dict.fromkeys(known_mix.sharing for known_mix in asked.mixes) or {"processes": None}
    return forecast_mixes(asked, groups, tuple(ways), next_mixes=next_mixes), known.tables[0].name
