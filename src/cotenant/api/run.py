"""`run`: run a study, or resume an interrupted run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.api.progress_output import with_progress
from cotenant.errors import DeviceError, RunFolderError, StudyError
from cotenant.measure.events import Listener, silent
from cotenant.paths import AnyPath
from cotenant.study.model import Study

if TYPE_CHECKING:
    from cotenant.api.handles import Run
    from cotenant.devices.protocol import Device
    from cotenant.measure.run_plan import RunPlan
    from cotenant.prediction.interference import PredictedMixes
    from cotenant.study.active_rounds import ActiveResult
    from cotenant.study.run_forecast import Forecast


@with_progress
def run(
    study: str | Path | Study | None = None,
    *,
    device: str | None = None,
    devices: str | None = None,
    tenants: str | Path | None = None,
    overrides: Sequence[str] = (),
    out: AnyPath = Path("runs"),
    resume: AnyPath | None = None,
    calibrate: AnyPath | None = None,
    on: str | None = None,
    insecure: bool = False,
    listener: Listener | None = None,
    quiet: bool = False,  # noqa: ARG001 - `with_progress` reads it
) -> "Run":
    """Run a study.

    Args:
        study: A built-in study's name, a YAML file, a study, or a plan.yaml, whose mix is then measured at its rates;
            None with ``resume``.
        device: Overrides the study's device; for a plan, selects among its devices.
        devices: A group of devices to spread the study over: `all`, `cuda:0,1`, `cpu:each`, `sim:...*4`; or different
            devices, `sim:t4,sim:l4`: a run on each, read together.
        tenants: A study file whose tenants, mixes and sharing replace those of the study.
        overrides: `key=value` each, as `--set`.
        out: Parent folder of the run folder.
        resume: A run folder to resume, with its own study and device.
        calibrate: Measured solo times for a simulated device: a run on a real device, or a CSV file.
        on: A Ray cluster to run on: `ray`, `ray://host:port`; ``devices`` then selects among its devices.
        insecure: Accept a cluster without token authentication.
        listener: Receives progress events; default: a display on stderr, or a bar in a notebook.
        quiet: No progress.

    Raises:
        CotenantError: It can't be carried out. Finished measurements are kept.
    """
    from cotenant.api.show import show
    from cotenant.devices.group_names import each_of
    from cotenant.measure.fit import forecast_for, require_fit
    from cotenant.measure.run_plan import reopened
    from cotenant.measure.session import carry_out
    from cotenant.study.files import study_given

    out, listener = Path(out), listener or silent
    resume = None if resume is None else Path(resume)
    calibrate = None if calibrate is None else Path(calibrate)
    if named := each_of(devices):
        if study is None or device is not None or resume is not None or calibrate is not None:
            raise DeviceError("several devices can only run a study", hint="cotenant run STUDY --devices sim:t4,sim:l4")
        about, changes = _about(study, tenants, overrides)
        return run_on_each(about, named, changes, out, listener)
    if resume is not None:
        given = (study, device, devices, tenants, calibrate)
        if overrides or any(value is not None for value in given):
            raise RunFolderError(
                "a resumed run keeps its study and its device",
                hint=f"cotenant run --resume {resume}, without other arguments; or start a new run",
            )
        if on is not None or _on_cluster(resume):
            from cotenant.fleet import cluster_run as fleet

            return show(fleet.resume(resume, on, insecure=insecure, listener=listener))
        folder, plan, place = reopened(resume)
    else:
        if study is None:
            raise StudyError("There is no study to run.", hint="name one, e.g. quick; or a run to resume")
        study, overrides = _about(study, tenants, overrides)
        if calibrate is not None:
            from cotenant.measure.fitting import calibrated_by

            study = calibrated_by(calibrate, study_given(study, overrides))
            overrides = ()
        if on is not None:
            if device is not None and devices is not None:
                raise DeviceError(
                    "--device and --devices were both given", hint="name one device, or a group of devices"
                )
            devices = devices or device
            from cotenant.fleet import cluster_run as fleet

            asked = study_given(study, overrides)
            return show(fleet.carry_out(asked, on=on, devices=devices, out=out, listener=listener, insecure=insecure))
        plan, place = resolved(study, device, devices, overrides)
        folder = None
    require_fit(forecast_for(plan, place), place)
    _, path = carry_out(plan, place, folder=folder, out=out, listener=listener)
    return show(path)


def dry_run(
    study: str | Path | Study,
    *,
    device: str | None = None,
    devices: str | None = None,
    tenants: str | Path | None = None,
    overrides: Sequence[str] = (),
    out: AnyPath = Path("runs"),
) -> "Forecast":
    """Duration and precision of a study. Nothing that the study names is run or imported.

    The best forecast is an earlier run of it under ``out``. Otherwise a plain loop is timed for two seconds, to see
    how much this machine's speed varies.

    Raises:
        CotenantError: The study is wrong, or a mix does not fit.
    """
    from cotenant.measure.fit import forecast_from

    study, overrides = _about(study, tenants, overrides)
    return forecast_from(*_unchecked(study, device, devices, overrides), Path(out))


def _about(
    study: str | Path | Study, tenants: str | Path | None, overrides: Sequence[str]
) -> tuple[str | Path | Study, Sequence[str]]:
    """The study, with the tenants of another file if given and overrides applied."""
    if tenants is None:
        return study, overrides
    from cotenant.study.files import load_with_tenants

    if isinstance(study, Study):
        raise StudyError("a study object has its own tenants", hint="name a built-in study or a file")
    return load_with_tenants(study, tenants, overrides), ()


def resolved(
    study: str | Path | Study, device: str | None, devices: str | None, overrides: Sequence[str]
) -> "tuple[RunPlan, Device]":
    """A study resolved for its device, with every workload checked; imports code that the study names."""
    from cotenant.study.workload_check import check_workloads

    plan, place = _unchecked(study, device, devices, overrides)
    check_workloads(plan.study, simulated=place.simulated)
    return plan, place


def _unchecked(
    study: str | Path | Study, device: str | None, devices: str | None, overrides: Sequence[str]
) -> "tuple[RunPlan, Device]":
    from cotenant.measure.run_plan import laid_out
    from cotenant.planning.inputs import planned_study
    from cotenant.study.files import study_from, study_given

    if not isinstance(study, Study):
        planned = planned_study(study, device if devices is None else devices)
        if planned is not None:
            return laid_out(study_from(planned, overrides))
    return laid_out(study_given(study, overrides), device, devices)


def _on_cluster(path: Path) -> bool:
    from cotenant.store.folder import RunFolder

    return "fleet" in RunFolder.open(path).manifest


# --- a study on several devices in turn: a run for each, read together


def run_on_each(
    study: str | Path | Study, names: Sequence[str], overrides: Sequence[str], out: Path, listener: Listener
) -> "Run":
    """Run the study on each device; a tenant that doesn't fit on a device is left out there, which the run records.

    Raises:
        CotenantError: It can't be carried out. Finished measurements are kept.
    """
    from cotenant.api.show import show
    from cotenant.measure.session import carry_out

    plans = [plan_on(study, name, overrides) for name in names]  # report errors on any device before the first run
    paths = [carry_out(plan, place, folder=None, out=out, listener=listener)[1] for plan, place in plans]
    return show(paths)


def forecasts_on_each(study: str | Path | Study, names: Sequence[str], overrides: Sequence[str]) -> "list[Forecast]":
    """Forecast of the study on each device."""
    from cotenant.measure.fit import forecast_for

    return [forecast_for(*plan_on(study, name, overrides)) for name in names]


def plan_on(study: str | Path | Study, name: str, overrides: Sequence[str]) -> "tuple[RunPlan, Device]":
    """The study on a device, without the tenants that don't fit."""
    from cotenant.measure.fit import without_misfits

    plan, place = resolved(study, name, None, overrides)
    return without_misfits(plan, place), place


# --- `run --active`: measure the most informative mixes, predict the others, stop when all are known well enough

WIDTH = 0.1
"""Relative half-width at which a slowdown counts as known."""


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
) -> "ActiveResult":
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
    from cotenant.measure.session import measured
    from cotenant.planning.inputs import predicted_mixes
    from cotenant.prediction.interference import NAME, text_of
    from cotenant.store.folder import write_whole
    from cotenant.study.active_rounds import in_rounds
    from cotenant.study.files import study_given

    given = study_given(study, overrides)

    def predict(runs: Sequence[Path], *, next_mixes: int, width: float | None) -> "PredictedMixes":
        return predicted_mixes(given, device=device, runs=runs, next_mixes=next_mixes, width=width)[0]

    result = in_rounds(
        given, width, predict=predict,
        measure=lambda part: measured(part, device=device, out=Path(out), listener=listener or silent),
    )  # fmt: skip
    write_whole(result.folders[-1] / NAME, text_of(result.prediction))
    return result
