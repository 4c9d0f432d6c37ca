"""`predict`: mixes that were not measured, from those that were."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from cotenant.analyse.tabular import Row, Tabular, plain
from cotenant.api.handles import one_line, public
from cotenant.api.progress_output import Say, saying
from cotenant.errors import StudyError
from cotenant.paths import AnyPath
from cotenant.prediction.interference import PredictedMixes
from cotenant.store.folder import write_whole
from cotenant.text import amount

if TYPE_CHECKING:
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
        from cotenant.reporting.results import prediction_page

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
    from cotenant.planning.pair_plan import for_pairing
    from cotenant.prediction.interference import forecast_mixes, rates_of
    from cotenant.store.learnt import learnt
    from cotenant.study.files import load_study
    from cotenant.study.model import Study
    from cotenant.study.prediction_inputs import asked_of, groups_of, place_of
    from cotenant.tenancy.tenant_entry import demands
    from cotenant.tenancy.ways import SCHEDULED

    wanted = study if isinstance(study, Study) else load_study(study)
    if any(way.mode == SCHEDULED for way in wanted.sharings(())):
        raise StudyError(
            "requests in a server's order are predicted by a plan, not beside always busy neighbours",
            hint=f"cotenant plan {study} --devices ..., or measure them on a simulated GPU: cotenant run {study}",
        )
    tell = saying(say, quiet=quiet)
    for line in demands(wanted.tenants):
        tell(line)
    groups, left_out = groups_of(wanted, mix)
    place = place_of(wanted, device)
    named = wanted.name if isinstance(study, Study) else str(study)
    asked = asked_of(wanted, place, learnt(runs, place, db=db), study_name=named, exact=mix is not None)
    sharings = {str(way): way for way in wanted.sharings(place.modes)}
    if place.simulated:
        queues = MixQueues(asked.device, wanted.tenants, rates_of(asked, tuple(wanted.tenants)), sharings)
        asked = replace(asked, queues=queues)
    if next_for == "all":
        found = forecast_mixes(asked, groups, tuple(sharings), next_mixes=next_mixes, width=width)
        return Prediction.of(replace(found, notes=(*left_out, *found.notes)), named)
    known = [sharing for sharing in sharings if sharing in asked.priors]
    chosen = [suggestion for sharing in known for suggestion in for_pairing(asked, groups, sharing, next_mixes)]
    found = forecast_mixes(asked, groups, tuple(sharings))
    found = replace(found, next=tuple(chosen[:next_mixes]), notes=(*left_out, *found.notes))
    return Prediction.of(found, named)


def _of_tables(
    device: str | None, runs: Sequence[str | Path], *, mix: str | None, next_mixes: int, db: AnyPath | None
) -> Prediction:
    """Every pair of tables' tenants, under the ways to share that the tables have."""
    from itertools import combinations

    from cotenant.devices.target import place_at
    from cotenant.prediction.interference import forecast_mixes
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
    return Prediction.of(forecast_mixes(asked, groups, tuple(ways), next_mixes=next_mixes), known.tables[0].name)
