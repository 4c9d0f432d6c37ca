"""The bench of a run on this machine: a single host, which is a device with tenants on it or its model."""

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from cotenant import interruption
from cotenant.analyse.sharing import Moments, carry_over, settled_after
from cotenant.devices.protocol import Device
from cotenant.errors import DeviceError, SharingUnavailable, TenantFailed
from cotenant.measure import calibration
from cotenant.measure.bench import Delivery, DeviceBench, NextStretch, Stretch
from cotenant.measure.events import Listener, Preparing, TrialDone, TrialStarted, silent
from cotenant.measure.run_plan import RunPlan
from cotenant.store.folder import RunFolder
from cotenant.store.observe import observe_trial
from cotenant.study.model import Study
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TrialRecords

log = logging.getLogger(__name__)


class LocalBench:
    """The only host of a run."""

    divided = True
    turns: Mapping[str, str] = {}

    def __init__(
        self,
        device: Device,
        bench: DeviceBench,
        study: Study,
        *,
        run: str,
        session: int,
        listener: Listener = silent,
        measure_peaks: bool = True,
    ) -> None:
        """Make one.

        Args:
            device: The device.
            bench: The device, prepared for trials.
            study: What to measure.
            run: The run that the trials belong to.
            session: Number of this start of the run.
            listener: Receives progress events.
            measure_peaks: False if the device must not be used for that.
        """
        self._device, self._bench, self._study, self._run, self._session = device, bench, study, run, session
        self._listener, self._measure_peaks, self._began = listener, measure_peaks, False
        self._switching = Switching()

    @property
    def simulated(self) -> bool:
        """True if the trials are computed."""
        return self._device.simulated

    @property
    def hosts(self) -> tuple[str, ...]:
        """The name of the device."""
        return (self._device.name,)

    def trials(self, plan: RunPlan, block: int, host: str) -> Sequence[Trial]:  # noqa: ARG002 - as the protocol has it
        """All trials of a block."""
        return plan.block(block).trials

    def get_ready(self, plan: RunPlan, folder: RunFolder) -> None:
        """Measure what has to be known before the first block, unless the manifest has it."""
        self._note_peaks(folder)
        calibration.get_ready(plan, self._bench, folder, session=self._session, listener=self._listener)

    def start_tenants(self, plan: RunPlan) -> None:
        """Start the tenants of the first block. Raises TenantFailed or SharingUnavailable."""
        if plan.study.fresh != "trial":
            self._bench.prepare(plan.block(0).trials)

    def carry_out(self, next_stretch: NextStretch, rates: Mapping[str, float]) -> Iterator[Delivery]:
        """Carry out stretches until there are no more."""
        [host] = self.hosts
        while (stretch := next_stretch(host)) is not None:
            missing = len(stretch.trials)
            begin = time.monotonic()
            for records in self.carry_out_stretch(stretch, rates):
                missing -= len(records)
                yield self.delivery(records, seconds=time.monotonic() - begin, complete=missing == 0)
                begin = time.monotonic()

    def carry_out_stretch(self, stretch: Stretch, rates: Mapping[str, float]) -> Iterator[tuple[TrialRecords, ...]]:
        """Carry out the trials of a stretch; yields the records of those that were carried out without a pause."""
        if self._began and self._study.pause_s:
            self._listener(Preparing(f"pausing for {self._study.pause_s:g} s before block {stretch.first + 1}"))
            self._bench.pause(self._study.pause_s)
        if stretch.alone or self._study.fresh == "block":
            self._bench.refresh()
        each_anew = self._study.fresh == "trial"
        if not each_anew:
            self._start(stretch)
        missing = list(stretch.trials)
        while missing:
            interruption.obey()
            if each_anew:
                self._bench.refresh()
            first = missing[0]
            what = {"mix": first.mix, "sharing": str(first.sharing), "load": first.load}
            self._listener(TrialStarted(trial=first.number, block=first.block, **what))
            together = missing[:1] if each_anew else missing
            done = self._bench.carry_out_some(together, session=self._session, rates=rates)
            self._began = True
            if len(done) > 1 and not self.simulated:
                self._switching.add(done)
            yield done
            numbers = {int(records.trial["trial"]) for records in done}
            missing = [trial for trial in missing if trial.number not in numbers]

    def _start(self, stretch: Stretch) -> None:
        if not stretch.alone:
            self._listener(Preparing(f"starting the tenants of block {stretch.first + 1}"))
        try:
            self._bench.prepare(stretch.trials)
        except (SharingUnavailable, TenantFailed):
            if stretch.begins:
                raise

    def delivery(self, trials: Sequence[TrialRecords], *, seconds: float, complete: bool) -> Delivery:
        """Trials carried out here, in this many seconds."""
        return Delivery(
            host=self._device.name,
            trials=tuple(_done(records, seconds / len(trials)) for records in trials),
            observations=tuple(seen for records in trials for seen in observe_trial(records, self._run)),
            device_s=sum(map(_device_s, trials)),
            complete=complete,
            store=lambda folder: folder.commit(*trials),
        )

    def facts(self) -> Mapping[str, Any]:
        """How trials followed each other."""
        return {"switching": self._switching.facts()}

    def close(self) -> None:
        """End all tenants."""
        self._bench.close()

    def kill(self) -> None:
        """End all tenants at once."""
        self._bench.kill()

    def _note_peaks(self, folder: RunFolder) -> None:
        """Write peak rates into the manifest: they explain the records later, on any machine."""
        if "roofline" in folder.manifest:
            return
        peaks = self._device.remembered_roofline()
        if peaks is None and self._measure_peaks:
            self._listener(Preparing("measuring the device's peak rates, once"))
            try:
                peaks = self._device.roofline()
            except DeviceError as error:
                log.warning("the run's manifest has no peak rates: %s", error.message)
        folder.update_manifest(roofline=None if peaks is None else asdict(peaks))


