"""Carries out a study: blocks of trials until the answer is precise enough, each chunk on disk before the next.

The same loop for runs on this machine, on a simulated device and on a cluster; the bench is where they differ. Only
the runner assigns blocks and writes the run folder. Blocks of short windows are carried out several at a time, about a
second's worth.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from cotenant.analyse.estimates import anytime_interval
from cotenant.analyse.sharing import CurrentSlowdown, ObjectiveRequests, RunningSlowdowns
from cotenant.measure import dispatch, stopping
from cotenant.measure.bench import Bench, Delivery, HostLost, Stretch
from cotenant.measure.calibration import with_known_windows
from cotenant.measure.dispatch import Dispatch, Visits, widths_of
from cotenant.measure.events import BlockDone, CurrentEstimate, Listener, Noticed, Preparing
from cotenant.measure.run_plan import RunPlan
from cotenant.store.folder import RunFolder
from cotenant.store.observe import observations
from cotenant.store.reading import open_runs
from cotenant.study import windows
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TenantObservation

STRETCH_S = 1.0
"""Blocks are carried out together until they take this long."""
LOOKING_SHARE = 0.01
"""Largest share of time spent on looking at the results so far."""
LOOK_AGAIN = 1.2
"""A simulated run looks again after this many times the blocks: the machine's speed must not change where it ends."""


