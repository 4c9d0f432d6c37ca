"""Carries out a study: blocks of trials until the answer is precise enough, each chunk on disk before the next.

Blocks of short windows are carried out several at a time, about a second's worth.
"""

import time
from collections.abc import Iterator, Sequence
from itertools import count

from cotenant import interruption
from cotenant.analyse.estimates.sequential import anytime_interval
from cotenant.analyse.sharing.objective_requests import ObjectiveRequests
from cotenant.analyse.sharing.slowdown import CurrentSlowdown, RunningSlowdowns
from cotenant.errors import SharingUnavailable, TenantFailed
from cotenant.measure import bracketing, calibration, stopping
from cotenant.measure.bench import Bench
from cotenant.measure.events import BlockDone, CurrentEstimate, Listener, Noticed, Preparing, TrialDone, TrialStarted
from cotenant.measure.plan import RunPlan
from cotenant.measure.switching import Switching
from cotenant.measure.visiting import Visits, widths_of
from cotenant.store.folder import RunFolder
from cotenant.store.observe import observations, observe_trial
from cotenant.store.reading import open_runs
from cotenant.study import windows
from cotenant.study.expand import needs_capacity
from cotenant.study.feasibility import impossible
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TenantObservation, TrialRecords

STRETCH_S = 1.0
"""Blocks are carried out together until they take this long."""
LOOKING_SHARE = 0.01
"""Largest share of time spent on looking at the results so far."""
LOOK_AGAIN = 1.2
"""A simulated run looks again after this many times the blocks: the machine's speed must not change where it ends."""