def _done(records: TrialRecords, seconds: float) -> TrialDone:
    trial = records.trial
    return TrialDone(
        trial=trial["trial"],
        block=trial["block"],
        verdict=trial["verdict"],
        reasons=tuple(trial["reasons"]),
        seconds=seconds,
        mix=trial["mix"],
        sharing=trial["sharing"],
        load=trial["load"],
    )


def _device_s(records: TrialRecords) -> float:
    """Time of a trial on the device's clock: its lead and its window."""
    trial = records.trial
    return float(trial["window_s"]) + float(trial["window_start_ns"] - trial["start_ns"]) / 1e9


# --- measures a run's own switching between windows: settling after a start, and carry-over

BIN_S = 0.005
MOST_BINS = 60
"""What takes longer than this many bins is not settling after a switch."""

Key = tuple[str, str, str, str]
"""Mix, sharing, load, tenant."""


class Switching:
    """Sums over all windows of a run, so that memory does not grow with their number."""

    def __init__(self) -> None:
        self._bins: dict[int, Moments] = {}
        self._after: dict[Key, tuple[Moments, Moments]] = {}

    def add(self, trials: Sequence[TrialRecords]) -> None:
        """Add trials carried out without a pause, in that order."""
        before: set[str] | None = None
        for records in sorted(trials, key=lambda carried: int(carried.trial["start_ns"])):
            on = {str(tenant["of"]) for tenant in records.tenants}
            if records.trial["verdict"] != "invalid":
                for tenant in records.tenants:
                    self._add(records, str(tenant["tenant"]), None if before is None else str(tenant["of"]) in before)
            before = on

    def _add(self, records: TrialRecords, tenant: str, on_before: bool | None) -> None:
        columns = records.requests
        if not columns:
            return
        mine = (columns["tenant"] == tenant) & columns["ok"]
        counted = mine & columns["in_window"]
        if not counted.any():
            return
        took = columns["done_ns"] - columns["started_ns"]
        mean = float(took[counted].mean())
        since = (columns["started_ns"][mine] - int(records.trial["start_ns"])) / 1e9
        for number, ratio in zip((since / BIN_S).astype(int).tolist(), (took[mine] / mean).tolist(), strict=True):
            if 0 <= number < MOST_BINS and ratio > 0:
                self._bins.setdefault(number, Moments()).add(math.log(ratio))
        if on_before is not None:
            trial = records.trial
            key = (str(trial["mix"]), str(trial["sharing"]), str(trial["load"]), tenant)
            on, off = self._after.setdefault(key, (Moments(), Moments()))
            latency = columns["done_ns"][counted] - columns["intended_ns"][counted]
            (on if on_before else off).add(math.log(max(float(np.mean(latency)), 1.0)))

    def facts(self) -> dict[str, Any]:
        """For the manifest."""
        carried = carry_over(self._after.values())
        return {
            "settled_after_s": settled_after(self._bins, BIN_S),
            "carry_over": None if carried is None else carried.to_json(),
        }
