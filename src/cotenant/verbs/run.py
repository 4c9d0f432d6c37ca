"""`run`: carry a study out, or go on with a run that was cut short."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.errors import RunFolderError
from cotenant.measure.events import Listener, RunStarted, silent
from cotenant.study.model import Study

if TYPE_CHECKING:
    from cotenant.analyse.summary import Summary
    from cotenant.devices.protocol import Device
    from cotenant.measure.plan import Plan
    from cotenant.store.folder import RunFolder
    from cotenant.study.forecast import Forecast

PROCESS_BYTES = 400 << 20
"""Estimate of what a tenant process holds besides its model: Python and torch."""
WARM_S = (0.25, 5.0)
"""A fresh tenant serves at least and at most this long before its first trial."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to."""

    folder: Path
    why: str
    """Why it stopped: precise enough, time budget used, all blocks done."""
    summary: "Summary"


def run(
    study: str | Path | Study | None,
    *,
    device: str | None = None,
    overrides: Sequence[str] = (),
    out: Path = Path("runs"),
    resume: Path | None = None,
    listener: Listener = silent,
) -> RunResult:
    """Carry a study out.

    Args:
        study: A built-in study's name, a YAML file, or a study; None with ``resume``.
        device: Where, instead of the study's own device.
        overrides: `key=value` each, as `--set`.
        out: The folder in which the run gets a folder of its own.
        resume: A run folder to go on with; it knows its study and device.
        listener: Told what happens while it goes on.

    Raises:
        CotenantError: Nothing that was measured is lost.
    """
    from cotenant.verbs.show import show

    if resume is not None:
        if study is not None or device is not None or overrides:
            raise RunFolderError(
                "a run that is resumed keeps its study and its device",
                hint=f"cotenant run --resume {resume}, without anything else; or begin a new run",
            )
        folder, plan, place = _reopened(resume)
    else:
        assert study is not None
        plan, place = _resolved(study, device, overrides)
        folder = None
    _forecast(plan, place).require_fit()
    why, path = _carry_out(plan, place, folder=folder, out=out, listener=listener)
    return RunResult(folder=path, why=why, summary=show([path]))


def dry_run(study: str | Path | Study, *, device: str | None = None, overrides: Sequence[str] = ()) -> "Forecast":
    """What a study would take: trials, time, memory. Raises DoesNotFit if a mix can't be held."""
    plan, place = _resolved(study, device, overrides)
    forecast = _forecast(plan, place)
    forecast.require_fit()
    return forecast


def _resolved(study: str | Path | Study, device: str | None, overrides: Sequence[str]) -> "tuple[Plan, Device]":
    from cotenant.devices import find_device
    from cotenant.measure.plan import plan_for
    from cotenant.study.files import load_study
    from cotenant.study.workload_check import check_workloads

    if not isinstance(study, Study):
        study = load_study(study, overrides)
    place = find_device(device or study.device)
    study = study.model_copy(update={"device": place.name}).placed(study.places)
    check_workloads(study)
    return plan_for(study, place), place


def _reopened(path: Path) -> "tuple[RunFolder, Plan, Device]":
    from cotenant.devices import find_device
    from cotenant.measure.plan import plan_for
    from cotenant.store.folder import RunFolder
    from cotenant.study.files import study_from_text

    folder = RunFolder.open(path)
    text = folder.manifest.get("study")
    if not isinstance(text, str):
        raise RunFolderError(f"the manifest of {path} does not say which study it is", hint="begin a new run")
    for key, kind in (("sessions", list), ("modes", list), ("capacity_rps", dict)):
        if not isinstance(folder.manifest.get(key, kind()), kind):
            raise RunFolderError(
                f"the manifest of {path} is damaged: {key!r} is no {kind.__name__}", hint="restore it from a copy"
            )
    study = study_from_text(text, source=str(path / "manifest.json"))
    device = find_device(study.device)
    return folder, plan_for(study, device, folder.manifest.get("modes")), device


def _forecast(plan: "Plan", device: "Device") -> "Forecast":
    from cotenant import workloads
    from cotenant.study.forecast import forecast

    return forecast(
        plan.study,
        modes=plan.modes,
        memory_bytes=device.free_memory_bytes(),
        properties=lambda spec: workloads.find(spec.name).properties(spec),
        base_bytes_per_tenant=PROCESS_BYTES,
        device=device.name,
    )


def _carry_out(
    plan: "Plan", device: "Device", *, folder: "RunFolder | None", out: Path, listener: Listener
) -> tuple[str, Path]:
    from cotenant.measure import provenance
    from cotenant.measure.calibration import FIRST_NUMBER
    from cotenant.measure.live import LiveBench
    from cotenant.measure.locking import device_lock
    from cotenant.measure.properties import Known
    from cotenant.measure.runner import Runner, ended
    from cotenant.store.folder import RunFolder
    from cotenant.store.naming import new_run_path

    study = plan.study
    path = folder.path if folder else new_run_path(out, study.name)
    known = Known()
    with ExitStack() as stack:
        stack.enter_context(device_lock(device.lock_keys(), run=str(path)))
        resumed = folder is not None
        if folder is not None:
            folder = RunFolder.open(folder.path)  # whoever held the lock until now may have gone on with it
        if folder is None:
            folder = RunFolder.create(path, {"run": path.name, **_manifest(plan, device)})
        folder.resume()
        sessions = [*folder.manifest.get("sessions", []), provenance.session()]
        folder.update_manifest(sessions=sessions, state="running")
        listener(
            RunStarted(
                folder=folder.path,
                study=study.name,
                device=device.name,
                simulated=device.simulated,
                trials_per_block=plan.trials_per_block,
                blocks_min=study.blocks.min,
                blocks_max=study.blocks.max,
                budget_s=study.budget_s,
                target=study.until.interval if study.until else None,
                resumed=resumed,
                done_trials=sum(number < FIRST_NUMBER for number in folder.committed()),
            )
        )
        bench = LiveBench(
            device,
            run=folder.run,
            properties=lambda tenant: known.properties(tenant.workload),
            memory_of=lambda tenant: (known.properties(tenant.workload).peak_memory_bytes or 0) + PROCESS_BYTES,
            warm_s=WARM_S,
        )
        runner = Runner(plan, bench, folder, session=len(sessions) - 1, listener=listener)
        try:
            why = runner.run()
        except KeyboardInterrupt:
            bench.kill()
            ended(folder, "interrupted", listener)
            raise
        except BaseException:
            bench.kill()
            with suppress(RunFolderError):  # a full disk is the likely reason to be here: the error itself matters more
                folder.update_manifest(state="failed")
            raise
        bench.close()
        ended(folder, why, listener)
    return why, folder.path


def _manifest(plan: "Plan", device: "Device") -> dict[str, Any]:
    return {
        "study_name": plan.study.name,
        "study": plan.study.to_yaml(),
        "modes": list(plan.modes),
        "left_out": list(plan.left_out),
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
            for probe in device.probes()
            for info in probe.sensors
        ],
    }
