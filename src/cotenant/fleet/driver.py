"""The main loop of a run on a cluster: assign blocks, receive trials, stop when the answer is precise enough.

Only the driver assigns blocks and writes the run folder. An abandoned host is ignored from then on, so an orphan that
continues behind a dead node can't add a trial twice.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cotenant import interruption
from cotenant.analyse.estimates.sequential import anytime_interval
from cotenant.analyse.sharing.objective_requests import ObjectiveRequests
from cotenant.analyse.sharing.slowdown import RunningSlowdowns
from cotenant.errors import FleetError
from cotenant.fleet import wire
from cotenant.fleet.crew import Crew, Lost
from cotenant.fleet.dispatch import Dispatch
from cotenant.fleet.trials import Layout, order
from cotenant.fleet.worker import READY
from cotenant.measure import stopping
from cotenant.measure.calibration import NUMBERS
from cotenant.measure.events import BlockDone, CurrentEstimate, DeviceAt, Listener, Noticed, Preparing
from cotenant.measure.visiting import Visits, widths_of
from cotenant.store.chunks import trials_in
from cotenant.store.folder import RunFolder, resume_command
from cotenant.store.observe import observations
from cotenant.store.reading import open_runs
from cotenant.study import windows
from cotenant.tenancy.nouns import Trial

log = logging.getLogger(__name__)

WAIT_S = 0.5
NOTE_S = 2.0
"""Seconds between notes in the manifest of what each device does, for `cotenant view`."""
LOOKING_SHARE = 0.02
"""Largest share of time spent on analysing results so far; the driver's machine may be one that is measured."""


