"""`predict`: mixes that were not measured, from those that were."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from cotenant.analyse.tabular import Row, Tabular, plain
from cotenant.api.handles import one_line, public
from cotenant.api.progress_output import Say, saying
from cotenant.errors import StudyError
from cotenant.paths import AnyPath
from cotenant.prediction.interference.forecast import PredictedMixes
from cotenant.store.folder import write_whole
from cotenant.text import amount

if TYPE_CHECKING:
    from cotenant.prediction.interference.forecast import NextMix
    from cotenant.prediction.interference.forecasting import Asked
    from cotenant.study.model import Study

NextFor = Literal["all", "pairing"]


@public
@dataclass(frozen=True, slots=True, repr=False)
class Prediction(PredictedMixes, Tabular):
    """Mixes that were not measured: every number with an interval and its basis.

    `prediction.mixes` holds the numbers, `prediction.next` what to measure next, `prediction.trust` how accurate it is.
    """

    study: str = "a study"

    @classmethod
    def of(cls, mixes: PredictedMixes, study: str) -> Self:
        """A result as a handle."""
        return cls(**{field.name: getattr(mixes, field.name) for field in fields(PredictedMixes)}, study=study)

    def page(self, path: AnyPath) -> Path:
        """Write an HTML page that needs no network: measured mixes solid, predicted ones hatched.

        Raises:
            CotenantError: The file can't be written.
        """
        from cotenant.reporting.results.predicted import prediction_page

        return write_whole(path, prediction_page(self, source=self.study))

    def rows(self) -> list[Row]:
        """One row for each tenant of each mix: estimates and interval ends in plain columns."""
        rows = []
        for mix in self.mixes:
            for tenant in mix.tenants:
                row: dict[str, Any] = {"mix": mix.label, "sharing": mix.sharing, "tenant": tenant.tenant}
                for name in ("slowdown", "throughput_rps", "latency_ms"):
                    number = getattr(tenant, name)
                    row |= {name: number.est, f"{name}_lo": number.lo, f"{name}_hi": number.hi}
                rows.append(plain({**row, "basis": tenant.basis}))
        return rows

    def __repr__(self) -> str:
        return one_line("Prediction", f"{self.study} on {self.device}", f"{amount(len(self.mixes), 'mix', 'mixes')}")


def predict(
    study: "str | Path | Study | None",
    *,
    device: str | None = None,
    runs: Sequence[str | Path] = (),
    mix: str | None = None,
    next_mixes: int = 0,
    next_for: "NextFor" = "all",
    width: float | None = None,
    db: AnyPath | None = None,
    say: Say | None = None,
    quiet: bool = False,
) -> Prediction:
    """Slowdown, throughput, latency and memory of every mix of a study, each with an interval and its basis.

    Args:
        study: A built-in study's name, a YAML file, or a study: tenants, mixes, ways to share, loads. None: every pair
            of the tenants of tables, which needs a device.
        device: Overrides the study's device.
        runs: Run folders, saved names, or CSV tables of what others measured, to learn from; `db`: everything of the
            database on this kind of device.
        mix: Only this mix: names of tenants joined by `+`; it needn't be in the study.
        next_mixes: Also suggest this many mixes to measure.
        next_for: `all`: those that say most about all others; `pairing`: those that decide which tenants to put
            on devices two by two.
        width: Relative half-width at which a mix counts as known: with `all`, suggest no more mixes than it takes to
            know all.
        db: The database's folder instead of the default.
        say: Called with each tenant's load before it is predicted; default: they go to stderr.
        quiet: Don't say it.

    Raises:
        PredictionError: Something must be measured first; the hint is the command that does.
        CotenantError: The study, the device or a run is wrong.
    """
    if study is None:
        return _of_tables(device, runs, mix=mix, next_mixes=next_mixes, db=db)
    from cotenant.planning.check_simulated import MixQueues
    from cotenant.prediction.interference.forecasting import forecast, rates_of
    from cotenant.store.learnt import learnt
    from cotenant.study.files import load_study
    from cotenant.study.model import Study
    from cotenant.study.prediction_inputs import asked_of, place_of
    from cotenant.tenancy.tenant_entry import demands

    wanted = study if isinstance(study, Study) else load_study(study)
    tell = saying(say, quiet=quiet)
    for line in demands(wanted.tenants):
        tell(line)
    groups, left_out = _groups(wanted, mix)
    place = place_of(wanted, device)
    named = wanted.name if isinstance(study, Study) else str(study)
    asked = asked_of(wanted, place, learnt(runs, place, db=db), study_name=named, exact=mix is not None)
    sharings = {str(way): way for way in wanted.sharings(place.modes)}
    if place.simulated:
        queues = MixQueues(asked.device, wanted.tenants, rates_of(asked, tuple(wanted.tenants)), sharings)
        asked = replace(asked, queues=queues)
    if next_for == "all":
        found = forecast(asked, groups, tuple(sharings), next_mixes=next_mixes, width=width)
        return Prediction.of(replace(found, notes=(*left_out, *found.notes)), named)
    known = [sharing for sharing in sharings if sharing in asked.priors]
    chosen = [suggestion for sharing in known for suggestion in _for_pairing(asked, groups, sharing, next_mixes)]
    found = forecast(asked, groups, tuple(sharings))
    found = replace(found, next=tuple(chosen[:next_mixes]), notes=(*left_out, *found.notes))
    return Prediction.of(found, named)


def _of_tables(
    device: str | None, runs: Sequence[str | Path], *, mix: str | None, next_mixes: int, db: AnyPath | None
) -> Prediction:
    """Every pair of tables' tenants, under the ways to share that the tables have."""
    from itertools import combinations

    from cotenant.devices.target import place_at
    from cotenant.prediction.interference.forecasting import forecast
    from cotenant.store.learnt import learnt
    from cotenant.study.prediction_inputs import asked_of_tables

    if device is None:
        raise StudyError("a prediction without a study needs a device", hint="add --device sim:v100-sxm2-16gb")
    place = place_at(device)
    known = learnt(runs, place, db=db)
    if not known.tables:
        raise StudyError("there is no study, and no table to take tenants from", hint="cotenant predict STUDY")
    asked = asked_of_tables(place, known)
    groups: list[tuple[str, ...]] = [*combinations(asked.names, 2)]
    if mix is not None:
        members = tuple(name.strip() for name in mix.split("+"))
        if absent := [name for name in members if name not in asked.names]:
            raise StudyError(f"no table has a tenant {absent[0]!r}", hint=f"tenants are {', '.join(asked.names)}")
        groups = [members]
    ways = dict.fromkeys(found.sharing for found in asked.mixes) or {"processes": None}
    return Prediction.of(forecast(asked, groups, tuple(ways), next_mixes=next_mixes), known.tables[0].name)


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


def _groups(study: "Study", mix: str | None) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """The requested mixes, by tenants' names, and a sentence if some of the study's are too large."""
    from cotenant.prediction.interference.setting import LARGEST
    from cotenant.text import did_you_mean

    if mix is None:
        groups = tuple(group.members for group in study.mix_list())
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
    possible = tuple(group for group in groups if 2 <= len(group) <= LARGEST)
    if not possible:
        group = groups[0]
        raise StudyError(
            f"{' + '.join(group)} has {len(group)} tenants; mixes of 2 to {LARGEST} can be predicted",
            hint="name fewer tenants with --mix a+b+c",
        )
    over = len(groups) - len(possible)
    of_more = f"{amount(over, 'mix was', 'mixes were')} left out: mixes of 2 to {LARGEST} tenants can be predicted"
    return possible, ((of_more,) if over else ())
