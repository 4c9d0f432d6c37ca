"""One start (or resume) of a run: the lock, the folder, the bench, and an orderly end on every way out."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from cotenant import interruption
from cotenant.devices.group import DeviceGroup
from cotenant.devices.protocol import Device
from cotenant.errors import RunFolderError
from cotenant.measure import provenance
from cotenant.measure.bench import Bench
from cotenant.measure.calibration import FIRST_NUMBER
from cotenant.measure.events import Listener, RunEnded, RunStarted
from cotenant.measure.live import LiveBench
from cotenant.measure.locking import device_lock
from cotenant.measure.plan import Plan
from cotenant.measure.properties import Known
from cotenant.measure.runner import Runner
from cotenant.store.folder import RunFolder
from cotenant.store.naming import new_run_path
from cotenant.study.preconditions import Before

PROCESS_BYTES = 400 << 20
"""Estimate of what a tenant process holds besides its model: Python and torch."""
WARM_S = (0.25, 5.0)
"""A fresh tenant serves at least and at most this long before its first trial."""


def carry_out(
    plan: Plan, device: Device, *, folder: RunFolder | None, out: Path, listener: Listener
) -> tuple[str, Path]:
    """Go on with a run, or begin one in a folder of its own under ``out``; gives why it ended and where it is."""
    path = folder.path if folder else new_run_path(out, plan.study.name)
    with interruption.heard(), device_lock(device.lock_keys(), run=str(path)):
        if folder is not None:
            folder = RunFolder.open(path)  # whoever held the lock until now may have gone on with it
            resumed = True
        else:
            folder = RunFolder.create(path, {"run": path.name, **_manifest(plan, device)})
            resumed = False
        folder.resume()
        sessions = [*folder.manifest.get("sessions", []), provenance.session()]
        folder.update_manifest(sessions=sessions, state="running")
        listener(_started(plan, device, folder, resumed=resumed))
        bench = _bench(device, folder, plan.study.before)
        try:
            why = Runner(plan, bench, folder, session=len(sessions) - 1, listener=listener).run()
        except BaseException as problem:
            bench.kill()
            if isinstance(problem, KeyboardInterrupt) or interruption.came():
                folder.update_manifest(state="interrupted", why="interrupted")
                listener(RunEnded(folder=path, why="interrupted"))
                raise KeyboardInterrupt from None
            with suppress(RunFolderError):  # a full disk is the likely reason to be here: the error itself matters more
                folder.update_manifest(state="failed")
            raise
        bench.close()
        folder.update_manifest(state="complete", why=why)
        listener(RunEnded(folder=path, why=why))
    return why, path


def _bench(device: Device, folder: RunFolder, before: Before | None) -> Bench:
    """What carries out the trials: tenants on a real device, or a model of one."""
    if device.simulated and isinstance(device, DeviceGroup):
        from cotenant.measure.simulated.fleet import SimulatedFleetBench

        return SimulatedFleetBench(device, run=folder.run, before=before)
    if device.simulated:
        from cotenant.devices.simulated.device import SimulatedGpu
        from cotenant.measure.simulated.bench import SimulatedBench

        assert isinstance(device, SimulatedGpu)
        return SimulatedBench(device, run=folder.run)
    known = Known()
    spec_on = getattr(device, "spec", lambda spec: spec)  # a GPU has its own default number format
    return LiveBench(
        device,
        run=folder.run,
        properties=lambda tenant: known.properties(spec_on(tenant.workload)),
        memory_of=lambda tenant: (known.properties(spec_on(tenant.workload)).peak_memory_bytes or 0) + PROCESS_BYTES,
        warm_s=WARM_S,
        before=before,
    )


def _started(plan: Plan, device: Device, folder: RunFolder, *, resumed: bool) -> RunStarted:
    study = plan.study
    return RunStarted(
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


def _simulation() -> dict[str, Any]:
    """How far to trust a simulated run; its instrument is not measured, since there is none."""
    from cotenant.devices.simulated.trust import validated_errors

    errors = {kind: [error.sentence for error in found] for kind, found in validated_errors().items() if found}
    return {
        "instrument": {"simulated": "nothing was measured, so nothing was disturbed by measuring"},
        "simulation": {
            "error_by_class": errors,
            "given": "slowdowns were validated with measured solo times given; here solo times are simulated too",
            "intervals": "they show variation with arrivals and host jitter, not how far the model is from a GPU",
            "source": "docs/validation.md",
        },
    }


def _manifest(plan: Plan, device: Device) -> dict[str, Any]:
    return {
        **(_simulation() if device.simulated else {}),
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
            for info in dict.fromkeys(info for probe in device.probes() for info in probe.sensors)
        ],
    }
