"""Everything a report is made of, reduced from the records of any number of runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.sentences import advice, closing_sentences
from cotenant.analyse.sharing.summary import Summary, summarise
from cotenant.devices.protocol import Roofline
from cotenant.reporting.figures.curves import Curve, CurveCollector
from cotenant.reporting.figures.names import Names, letters
from cotenant.reporting.figures.peaks import roofline_of
from cotenant.reporting.figures.reduced import Reduced, SamplePoint, StageTime, TenantFacts, TimelinePoint, TrialFacts
from cotenant.reporting.html.variability_material import FleetMaterial, gather_runs
from cotenant.reporting.terminal.device_use import DeviceUse, device_use
from cotenant.store import integrity, views
from cotenant.store.folder import RunFolder
from cotenant.store.observe import observations
from cotenant.study.asked import asked_interval


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run of the report."""

    letter: str
    path: Path
    manifest: Mapping[str, Any]
    roofline: Roofline | None

    @property
    def identity(self) -> str:
        """Unique over machines."""
        return str(self.manifest["run"])


@dataclass(frozen=True, slots=True)
class Material:
    """All of it."""

    runs: tuple[RunFacts, ...]
    names: Names
    summary: Summary
    advice: tuple[str, ...]
    sentences: tuple[str, ...]
    curves: tuple[Curve, ...]
    tenants: Mapping[tuple[Cell, str], TenantFacts]
    trials: tuple[TrialFacts, ...]
    timelines: tuple[TimelinePoint, ...]
    stages: tuple[StageTime, ...]
    samples: tuple[SamplePoint, ...]
    device_use: tuple[DeviceUse, ...]
    fleet: FleetMaterial | None = None
    """How the members of a group differ; None: no run has several."""

    @property
    def simulated(self) -> bool:
        """Some of it was computed by a model and not measured."""
        return any(mix.cell.simulated for mix in self.summary.mixes) or any(
            bool(run.manifest.get("simulated")) for run in self.runs
        )


def gather(paths: Sequence[Path]) -> Material:
    """Read the runs once and reduce them.

    Raises:
        RunFolderError: A folder is not a run, is damaged, or is of a newer schema.
    """
    folders = {folder.run: folder for folder in map(RunFolder.open, dict.fromkeys(path.resolve() for path in paths))}
    collector = CurveCollector()
    summary = summarise(collector.watch(seen for seen in observations(paths, raw=True) if seen.block >= 0))
    files = views.find_files(paths)
    con = views.open_views(files)
    try:
        with views.damage_named(files):
            records = Reduced(con, files)
            tenants, timelines = records.tenants(), records.timelines()
            stages, samples = records.stages(), records.samples()
            used = device_use(con, files, [folder.manifest for folder in folders.values()])
            (members,) = con.execute("SELECT count(DISTINCT member) FROM tenants").fetchone() or (0,)
    finally:
        con.close()
    asked = asked_interval([folder.manifest for folder in folders.values()])
    return Material(
        runs=tuple(
            RunFacts(letters(index), folder.path, folder.manifest, roofline_of(folder.manifest))
            for index, folder in enumerate(folders.values())
        ),
        names=Names([mix.cell for mix in summary.mixes], list(folders)),
        summary=summary,
        advice=tuple(advice(summary)),
        sentences=(*_damage(folders.values()), *closing_sentences(summary, asked)),
        curves=tuple(collector.curves),
        tenants=tenants,
        trials=records.trials,
        timelines=timelines,
        stages=stages,
        samples=samples,
        device_use=used,
        fleet=gather_runs(paths) if members > 1 else None,
    )


def _damage(folders: Iterable[RunFolder]) -> Iterator[str]:
    """What had to be left out of the page."""
    for folder in folders:
        yield from integrity.sentences(folder, integrity.standing(folder))
