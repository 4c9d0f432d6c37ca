"""Owns one device (or many simulated ones) on its node for the duration of a run: the lock, the tenants, the records.

Lives in an actor. Records are sealed on the node's own disk at the end of a block and then sent; they stay there until
the driver has them, so a driver that dies loses nothing.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from cotenant.cache import state_folder
from cotenant.devices.protocol import Device
from cotenant.errors import CotenantError
from cotenant.fleet import wire
from cotenant.fleet.agent import NodeAgent
from cotenant.measure.bench import Stretch, bench_for
from cotenant.measure.events import Event, Noticed, Preparing
from cotenant.measure.fit import forecast_for, require_fit
from cotenant.measure.local_bench import LocalBench
from cotenant.measure.locking import device_lock
from cotenant.measure.run_plan import RunPlan, plan_for
from cotenant.measure.session import manifest_of
from cotenant.store.folder import LONGEST_NAME, RunFolder, chunk_name, slug
from cotenant.store.folder import MOST_TRIALS as MOST_IN_CHUNK
from cotenant.store.observe import counted_rows
from cotenant.study.files import study_from_text
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TrialRecords

TELL_S = 0.25
"""Shortest interval between progress messages."""
READY = ("instrument", "capacity_rps", "windows", "roofline")
"""Entries of the manifest that are measured before the first block, once for all devices."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """State for the duration of a run."""

    device: str
    """The run's name for the device or group."""
    identity: str | None
    """Sensors of a real device; simulated ones have theirs in their trials."""
    plan: RunPlan
    bench: LocalBench
    folder: RunFolder


