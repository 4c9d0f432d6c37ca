"""`predict`: mixes that were not measured, from those that were."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cotenant.analyse.tabular import Row, Tabular, plain
from cotenant.api.handles import one_line, public
from cotenant.api.progress_output import Say, saying
from cotenant.paths import AnyPath
from cotenant.prediction.interference import PredictedMixes
from cotenant.store.folder import write_whole
from cotenant.text import amount

if TYPE_CHECKING:
    from cotenant.planning.inputs import NextFor
    from cotenant.study.model import Study


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
    from cotenant.planning.inputs import predicted_mixes

    mixes, name = predicted_mixes(
        study, device=device, runs=runs, mix=mix, next_mixes=next_mixes, next_for=next_for, width=width, db=db,
        tell=saying(say, quiet=quiet),
    )  # fmt: skip
    return Prediction.of(mixes, name)
