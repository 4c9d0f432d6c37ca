"""The contents of a report, reduced from the records of any number of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant import opening
from cotenant.analyse.decision import Answer
from cotenant.analyse.device_use import DeviceUse
from cotenant.analyse.dvfs import Sweep
from cotenant.analyse.result import Result, SideBySide, result_of
from cotenant.analyse.sharing import Cell, CurveCollector, LatencyCurve, Peaks, Summary, peaks_of
from cotenant.errors import RunFolderError
from cotenant.reporting.figures.names import Names, Ways, letters
from cotenant.reporting.main_table import MainTable, main_table
from cotenant.reporting.results.measured import best_layouts, other_layouts
from cotenant.store.reading import open_runs
from cotenant.store.reduced import Reduced, SamplePoint, StageTime, TenantFacts, TimelinePoint, TrialFacts
from cotenant.store.run_records import run_records

if TYPE_CHECKING:
    from cotenant.prediction.interference import PredictedMixes
    from cotenant.reporting.html.variability_page import FleetMaterial


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run of the report."""

    letter: str
    path: Path
    manifest: Mapping[str, Any]
    peaks: Peaks

    @property
    def identity(self) -> str:
        """Unique across machines."""
        return str(self.manifest["run"])


@dataclass(frozen=True, slots=True)
class Material:
    """Results, curves, timelines and samples of the runs of a report."""

    runs: tuple[RunFacts, ...]
    names: Names
    ways: Ways
    result: Result
    summary: Summary
    """Without shares that are not the best of their mode."""
    answer: Answer
    """The decision."""
    opening: tuple[str, ...]
    """The first sentences."""
    table: MainTable | None
    """The main result, if it isn't the decision."""
    sentences: tuple[str, ...]
    curves: tuple[LatencyCurve, ...]
    tenants: Mapping[tuple[Cell, str], TenantFacts]
    trials: tuple[TrialFacts, ...]
    timelines: tuple[TimelinePoint, ...]
    stages: tuple[StageTime, ...]
    samples: tuple[SamplePoint, ...]
    device_use: tuple[DeviceUse, ...]
    sweeps: tuple[Sweep, ...] = ()
    """Jobs over clocks or power limits."""
    beside: SideBySide | None = None
    """One study on several devices; None if there is only one."""
    fleet: "FleetMaterial | None" = None
    """Differences between the members of a group; None if no run has several."""
    predictions: "tuple[PredictedMixes, ...]" = ()
    """What active runs predicted of the mixes they didn't measure."""

    @property
    def simulated(self) -> bool:
        """Whether any of it was computed by a model instead of measured."""
        return any(mix.cell.simulated for mix in self.summary.mixes) or any(
            bool(run.manifest.get("simulated")) for run in self.runs
        )


def gather(paths: Sequence[Path]) -> Material:
    """Read the runs once and reduce them.

    Raises:
        RunFolderError: A folder is not a run, is damaged, or has a newer schema.
    """
    collector = CurveCollector()
    with open_runs(paths) as runs:
        result = result_of(run_records(runs), watch=collector.watch)
        records = Reduced(runs)
        tenants, timelines = records.tenants(), records.timelines()
        stages, samples = records.stages(), records.samples()
        (members,) = runs.con.execute("SELECT count(DISTINCT member) FROM tenants").fetchone() or (0,)
        folders = runs.folders
    hidden = other_layouts(result.answer)
    summary = best_layouts(result)
    return Material(
        runs=tuple(
            RunFacts(letters(index), folder.path, folder.manifest, peaks_of(folder.manifest))
            for index, folder in enumerate(folders.values())
        ),
        names=Names([mix.cell for mix in summary.mixes], list(folders)),
        ways=Ways(mix.cell for mix in summary.mixes),
        result=result,
        summary=summary,
        answer=result.answer,
        opening=tuple(result.opening),
        table=main_table(result),
        sentences=result.sentences,
        curves=tuple(curve for curve in collector.curves if curve.cell not in hidden),
        tenants=tenants,
        trials=records.trials,
        timelines=tuple(timeline for timeline in timelines if timeline.cell not in hidden),
        stages=tuple(stage for stage in stages if stage.cell not in hidden),
        samples=samples,
        device_use=tuple(use for use in result.device_use if use.cell not in hidden),
        sweeps=tuple(result.sweeps),
        beside=result.side_by_side,
        fleet=_fleet(paths) if members > 1 else None,
        predictions=tuple(
            prediction for folder in folders.values() if (prediction := _predicted(folder.path)) is not None
        ),
    )


def _predicted(folder: Path) -> "PredictedMixes | None":
    """The prediction that an active run left in its last round. Raises RunFolderError if it can't be read."""
    from cotenant.prediction.interference import NAME, prediction_of

    path = folder / NAME
    if not path.exists():
        return None
    try:
        return prediction_of(opening.read_text(path))
    except (OSError, ValueError) as error:
        why = opening.why(error) if isinstance(error, OSError) else str(error)
        raise RunFolderError(
            f"{path} can't be read: {why}.", hint="Delete it: the measurements don't need it."
        ) from None


def _fleet(paths: Sequence[Path]) -> "FleetMaterial":
    from cotenant.reporting.html.variability_page import gather_runs  # needs the database; most runs don't

    return gather_runs(paths)