class Driver:
    """One start (or resume) of a run on a cluster."""

    def __init__(self, crew: Crew, layout: Layout, folder: RunFolder, *, listener: Listener) -> None:
        self._crew, self._layout, self._folder, self._listener = crew, layout, folder, listener
        self._visits = Visits(folder.manifest.get("precise", ()))
        self._committed = set(folder.committed())
        self._rates: Mapping[str, float] = {}
        self._trials = dict.fromkeys(crew.hosts, 0)
        self._device_s = dict.fromkeys(crew.hosts, 0.0)
        self._delivered: dict[str, list[str]] = {host: [] for host in crew.hosts}
        self._lost: list[str] = []
        self._at: dict[str, dict[str, Any]] = {}
        self._noted_at = 0.0
        self._simulated = next(iter(crew.hosts.values())).simulated
        self._begin = time.monotonic()
        self._block_s: list[float] = []
        self._widest: float | None = None
        self._look_from = 0.0

    def gather(self, staged: Mapping[str, Sequence[str]]) -> None:
        """Receive trials that workers kept for a driver that died."""
        for host, names in staged.items():
            for name in names:
                if not self._committed.intersection(trials_in(name)) and trials_in(name):
                    self._adopt(self._crew.fetch(host, name))

    def run(self) -> str:
        """Run until there is a reason to stop; return the reason."""
        self._begin = time.monotonic()
        self._get_ready()
        rule = stopping.rule_of(self._layout.plan.study)
        dispatch = self._dispatch(rule)
        why = "all blocks done"
        while not dispatch.over:
            interruption.obey()
            self._hand_out(dispatch)
            try:
                for host, data in self._crew.said(WAIT_S):
                    self._hear(dispatch, rule, host, data)
            except Lost as lost:
                self._lose(dispatch, lost.host)
            self._note_devices()
            if not dispatch.stopped and (reason := stopping.reason_to_stop(rule, self._standing(dispatch))) is not None:
                why = reason
                dispatch.stop()
        self._look(rule, dispatch)
        self._note_reached()
        if self._lost and not self._layout.divided:
            self._listener(Noticed(f"{', '.join(self._lost)} ended early; --resume measures the rest there"))
        return why

    def _dispatch(self, rule: stopping.Rule) -> Dispatch:
        label = self._layout.plan.study.turns
        turns = {} if label is None else {
            host.name: host.node.labels[label] for host in self._crew.hosts.values() if label in host.node.labels
        }  # fmt: skip
        return Dispatch(
            list(self._crew.hosts),
            divided=self._layout.divided,
            blocks_max=rule.blocks_max,
            todo=lambda block, host: bool(self._missing(block, host)),
            turns=turns,
        )

    def _missing(self, block: int, host: str) -> list[Trial]:
        trials = self._visits.of(self._layout.of(block, host), block)
        return [trial for trial in trials if trial.number not in self._committed]

    def _hand_out(self, dispatch: Dispatch) -> None:
        for host in list(dispatch.hosts):
            block = dispatch.next(host)
            if block is None:
                continue
            trials = self._missing(block, host)
            delivered, self._delivered[host] = self._delivered[host], []
            self._crew.start(
                host, "carry_out", {"trials": order(trials), "rates": dict(self._rates), "delivered": delivered}
            )
            log.info("block %d: %d trials to %s", block + 1, len(trials), host)
            self._tell(host, f"block {block + 1}")

    def _hear(self, dispatch: Dispatch, rule: stopping.Rule, host: str, data: bytes | None) -> None:
        if data is None:
            return
        if not data.startswith(b"{"):
            self._delivered[host] += self._adopt(data)
            return
        said = wire.unpacked(data)
        wire.raise_problem(said, host)
        if said.get("event") == "Trial":
            block = dispatch.owned.get(host, -1)
            self._tell(host, f"block {block + 1}: {said['mix']}", done=int(said["done"]))
        elif "end" in said:
            dispatch.done(host)
            self._trials[host] += int(said["end"])
            self._device_s[host] += float(said["device_s"])
            self._block_s.append(float(said["device_s"] if self._simulated else said["seconds"]))
            self._tell(host, "done with a block")
            if time.monotonic() >= self._look_from and rule.target is not None:
                took = self._look(rule, dispatch)
                self._look_from = time.monotonic() + took / LOOKING_SHARE

    def _adopt(self, data: bytes) -> list[str]:
        """Store trials in the run folder; return the names of their folders."""
        names = []
        for name, files in wire.opened(data).items():
            numbers = trials_in(name)
            if self._committed.issuperset(numbers) and numbers:  # an earlier driver stored them before it died
                names.append(name)
                continue
            self._folder.adopt(name, files)
            log.debug("stored trials %s", name)
            self._committed.update(numbers)
            names.append(name)
        return names

    def _lose(self, dispatch: Dispatch, host: str) -> None:
        block = dispatch.lose(host)
        self._give_up(host, "between blocks" if block is None else f"in the middle of block {block + 1}")

    def _give_up(self, host: str, when: str) -> None:
        self._crew.drop(host)
        self._lost.append(host)
        rest = "others carry on" if self._layout.divided else "its finished blocks are on disk"
        log.warning("%s is lost, %s", host, when)
        self._listener(Noticed(f"{host} is lost, {when}; {rest}"))
        self._tell(host, "lost", lost=True)
        if not self._crew.hosts:
            raise FleetError(
                f"every node is gone; {len(self._committed)} trials are on disk",
                hint=f"continue when there are nodes again: {resume_command(self._folder.path)}",
            )

    def _get_ready(self) -> None:
        """Start all tenants, and have one host measure what is needed before the first block, once for all."""
        known = {key: self._folder.manifest[key] for key in READY if key in self._folder.manifest}
        measures = None if {"windows", "instrument"} <= set(known) else next(iter(self._crew.hosts))
        for host in self._crew.hosts:
            self._crew.start(host, "get_ready", {"known": known, "measure": host == measures})
            self._tell(host, "getting ready")
        waiting = set(self._crew.hosts)
        while waiting:
            interruption.obey()
            try:
                for host, data in self._crew.said(WAIT_S):
                    if data is None:
                        waiting.discard(host)
                    else:
                        known |= self._heard_ready(host, data)
            except Lost as lost:
                waiting.discard(lost.host)
                self._give_up(lost.host, "before the first block")
                if lost.host == measures:
                    measures = next(iter(self._crew.hosts))
                    self._crew.start(measures, "get_ready", {"known": known, "measure": True})
                    waiting.add(measures)
        self._folder.update_manifest(**known)
        self._rates = dict(known.get("capacity_rps") or {})
        if kept := known.get("windows"):
            lengths = windows.Windows(float(kept["window_s"]), float(kept["lead_s"]))
            self._layout = self._layout.with_study(windows.with_windows(self._layout.plan.study, lengths))

    def _heard_ready(self, host: str, data: bytes) -> dict[str, Any]:
        if not data.startswith(b"{"):
            if any(number in NUMBERS for name in wire.opened(data) for number in trials_in(name)):
                self._delivered[host] += self._adopt(data)
            return {}
        said = wire.unpacked(data)
        wire.raise_problem(said, host)
        if said.get("event") == "Preparing":
            self._listener(Preparing(f"{host}: {said['text']}"))
        elif said.get("event") == "Noticed":
            self._listener(Noticed(f"{host}: {said['text']}"))
        found: dict[str, Any] = said.get("ready", {})
        return found

    def _elapsed_s(self) -> float:
        return max(self._device_s.values()) if self._simulated else time.monotonic() - self._begin

    def _standing(self, dispatch: Dispatch) -> stopping.RunProgress:
        mean = sum(self._block_s) / len(self._block_s) if self._block_s else 0.0
        return stopping.RunProgress(
            blocks=dispatch.finished,
            elapsed_s=self._elapsed_s(),
            block_s=mean,
            widest=self._widest,
            requests=self._requests,
        )

    def _look(self, rule: stopping.Rule, dispatch: Dispatch) -> float:
        """Recompute all estimates from disk; return how long that took."""
        begin = time.monotonic()
        if not any(number not in NUMBERS for number in self._committed):
            return 0.0
        seen = RunningSlowdowns()
        with open_runs([self._folder.path]) as runs:
            found = tuple(observations(runs, raw=False))
        seen.add(found)
        requests = ObjectiveRequests()
        requests.add(found)
        self._requests = tuple(requests.lacking().values())
        now = seen.current()
        self._widest = stopping.widest([one.estimate for one in now])
        if rule.target is not None and seen.blocks >= max(rule.blocks_min, rule.precise_from):
            widths = widths_of(now, requests.lacking(), rule.target)
            if self._visits.note(dispatch.begun, widths, rule.target):
                self._folder.update_manifest(precise=self._visits.to_json())
        standing = self._standing(dispatch)
        self._listener(
            BlockDone(
                block=max(0, standing.blocks - 1),
                estimates=tuple(CurrentEstimate(*row) for row in seen.current(anytime_interval)),
                widest=self._widest,
                elapsed_s=standing.elapsed_s,
                left_s=stopping.seconds_left(rule, standing),
            )
        )
        self._seen = seen
        return time.monotonic() - begin

    _seen: RunningSlowdowns | None = None
    _requests: tuple[float, ...] = ()

    def _note_reached(self) -> None:
        now = [] if self._seen is None else [one.estimate.relative_half_width for one in self._seen.current()]
        widths = sorted(width for width in now if width is not None)
        self._folder.update_manifest(
            reached={
                "blocks": 0 if self._seen is None else self._seen.blocks,
                "seconds": round(self._elapsed_s(), 3),
                "wall_s": round(time.monotonic() - self._begin, 3),
                "widest": widths[-1] if widths else None,
                "typical": widths[len(widths) // 2] if widths else None,
            }
        )

    def _tell(self, host: str, doing: str, done: int = 0, *, lost: bool = False) -> None:
        at = DeviceAt(host, doing, self._trials[host] + done, lost=lost)
        self._at[host] = {"doing": doing, "trials": at.trials}
        self._listener(at)

    def _note_devices(self) -> None:
        if time.monotonic() >= self._noted_at + NOTE_S:
            self._noted_at = time.monotonic()
            self._folder.update_manifest(devices_at=self._at)
