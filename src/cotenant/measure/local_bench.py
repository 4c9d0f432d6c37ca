"""The bench of a run on this machine: one host, which is a device with tenants on it or a model of one."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cotenant import interruption
from cotenant.devices.protocol import Device
from cotenant.errors import DeviceError, SharingUnavailable, TenantFailed
from cotenant.measure import calibration
from cotenant.measure.bench import Delivery, DeviceBench, NextStretch, Stretch
from cotenant.measure.events import Listener, Preparing, TrialDone, TrialStarted, silent
from cotenant.measure.plan import RunPlan
from cotenant.measure.switching import Switching
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
        """Carry out one stretch after another until there are no more."""
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