class Runner:
    """One start (or resume) of a run."""

    def __init__(
        self,
        plan: RunPlan,
        bench: Bench,
        folder: RunFolder,
        *,
        session: int,
        listener: Listener,
        simulated: bool = False,
    ) -> None:
        self._plan, self._study, self._bench, self._folder = plan, plan.study, bench, folder
        self._session, self._listener, self._simulated = session, listener, simulated
        self._rates: dict[str, float] = dict(folder.manifest.get("capacity_rps", {}))
        self._seen = RunningSlowdowns()
        self._requests = ObjectiveRequests()
        self._visits = Visits(folder.manifest.get("precise", ()))
        self._begin = time.monotonic()
        self._computed_s = 0.0
        self._left_s: float | None = None
        self._switching = Switching()

    def run(self) -> str:
        """Continue until there is a reason to stop; return it."""
        why = self._run()
        self._bracket("after")
        now = [one.estimate.relative_half_width for one in self._seen.current()]
        widths = sorted(width for width in now if width is not None)
        self._folder.update_manifest(
            switching=self._switching.facts(),
            reached={
                "blocks": self._seen.blocks,
                "seconds": round(self._elapsed_s(), 3),
                "wall_s": round(time.monotonic() - self._begin, 3),
                "widest": widths[-1] if widths else None,
                "typical": widths[len(widths) // 2] if widths else None,
            },
        )
        return why

    def _run(self) -> str:
        self._begin = time.monotonic()
        done = self._folder.committed()
        if done:
            with open_runs([self._folder.path]) as runs:
                self._count(tuple(observations(runs, raw=False)))
        self.get_ready()
        self._bracket("before")
        rule = stopping.rule_of(self._study)
        elapsed: list[float] = []
        look_from, looked = 0.0, 0
        for first, after, trials in self._stretches(done, rule):
            standing = self._standing(first, elapsed)
            why = stopping.reason_to_stop(rule, standing)
            if why is not None:
                if elapsed and looked < first:
                    self._look(rule, first, elapsed)  # or the last that is shown is of some time ago
                return why
            self._pause(first)
            begin = self._elapsed_s()
            self._carry_out_all(trials, first)
            elapsed += [(self._elapsed_s() - begin) / (after - first)] * (after - first)
            due = after >= LOOK_AGAIN * looked if self._simulated else time.monotonic() >= look_from
            if due or after >= rule.blocks_max:
                cost_s = self._look(rule, after, elapsed)
                look_from, looked = time.monotonic() + cost_s / LOOKING_SHARE, after
        return "all blocks done"

    def get_ready(self) -> RunPlan:
        """Measure the instrument and what 100 % load means, and choose windows, unless the manifest has them.

        Returns the plan with its windows.
        """
        done = self._folder.committed()
        self._calibrate(done)
        self._get_to_know(done)
        return self._plan

    def _stretches(self, done: frozenset[int], rule: stopping.Rule) -> Iterator[tuple[int, int, list[Trial]]]:
        """The next trials, with the number of their first block and of the block after them."""
        first: int | None = None
        trials: list[Trial] = []
        for number in count():
            if number >= rule.blocks_max:
                break
            whole = self._plan.block(number).trials
            missing = [trial for trial in self._visits.of(whole, number) if trial.number not in done]
            if not missing:
                continue
            first = number if first is None else first
            trials += missing
            long_enough = sum(trial.window_s + trial.lead_s for trial in trials) >= STRETCH_S
            if long_enough or self._study.fresh == "block" or self._study.pause_s:
                yield first, number + 1, trials
                first, trials = None, []
        if first is not None:
            yield first, rule.blocks_max, trials

    def _elapsed_s(self) -> float:
        """Seconds since this start of the run; simulated time on a simulated device."""
        return self._computed_s if self._simulated else time.monotonic() - self._begin

    def _standing(self, blocks: int, block_times: Sequence[float]) -> stopping.RunProgress:
        return stopping.RunProgress(
            blocks=blocks,
            elapsed_s=self._elapsed_s(),
            block_s=sum(block_times) / len(block_times) if block_times else 0.0,
            widest=self._widest,
            requests=tuple(self._requests.lacking().values()),
        )

    _widest: float | None = None

    def _look(self, rule: stopping.Rule, blocks: int, block_times: Sequence[float]) -> float:
        """Update all estimates, notify the listener, note what is precise enough; return the time this took."""
        begin = time.monotonic()
        now = self._seen.current()
        self._widest = stopping.widest([one.estimate for one in now])
        if rule.target is not None and blocks >= max(rule.blocks_min, rule.precise_from):
            self._note_widths(now, blocks, rule.target, relax=rule.short)
        standing = self._standing(blocks, block_times)
        left = stopping.seconds_left(rule, standing)
        if left is not None:
            self._left_s = left if self._left_s is None else min(left, self._left_s)
        watched = [CurrentEstimate(*row) for row in self._seen.current(anytime_interval)]
        self._listener(
            BlockDone(
                block=blocks - 1,
                estimates=tuple(watched),
                widest=standing.widest,
                elapsed_s=standing.elapsed_s,
                left_s=self._left_s,
            )
        )
        return time.monotonic() - begin

    def _note_widths(self, now: Sequence[CurrentSlowdown], blocks: int, target: float, *, relax: bool) -> None:
        widths = widths_of(now, self._requests.lacking(), target)
        if self._visits.note(blocks, widths, target, relax=relax):
            self._folder.update_manifest(precise=self._visits.to_json())

    def _count(self, found: Sequence[TenantObservation]) -> None:
        self._seen.add(found)
        self._requests.add(found)

    def _pause(self, number: int) -> None:
        if number and self._study.pause_s:
            self._listener(Preparing(f"pausing for {self._study.pause_s:g} s before block {number + 1}"))
            self._bench.pause(self._study.pause_s)

    def _carry_out_all(self, trials: Sequence[Trial], block: int) -> None:
        if self._study.fresh == "block":
            self._bench.refresh()
        self._listener(Preparing(f"starting the tenants of block {block + 1}"))
        self._prepare(trials, strict=block == 0)
        missing = list(trials)
        while missing:
            interruption.obey()
            begin = time.monotonic()
            first = missing[0]
            what = {"mix": first.mix, "sharing": str(first.sharing), "load": first.load}
            self._listener(TrialStarted(trial=first.number, block=first.block, **what))
            found = self._bench.carry_out_some(missing, session=self._session, rates=self._rates)
            self._folder.commit(*found)
            self._note(found, time.monotonic() - begin)
            numbers = {int(records.trial["trial"]) for records in found}
            missing = [trial for trial in missing if trial.number not in numbers]

    def _prepare(self, trials: Sequence[Trial], *, strict: bool) -> None:
        try:
            self._bench.prepare(trials)
        except (SharingUnavailable, TenantFailed):
            # Before anything was measured this is the user's to fix. Later it is a result: the trial records it.
            if strict and self._seen.empty:
                raise

    def _note(self, found: Sequence[TrialRecords], seconds: float) -> None:
        if len(found) > 1 and not self._simulated:
            self._switching.add(found)
        for records in found:
            trial = records.trial
            self._count(observe_trial(records, self._folder.run))
            self._computed_s += float(trial["window_s"]) + (trial["window_start_ns"] - trial["start_ns"]) / 1e9
            self._listener(
                TrialDone(
                    trial=trial["trial"],
                    block=trial["block"],
                    verdict=trial["verdict"],
                    reasons=tuple(trial["reasons"]),
                    seconds=seconds / len(found),
                    mix=trial["mix"],
                    sharing=trial["sharing"],
                    load=trial["load"],
                )
            )

    def _get_to_know(self, done: frozenset[int]) -> None:
        """Start the tenants and time them: what can't work is reported before the first trial.

        Also chooses the window once per run, where the study leaves it open.
        """
        kept = self._folder.manifest.get("windows")
        if kept is None and all(number in calibration.NUMBERS for number in done):
            trials = self._plan.block(0).trials
            self._listener(Preparing("starting the tenants"))
            self._prepare(trials, strict=True)
            alone_s = dict(self._bench.request_times(trials))
            for sentence in impossible(self._study, alone_s):
                self._listener(Noticed(sentence))
            needed = [windows.needed_s(trial, alone_s) for trial in trials]
            slowest_s = max((one for one in needed if one is not None), default=None)
            chosen = windows.LONG if slowest_s is None else windows.chosen(slowest_s)
            lengths = windows.expected(windows.with_windows(self._study, chosen))
            kept = {"window_s": lengths.window_s, "lead_s": lengths.lead_s, "alone_s": alone_s}
            self._folder.update_manifest(windows=kept)
        if kept is not None:
            lengths = windows.Windows(float(kept["window_s"]), float(kept["lead_s"]))
            self._plan = self._plan.with_windows(lengths, kept.get("alone_s", {}))
            self._study = self._plan.study

    def _bracket(self, moment: bracketing.Moment) -> None:
        """Measure servers alone with all others stopped."""
        done = self._folder.committed()
        for trial in bracketing.bracket_trials(self._study, moment, windows.expected(self._study)):
            if trial.number not in done:
                interruption.obey()
                self._listener(Preparing(f"measuring {trial.mix} alone, with the other servers stopped"))
                self._bench.refresh()
                self._folder.commit(self._bench.carry_out(trial, session=self._session, rates=self._rates))

    def _calibrate(self, done: frozenset[int]) -> None:
        """Before the first block, once per run: the instrument, and what 100 % load means."""
        if "instrument" not in self._folder.manifest:
            self._listener(Preparing("measuring the instrument's overhead"))
            both = [self._bench_only(trial, done) for trial in calibration.instrument_trials(self._study.seed)]
            self._folder.update_manifest(instrument=calibration.instrument_facts(both[0], both[1]))
        tenants = [tenant for tenant in needs_capacity(self._study) if tenant.of not in self._rates]
        if not tenants:
            return
        self._listener(Preparing("measuring each tenant's capacity alone"))
        lengths = windows.expected(self._study)
        trials = calibration.capacity_trials(
            tenants, window_s=max(lengths.window_s, 1.0), lead_s=lengths.lead_s, seed=self._study.seed
        )
        self._bench.prepare(trials)
        for trial in trials:
            [observation] = observe_trial(self._bench_only(trial, done), self._folder.run)
            if observation.n == 0:
                raise TenantFailed(
                    f"the capacity of {trial.mix} alone could not be measured, so its load is undefined",
                    hint=f"give its load as a rate, or find out why it failed: cotenant run with only {trial.mix}",
                )
            self._rates[observation.of] = observation.throughput_rps
        self._folder.update_manifest(capacity_rps=self._rates)

    def _bench_only(self, trial: Trial, done: frozenset[int]) -> TrialRecords:
        records = self._bench.carry_out(trial, session=self._session, rates={})
        if trial.number not in done:  # a run killed here measures it again; the first record stays
            self._folder.commit(records)
        return records