class DeviceWorker(NodeAgent):
    """A device on its node; every method takes and returns bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._held = ExitStack()
        self._opened: _Opened | None = None
        self._sentences: list[bytes] = []

    def open(self, order: bytes) -> bytes:
        """Acquire the device, and report what it can do for the study; a problem as JSON if it is unavailable."""
        try:
            return wire.packed(self._open(wire.unpacked(order)))
        except CotenantError as error:
            self._held.close()
            return wire.problem(error)

    def get_ready(self, order: bytes) -> Iterator[bytes]:
        """Start the tenants; yield progress and, on the host chosen to measure, entries of the manifest and trials.

        Reports problems before the first trial.
        """
        asked = wire.unpacked(order)
        here = self._here()
        try:
            if asked["measure"]:
                here.folder.update_manifest(**asked["known"])
                here.bench.get_ready(here.plan, here.folder)
            else:
                here.bench.start_tenants(here.plan)
        except CotenantError as error:
            yield wire.problem(error)
            return
        for sentence in self._sentences:  # noqa: UP028 - Ray sends into what it iterates over, and a list takes nothing
            yield sentence
        known = here.folder.manifest if asked["measure"] else {}
        yield wire.packed({"ready": {key: known[key] for key in READY if key in known}})
        for chunk in here.folder.chunks() if asked["measure"] else ():
            yield wire.parcel(chunk)

    def carry_out(self, order: bytes) -> Iterator[bytes]:
        """Run one block: progress while it lasts, then its sealed trials."""
        try:
            yield from self._carry_out(wire.unpacked(order))
        except CotenantError as error:
            yield wire.problem(error)

    def fetch(self, name: bytes) -> bytes:
        """Trials that an earlier driver did not receive."""
        here = self._here()
        return wire.parcel(next(path for path in here.folder.chunks() if path.name == wire.unpacked(name)))

    def close(self) -> bytes:
        """Stop the tenants, release the device, and delete what was sent."""
        here = self._here()
        here.bench.close()
        self._held.close()
        shutil.rmtree(here.folder.path, ignore_errors=True)
        return wire.packed({"closed": True})

    def _listen(self, event: Event) -> None:
        """Keep what the user should read before the first block; later the trials show what happens."""
        if isinstance(event, Preparing | Noticed):
            self._sentences.append(wire.packed({"event": type(event).__name__, "text": event.text}))

    def _here(self) -> _Opened:
        assert self._opened is not None, "opened before anything else is asked of it"
        return self._opened

    def _open(self, order: Mapping[str, Any]) -> dict[str, Any]:
        device, place = _places(order)
        study = study_from_text(order["study"], source="the study").model_copy(
            update={"device": place.name, "spread": None, "devices": None, "turns": None}
        )
        from cotenant.study.workload_check import check_workloads

        check_workloads(study)
        plan = plan_for(study, place)
        require_fit(forecast_for(plan, place), place)
        self._held.enter_context(device_lock(place.lock_keys(), run=order["owner"]))
        folder = _staging(order["run"], order["host"])
        staged = [path.name for path in folder.chunks()]
        run, session = order["run"], int(order["session"])
        bench = bench_for(device, run=run, before=study.before)
        self._opened = _Opened(
            device=order["device"],
            identity=None if place.simulated else order["identities"][0],
            plan=plan,
            bench=LocalBench(place, bench, study, run=run, session=session, listener=self._listen),
            folder=folder,
        )
        return {"plan": plan.to_json(), "manifest": manifest_of(plan, place), "staged": staged, "pid": os.getpid()}

    def _carry_out(self, order: Mapping[str, Any]) -> Iterator[bytes]:
        here = self._here()
        self._sentences.clear()
        simulated = here.bench.simulated
        trials = tuple(_local(Trial.model_validate(trial), simulated=simulated) for trial in order["trials"])
        first, after = order["blocks"]
        stretch = Stretch(first, after, trials, begins=order["begins"], alone=order["alone"])
        records: list[TrialRecords] = []
        begin = last_report = time.monotonic()
        yield _progress(trials[0], 0)
        for some in here.bench.carry_out_stretch(stretch, order["rates"]):
            records += [_placed(trial, here) for trial in some]
            if time.monotonic() - last_report >= TELL_S:
                last_report = time.monotonic()
                yield _progress(trials[len(records) - 1], len(records))
        for name in order["delivered"]:
            shutil.rmtree(here.folder.path / "trials" / name, ignore_errors=True)
        names = []
        for chunk in _chunked(records):
            here.folder.commit(*chunk)
            names.append(chunk_name(int(trial.trial["trial"]) for trial in chunk))
        for name in names:
            yield wire.parcel(here.folder.path / "trials" / name)
        delivery = here.bench.delivery(records, seconds=time.monotonic() - begin, complete=True)
        yield wire.packed(
            {
                "end": [asdict(trial) for trial in delivery.trials],
                "counted": [row for trial in records for row in counted_rows(trial, here.folder.run)],
                "device_s": delivery.device_s,
                **here.bench.facts(),
            }
        )


def _progress(trial: Trial, done: int) -> bytes:
    return wire.packed({"event": "Trial", "block": trial.block, "mix": trial.mix, "done": done})


def _places(order: Mapping[str, Any]) -> tuple[Device, Device]:
    """What trials run on, and the device that describes it."""
    from cotenant.devices import find_device
    from cotenant.devices.group import DeviceGroup

    if not order["simulated"]:
        uuid = str(order["identities"][0])
        device = find_device(f"cuda:{uuid}" if uuid.startswith(("GPU-", "MIG-")) else order["local"])
        return device, device
    whole = find_device(order["local"])
    if not whole.names:
        whole = DeviceGroup(whole.name, [whole.name], find_device, simulated=True)
    group = whole.only(order["members"])
    return group, group.simulation(order["members"][0])


def _staging(run: str, host: str) -> RunFolder:
    path = state_folder("fleet") / slug(run) / slug(host)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (path / "manifest.json").exists():
        folder = RunFolder.open(path)
        folder.resume()
        return folder
    return RunFolder.create(path, {"run": run})


def _local(trial: Trial, *, simulated: bool) -> Trial:
    """The trial in the device's terms: a real device has no members."""
    if simulated:
        return trial
    tenants = tuple(
        tenant.model_copy(
            update={"name": tenant.name.rpartition("@")[0] if tenant.member else tenant.name, "member": None}
        )
        for tenant in trial.tenants
    )
    return trial.model_copy(update={"tenants": tenants})


def _placed(records: TrialRecords, here: _Opened) -> TrialRecords:
    """The records in the run's terms: with the run's device names."""
    trial = {**records.trial, "device": here.device}
    if here.identity is None:
        return replace(records, trial=trial)
    samples = dict(records.samples)
    if samples:
        length = len(next(iter(samples.values())))
        samples["device"] = np.full(length, here.identity, object)
    return replace(
        records,
        trial=trial,
        tenants=tuple({**row, "member": here.identity} for row in records.tenants),
        samples=samples,
    )


def _chunked(trials: Sequence[TrialRecords]) -> Iterator[list[TrialRecords]]:
    """In order of their numbers, cut where a folder's name could become too long."""
    some: list[TrialRecords] = []
    before, gaps = None, 0
    for records in sorted(trials, key=lambda records: int(records.trial["trial"])):
        number = int(records.trial["trial"])
        gaps += number - 1 != before
        if some and (len(some) == MOST_IN_CHUNK or gaps * (2 * max(6, len(str(number))) + 2) > LONGEST_NAME):
            yield some
            some, gaps = [], 1
        some.append(records)
        before = number
    if some:
        yield some