class Runner:
    """One start (or resume) of a run."""

    def __init__(self, plan: RunPlan, bench: Bench, folder: RunFolder, *, listener: Listener) -> None:
        self._plan, self._bench, self._folder, self._listener = plan, bench, folder, listener
        self._rates: dict[str, float] = {}
        self._done: set[int] = set()
        self._seen = RunningSlowdowns()
        self._requests = ObjectiveRequests()
        self._visits = Visits(folder.manifest.get("precise", ()))
        self._begin = time.monotonic()
        self._device_s: dict[str, float] = {}
        self._begun_s: dict[str, float] = {}
        self._block_s: list[float] = []
        self._widest: float | None = None
        self._left_s: float | None = None
        self._looked, self._look_from = 0, 0.0
        self._lost: list[str] = []

    def run(self) -> str:
        """Continue until there is a reason to stop; return it."""
        self._begin = time.monotonic()
        self._done = set(self._folder.committed())
        if self._done:
            with open_runs([self._folder.path]) as runs:
                self._count(tuple(observations(runs, raw=False)))
        self._bench.get_ready(self._plan, self._folder)
        self._rates = dict(self._folder.manifest.get("capacity_rps") or {})
        self._plan = with_known_windows(self._plan, self._folder.manifest)
        self._bracket("before")
        why = self._carry_out()
        self._bracket("after")
        self._note_reached()
        if self._lost and not self._bench.divided:
            self._listener(Noticed(f"{', '.join(self._lost)} ended early; --resume measures the rest there"))
        return why

    def _carry_out(self) -> str:
        """Carry out blocks until there is a reason to stop; return it."""
        study = self._plan.study
        rule = stopping.rule_of(study)
        one_at_a_time = study.fresh != "study" or study.pause_s
        dispatch = Dispatch(
            self._bench.hosts,
            divided=self._bench.divided,
            blocks_max=rule.blocks_max,
            missing=self._missing,
            stretch_s=0.0 if one_at_a_time else STRETCH_S,
            turns=self._bench.turns,
        )
        why = "all blocks done"

        def next_stretch(host: str) -> Stretch | None:
            nonlocal why
            if not dispatch.stopped:
                reason = stopping.reason_to_stop(rule, self._progress(dispatch.finished))
                if reason is not None:
                    why = reason
                    dispatch.stop()
            stretch = dispatch.next(host)
            if stretch is None:
                return None
            self._begun_s[host] = self._clock_s(host)
            return replace(stretch, begins=stretch.first == 0 and self._seen.empty)

        for event in self._bench.carry_out(next_stretch, self._rates):
            match event:
                case HostLost():
                    self._lose(event.host, dispatch)
                case Delivery():
                    self._accept(event)
                    if event.complete:
                        self._complete(event.host, dispatch, rule)
        if self._block_s and self._looked < dispatch.finished:
            self._look(rule, dispatch)  # or the last that is shown is of some time ago
        return why

    def _missing(self, block: int, host: str) -> list[Trial]:
        trials = self._visits.of(self._bench.trials(self._plan, block, host), block)
        return [trial for trial in trials if trial.number not in self._done]

    def _accept(self, delivery: Delivery) -> None:
        delivery.store(self._folder)
        self._done.update(trial.trial for trial in delivery.trials)
        self._count(delivery.observations)
        self._device_s[delivery.host] = self._device_s.get(delivery.host, 0.0) + delivery.device_s
        for trial in delivery.trials:
            self._listener(trial)

    def _complete(self, host: str, dispatch: Dispatch, rule: stopping.Rule) -> None:
        """Note the time of a host's blocks, and look at the results if that is due."""
        stretch = dispatch.owned[host]
        dispatch.done(host)
        blocks = stretch.after - stretch.first
        self._block_s += [(self._clock_s(host) - self._begun_s[host]) / blocks] * blocks
        finished = dispatch.finished
        by_blocks, by_time = finished >= LOOK_AGAIN * self._looked, time.monotonic() >= self._look_from
        due = by_blocks if self._bench.simulated else by_time
        if due or finished >= rule.blocks_max:
            cost_s = self._look(rule, dispatch)
            self._looked, self._look_from = finished, time.monotonic() + cost_s / LOOKING_SHARE

    def _lose(self, host: str, dispatch: Dispatch) -> None:
        stretch = dispatch.lose(host)
        self._note_lost(host, "between blocks" if stretch is None else f"in the middle of block {stretch.first + 1}")

    def _note_lost(self, host: str, when: str) -> None:
        self._lost.append(host)
        rest = "others carry on" if self._bench.divided else "its finished blocks are on disk"
        self._listener(Noticed(f"{host} is lost, {when}; {rest}"))

    def _clock_s(self, host: str) -> float:
        """Time of a host since this start of the run; simulated time on a simulated device."""
        return self._device_s.get(host, 0.0) if self._bench.simulated else time.monotonic() - self._begin

    def _elapsed_s(self) -> float:
        if self._bench.simulated:
            return max(self._device_s.values(), default=0.0)
        return time.monotonic() - self._begin

    def _progress(self, blocks: int) -> stopping.StoppingState:
        return stopping.StoppingState(
            blocks=blocks,
            elapsed_s=self._elapsed_s(),
            block_s=sum(self._block_s) / len(self._block_s) if self._block_s else 0.0,
            widest=self._widest,
            requests=tuple(self._requests.lacking().values()),
        )

    def _look(self, rule: stopping.Rule, dispatch: Dispatch) -> float:
        """Update all estimates, notify the listener, note what is precise enough; return the time this took."""
        begin = time.monotonic()
        now = self._seen.current()
        self._widest = stopping.widest([slowdown.estimate for slowdown in now])
        blocks = dispatch.finished
        if rule.target is not None and blocks >= max(rule.blocks_min, rule.precise_from):
            self._note_widths(now, dispatch.begun, rule.target, relax=rule.short)
        progress = self._progress(blocks)
        left = stopping.seconds_left(rule, progress)
        if left is not None:
            self._left_s = left if self._left_s is None else min(left, self._left_s)
        self._listener(
            BlockDone(
                block=max(blocks - 1, 0),
                estimates=tuple(CurrentEstimate(*row) for row in self._seen.current(anytime_interval)),
                widest=progress.widest,
                elapsed_s=progress.elapsed_s,
                left_s=self._left_s,
            )
        )
        return time.monotonic() - begin

    def _note_widths(self, now: Sequence[CurrentSlowdown], block: int, target: float, *, relax: bool) -> None:
        """Choose the cells that are visited less often from this block on."""
        widths = widths_of(now, self._requests.lacking(), target)
        if self._visits.note(block, widths, target, relax=relax):
            self._folder.update_manifest(precise=self._visits.to_json())

    def _count(self, seen: Sequence[TenantObservation]) -> None:
        self._seen.add(seen)
        self._requests.add(seen)

    def _bracket(self, moment: dispatch.Moment) -> None:
        """Measure servers alone with all others stopped, in turn."""
        study = self._plan.study
        trials = list(dispatch.bracket_trials(study, moment, windows.expected(study)))
        under_way: str | None = None

        def next_stretch(host: str) -> Stretch | None:
            nonlocal under_way
            trial = next((trial for trial in trials if trial.number not in self._done), None)
            if trial is None or under_way is not None:
                return None
            under_way = host
            self._listener(Preparing(f"measuring {trial.mix} alone, with the other servers stopped"))
            return Stretch(trial.block, trial.block + 1, (trial,), alone=True)

        for event in self._bench.carry_out(next_stretch, self._rates):
            if event.host == under_way:
                under_way = None
            match event:
                case HostLost():
                    self._note_lost(event.host, "before the first block" if moment == "before" else "after the last")
                case Delivery():
                    event.store(self._folder)
                    self._done.update(trial.trial for trial in event.trials)

    def _note_reached(self) -> None:
        half_widths = [slowdown.estimate.relative_half_width for slowdown in self._seen.current()]
        widths = sorted(width for width in half_widths if width is not None)
        self._folder.update_manifest(
            **self._bench.facts(),
            reached={
                "blocks": self._seen.blocks,
                "seconds": round(self._elapsed_s(), 3),
                "wall_s": round(time.monotonic() - self._begin, 3),
                "widest": widths[-1] if widths else None,
                "typical": widths[len(widths) // 2] if widths else None,
            },
        )
