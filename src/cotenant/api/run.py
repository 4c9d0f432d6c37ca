"""`run`: run a study, or resume an interrupted run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.api.progress_output import with_progress
from cotenant.errors import DeviceError, RunFolderError, StudyError
from cotenant.measure.events import Listener, silent
from cotenant.paths import AnyPath
from cotenant.study.consistency import demanding, impossible
from cotenant.study.model import Study
from cotenant.study.windows import expected
from cotenant.tenancy.device_names import DeviceName

if TYPE_CHECKING:
    from cotenant.api.handles import Run
    from cotenant.devices.protocol import Device
    from cotenant.measure.run_plan import RunPlan
    from cotenant.store.folder import RunFolder
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
    from cotenant.measure.fit import forecast_for, require_fit
    from cotenant.measure.session import carry_out

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
            return show(_resumed_on(resume, on, insecure=insecure, listener=listener))
        folder, plan, place = _reopened(resume)
    else:
        if study is None:
            raise StudyError("There is no study to run.", hint="name one, e.g. quick; or a run to resume")
        study, overrides = _about(study, tenants, overrides)
        if calibrate is not None:
            study = _calibrated(study, overrides, calibrate)
            overrides = ()
        if on is not None:
            if device is not None and devices is not None:
                raise DeviceError(
                    "--device and --devices were both given", hint="name one device, or a group of devices"
                )
            devices = devices or device
            from cotenant.fleet import cluster_run as fleet

            asked = _study(study, overrides)
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
    from cotenant.measure.fit import forecast_for, require_fit
    from cotenant.measure.run_plan import earlier
    from cotenant.study.workload_check import check_workloads

    out = Path(out)
    study, overrides = _about(study, tenants, overrides)
    plan, place = _unchecked(study, device, devices, overrides)
    unknown = check_workloads(plan.study, execute=False, simulated=place.simulated)
    known = earlier(out, plan.study, place.name)
    alone_s = known.alone_s if known is not None and known.alone_s else _alone_s(plan, place)
    if known is not None and known.windows is not None:
        plan = plan.with_windows(known.windows, alone_s)
    elif place.simulated:
        plan = plan.with_windows(expected(plan.study), alone_s)
    problems = tuple(impossible(plan.study, alone_s))
    forecast = replace(forecast_for(plan, place), unchecked=unknown, problems=problems)
    require_fit(forecast, place)
    if known is None:
        return forecast if place.simulated else _from_noise(forecast)
    if known.blocks and known.windows == expected(plan.study) and not place.simulated:
        forecast = forecast.at_pace(known.seconds / known.blocks, plan.study)
    scale = forecast.seconds_max / known.seconds if known.seconds else None
    return replace(
        forecast,
        widest=known.widest_after(forecast.blocks_max),
        widest_from=f"from run {known.run}",
        wall_s=known.wall_s * scale if place.simulated and scale is not None else None,
    )


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


def _alone_s(plan: "RunPlan", place: "Device") -> Mapping[str, float]:
    """Seconds of a request alone on a simulated GPU, as far as windows, rates or limits depend on it.

    Unknown for other devices until they have run it.
    """
    if not place.simulated or place.names:
        return {}
    from cotenant.measure.simulated.model_error import request_times

    study, written = plan.study, plan.as_written or plan.study
    timed = written.window_s is not None and written.lead_s is not None
    names = demanding(study) if timed else study.measured()
    entries = {name: study.tenants[name] for name in names}
    return request_times(
        place.simulation(),
        {name: entry.spec() for name, entry in entries.items()},
        {
            name: max(load.outstanding for load in (study.loads if entry.arrivals is None else (entry.arrivals,)))
            for name, entry in entries.items()
        },
    )


def _from_noise(forecast: "Forecast") -> "Forecast":
    from cotenant.measure.canary import block_noise, expected_half_width

    noise = block_noise()
    if noise is None or not DeviceName(forecast.device).on_cpu:
        return forecast
    widest = expected_half_width(noise, forecast.blocks_max)
    return replace(forecast, widest=widest, widest_from="at best, from how much a plain loop varied just now")


def _calibrated(study: str | Path | Study, overrides: Sequence[str], source: Path) -> Study:
    """The study with measured solo times in all of its settings."""
    from cotenant.api.calibrate import measured_solos

    rows = [solo.model_dump(exclude={"row"}, exclude_none=True) for solo in measured_solos(source)]
    given = _study(study, overrides)
    settings = tuple({**setting, "solo_ms": rows} for setting in given.settings)
    return given.model_copy(update={"settings": settings}).placed(given.places)


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
    from cotenant.devices import find_device
    from cotenant.devices.group_names import require_group
    from cotenant.measure.run_plan import plan_for
    from cotenant.planning.inputs.studies import planned_study
    from cotenant.study.files import study_from

    if not isinstance(study, Study):
        planned = planned_study(study, device if devices is None else devices)
        if planned is not None:
            study, device, devices = study_from(planned, overrides), None, None
            overrides = ()
    study = _study(study, overrides)
    if device is not None and devices is not None:
        raise DeviceError("--device and --devices were both given", hint="name one device, or one group of devices")
    named = device if devices is None else devices
    place = find_device(study.device if named is None else named)  # an empty name is a mistake, not the default
    if devices is not None:
        place = require_group(place, devices)
    study = study.model_copy(update={"device": place.name}).placed(study.places)
    return plan_for(study, place), place


def _study(study: str | Path | Study, overrides: Sequence[str]) -> Study:
    from cotenant.study.files import load_study, study_from

    if not isinstance(study, Study):
        return load_study(study, overrides)
    return study_from(study.model_dump(mode="json", by_alias=True), overrides) if overrides else study


def _on_cluster(path: Path) -> bool:
    from cotenant.store.folder import RunFolder

    return "fleet" in RunFolder.open(path).manifest


def _resumed_on(path: Path, on: str | None, *, insecure: bool, listener: Listener) -> Path:
    from cotenant.fleet import cluster_run as fleet

    folder, study, where = fleet.reopened(path)
    return fleet.carry_out(
        study,
        on=on or str(where["on"]),
        devices=str(where["devices"]),
        out=path.parent,
        listener=listener,
        insecure=insecure,
        folder=folder,
    )


def _reopened(path: Path) -> "tuple[RunFolder, RunPlan, Device]":
    from cotenant.devices import find_device
    from cotenant.measure.run_plan import plan_for
    from cotenant.store.folder import RunFolder
    from cotenant.store.manifest import PROFILE_PASS
    from cotenant.study.files import study_from_text

    folder = RunFolder.open(path)
    if PROFILE_PASS in folder.manifest:
        raise RunFolderError(
            f"{path} is a profile pass: it can't be mixed with timed trials",
            hint="profile again: cotenant profile STUDY",
        )
    text = folder.manifest.get("study")
    if not isinstance(text, str):
        raise RunFolderError(f"the manifest of {path} does not name its study", hint="start a new run")
    study = study_from_text(text, source=str(path / "manifest.json"))
    device = find_device(study.device)
    return folder, plan_for(study, device, folder.manifest.get("modes")), device


# --- a study on several devices in turn: a run for each, read together


def each_of(devices: str | None) -> tuple[str, ...]:
    """The devices of a list such as `sim:t4,sim:v100-sxm2-32gb`; empty for a group such as `cuda:0,1`."""
    parts = [part.strip() for part in (devices or "").split(",")]
    whole = all(part == "cpu" or (part.partition(":")[2] and not part[0].isdigit()) for part in parts)
    return tuple(dict.fromkeys(parts)) if len(parts) > 1 and whole else ()


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
    from dataclasses import replace

    from cotenant.errors import DoesNotFit
    from cotenant.measure.fit import forecast_for
    from cotenant.measure.run_plan import plan_for
    from cotenant.study.expand import without
    from cotenant.text import size

    plan, place = resolved(study, name, None, overrides)
    found = forecast_for(plan, place)
    misfits = {mix.mix: mix.needed_bytes for mix in found.solo().memory if not mix.fits}
    if not misfits:
        return plan, place
    if len(misfits) == len(plan.study.measured()):
        raise DoesNotFit(
            f"no tenant of {plan.study.name} fits on {name}", hint="leave the device out, or lower the batches"
        )
    said = tuple(
        f"{tenant} was left out: it needs {size(needed)}, and the device has {size(found.memory_bytes)}"
        for tenant, needed in misfits.items()
    )
    smaller = plan_for(without(plan.study, misfits), place, plan.modes)
    return replace(smaller, too_small_for=said), place
