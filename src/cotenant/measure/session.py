"""One start (or resume) of a run: the lock, the folder, the bench, and an orderly end on every exit."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from cotenant import interruption
from cotenant.devices.protocol import Device
from cotenant.errors import CotenantError, RunFolderError
from cotenant.measure import provenance
from cotenant.measure.bench import Bench, bench_for
from cotenant.measure.calibration import FIRST_NUMBER
from cotenant.measure.events import Listener, RunEnded, RunStarted
from cotenant.measure.fit import forecast_for, require_fit
from cotenant.measure.local_bench import LocalBench
from cotenant.measure.locking import device_lock
from cotenant.measure.run_plan import RunPlan, laid_out
from cotenant.measure.runner import Runner
from cotenant.store.folder import RunFolder, new_run_path
from cotenant.store.integrity import set_damaged_aside
from cotenant.study.model import Study
from cotenant.study.workload_check import check_workloads
from cotenant.tenancy.tenant_entry import demands
from cotenant.workloads.servers import is_server


def carry_out(
    plan: RunPlan, device: Device, *, folder: RunFolder | None, out: Path, listener: Listener
) -> tuple[str, Path]:
    """Resume a run, or start a run in a new folder under ``out``; return why it ended and where it is."""
    path = folder.path if folder else new_run_path(out, plan.study.name)
    asks = _only_asks(plan)
    lock = device_lock(device.lock_keys(), run=str(path), purpose="ask" if asks else "measure")
    with interruption.heard(), lock:
        if folder is not None:
            folder = RunFolder.open(path)  # the previous holder of the lock may have continued it
            resumed = True
        else:
            folder = RunFolder.create(path, {"run": path.name, **manifest_of(plan, device)})
            resumed = False
        folder.resume()
        set_damaged_aside(folder)
        sessions = [*folder.manifest.get("sessions", []), provenance.session()]
        folder.update_manifest(sessions=sessions, state="running", why=None)
        listener(started(plan, device.name, folder, resumed=resumed, simulated=device.simulated))
        bench = LocalBench(
            device,
            bench_for(device, run=folder.run, before=plan.study.before),
            plan.study,
            run=folder.run,
            session=len(sessions) - 1,
            listener=listener,
            measure_peaks=not asks,
        )
        why = conduct(plan, bench, folder, listener)
    return why, path


def measured(study: Study, *, device: str | None = None, out: Path, listener: Listener) -> Path:
    """Run a study whose workloads and memory are checked first; returns the run folder. Raises CotenantError."""
    plan, place = laid_out(study, device)
    check_workloads(plan.study, simulated=place.simulated)
    require_fit(forecast_for(plan, place), place)
    return carry_out(plan, place, folder=None, out=out, listener=listener)[1]


def conduct(plan: RunPlan, bench: Bench, folder: RunFolder, listener: Listener) -> str:
    """Run to the end and shut the bench down, whatever happens; the manifest says how it ended, and why."""
    try:
        why = Runner(plan, bench, folder, listener=listener).run()
    except BaseException as problem:
        asked = isinstance(problem, KeyboardInterrupt) or interruption.came()
        with suppress(KeyboardInterrupt), interruption.held():  # a second Ctrl-C must not interrupt the shutdown
            bench.kill()
            if asked:
                folder.update_manifest(state="interrupted", why="interrupted")
        if asked:
            with suppress(OSError):  # the terminal may be gone
                listener(RunEnded(folder=folder.path, why="interrupted"))
            raise KeyboardInterrupt from None
        with suppress(RunFolderError):  # a full disk is the likely cause: the error itself matters more
            why = problem.message if isinstance(problem, CotenantError) else "an unexpected error"
            folder.update_manifest(state="failed", why=why)
        raise
    bench.close()
    folder.update_manifest(state="complete", why=why, trials=len(folder.committed()))
    listener(RunEnded(folder=folder.path, why=why))
    return why


def _only_asks(plan: RunPlan) -> bool:
    """Whether all tenants are servers that run already: the study itself uses no device."""
    specs = [tenant.spec() for tenant in plan.study.tenants.values()]
    return all(is_server(spec.name) and spec.server is None for spec in specs)


def started(plan: RunPlan, device: str, folder: RunFolder, *, resumed: bool, simulated: bool) -> RunStarted:
    """The event at the start of a run."""
    study = plan.study
    return RunStarted(
        folder=folder.path,
        study=study.name,
        device=device,
        simulated=simulated,
        trials_per_block=plan.trials_per_block,
        blocks_min=study.blocks.min,
        blocks_max=study.blocks.max,
        budget_s=study.budget_s,
        target=study.until.interval if study.until else None,
        resumed=resumed,
        done_trials=sum(number < FIRST_NUMBER for number in folder.committed()),
        demands=tuple(demands(study.tenants)),
    )


def _simulation(plan: RunPlan, device: Device) -> dict[str, Any]:
    """How far to trust a simulated run; it has no instrument to measure."""
    from cotenant.measure.simulated.model_error import model_error
    from cotenant.tenancy.sharing import Sharing
    from cotenant.tenancy.ways import ALONE

    gpu = device.simulation()
    study = plan.study
    errors: dict[str, list[str]] = {}
    for sharing in (Sharing(mode=ALONE), *study.sharings(plan.modes)):
        for name in study.measured():
            for settings in study.settings:
                spec = study.tenants[name].spec()
                found = model_error(gpu.gpu, spec, sharing, gpu.controls(settings), first=False)
                errors[found["class"]] = [found["error"]]
    return {
        "instrument": {"simulated": "nothing was measured, so nothing was disturbed by measuring"},
        "simulation": {
            "error_by_class": errors,
            "intervals": "they include the simulation's error, by class, and the noise of arrivals and hosts",
            "source": "docs/validation.md",
        },
    }


def manifest_of(plan: RunPlan, device: Device) -> dict[str, Any]:
    """What is known of a run before its first trial."""
    return {
        **(_simulation(plan, device) if device.simulated else {}),
        "study_name": plan.study.name,
        "study_file": plan.study.places.source or None,
        "study": plan.study.to_yaml(),
        "modes": list(plan.modes),
        "left_out": list(plan.left_out),
        "too_small_for": list(plan.too_small_for),
        "seed": plan.study.seed,
        "device": device.name,
        "simulated": device.simulated,
        "device_description": dict(device.describe()),
        "sensors": [
            {
                "name": info.name,
                "unit": info.unit,
                "source": info.source,
                "period_s": info.period_s,
                "quality": info.quality,
            }
            for info in dict.fromkeys(info for probe in device.probes() for info in probe.sensors)
        ],
    }
