"""Carries out a study: blocks of trials until the answer is precise enough, each trial on disk before the next."""

import time
from collections.abc import Sequence

from cotenant import interruption
from cotenant.analyse.sharing.slowdown import current_slowdowns
from cotenant.errors import SharingUnavailable, TenantFailed
from cotenant.measure import calibration, stopping
from cotenant.measure.bench import Bench
from cotenant.measure.events import BlockDone, CurrentEstimate, Listener, Preparing, TrialDone, TrialStarted
from cotenant.measure.plan import RunPlan
from cotenant.store.folder import RunFolder
from cotenant.store.observe import observations, observe_trial
from cotenant.study.expand import needs_capacity
from cotenant.tenancy.nouns import Block, Trial
from cotenant.tenancy.records import TenantObservation, TrialRecords


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
    ) -> None:
        self._plan, self._study, self._bench, self._folder = plan, plan.study, bench, folder
        self._session, self._listener = session, listener
        self._rates: dict[str, float] = dict(folder.manifest.get("capacity_rps", {}))
        self._seen: list[TenantObservation] = []
        self._rule = stopping.Rule(
            target=plan.study.until.interval if plan.study.until else None,
            budget_s=plan.study.budget_s,
            blocks_min=plan.study.blocks.min,
            blocks_max=plan.study.blocks.max,
        )

    def run(self) -> str:
        """Go on until there is a reason to stop; gives the reason."""
        begin = time.monotonic()
        done = self._folder.committed()
        if done:
            seen = observations([self._folder.path], raw=False)
            self._seen = [observation for observation in seen if observation.block >= 0]
        self._calibrate(done)
        block_times: list[float] = []
        number = 0
        while True:
            block = self._plan.block(number)
            missing = [trial for trial in block.trials if trial.number not in done]
            if missing:
                why = self._reason_to_stop(number, begin, block_times)
                if why is not None:
                    return why
                self._pause(number)
                block_begin = time.monotonic()
                self._carry_out_block(block, missing, strict=number == 0)
                block_times.append(time.monotonic() - block_begin)
                self._tell_block(block, begin, block_times)
            number += 1
            if number >= self._rule.blocks_max:
                return "all blocks done"

    def _reason_to_stop(self, blocks: int, begin: float, block_times: Sequence[float]) -> str | None:
        return stopping.reason_to_stop(self._rule, self._standing(blocks, begin, block_times))

    def _standing(self, blocks: int, begin: float, block_times: Sequence[float]) -> stopping.Standing:
        return stopping.Standing(
            blocks=blocks,
            elapsed_s=time.monotonic() - begin,
            block_s=sum(block_times) / len(block_times) if block_times else 0.0,
            widest=stopping.widest([estimate.slowdown for estimate in self._estimates()]),
        )

    def _pause(self, number: int) -> None:
        if number and self._study.pause_s:
            self._listener(Preparing(f"pausing for {self._study.pause_s:g} s before block {number + 1}"))
            self._bench.pause(self._study.pause_s)

    def _carry_out_block(self, block: Block, missing: Sequence[Trial], *, strict: bool) -> None:
        if self._study.fresh == "block":
            self._bench.refresh()
        self._listener(Preparing(f"starting the tenants of block {block.number + 1}"))
        try:
            self._bench.prepare(missing)
        except (SharingUnavailable, TenantFailed):
            # Before anything was measured this is the user's to mend. Later it is a result: the trial records it.
            if strict and not self._seen:
                raise
        for trial in missing:
            interruption.obey()
            self._seen += [o for o in self._carry_out(trial) if o.block >= 0]

    def _carry_out(self, trial: Trial) -> tuple[TenantObservation, ...]:
        what = {"mix": trial.mix, "sharing": str(trial.sharing), "load": trial.load}
        self._listener(TrialStarted(trial=trial.number, block=trial.block, **what))
        begin = time.monotonic()
        records = self._bench.carry_out(trial, session=self._session, rates=self._rates)
        self._folder.commit(records)
        self._listener(
            TrialDone(
                trial=trial.number,
                block=trial.block,
                verdict=records.trial["verdict"],
                reasons=tuple(records.trial["reasons"]),
                seconds=time.monotonic() - begin,
                **what,
            )
        )
        return observe_trial(records, self._folder.run)

    def _calibrate(self, done: frozenset[int]) -> None:
        """Before the first block, once per run: the instrument, and what 100 % load means."""
        if "instrument" not in self._folder.manifest:
            self._listener(Preparing("measuring what the instrument itself costs"))
            both = [self._bench_only(trial, done) for trial in calibration.instrument_trials(self._study.seed)]
            self._folder.update_manifest(instrument=calibration.instrument_facts(both[0], both[1]))
        tenants = [tenant for tenant in needs_capacity(self._study) if tenant.of not in self._rates]
        if not tenants:
            return
        self._listener(Preparing("measuring what each tenant can do alone"))
        trials = calibration.capacity_trials(
            tenants, window_s=max(self._study.window_s, 1.0), lead_s=self._study.lead_s, seed=self._study.seed
        )
        self._bench.prepare(trials)
        for trial in trials:
            [observation] = observe_trial(self._bench_only(trial, done), self._folder.run)
            if observation.n == 0:
                raise TenantFailed(
                    f"what {trial.mix} can do alone could not be measured, so its load has no meaning",
                    hint=f"give its load as a rate, or see why it failed: cotenant run with only {trial.mix}",
                )
            self._rates[observation.of] = observation.throughput_rps
        self._folder.update_manifest(capacity_rps=self._rates)

    def _bench_only(self, trial: Trial, done: frozenset[int]) -> TrialRecords:
        records = self._bench.carry_out(trial, session=self._session, rates={})
        if trial.number not in done:  # a run that was killed right here measures it again; the first record stays
            self._folder.commit(records)
        return records

    def _estimates(self) -> tuple[CurrentEstimate, ...]:
        return tuple(CurrentEstimate(*row) for row in current_slowdowns(self._seen))

    def _tell_block(self, block: Block, begin: float, block_times: Sequence[float]) -> None:
        standing = self._standing(block.number + 1, begin, block_times)
        self._listener(
            BlockDone(
                block=block.number,
                estimates=self._estimates(),
                widest=standing.widest,
                elapsed_s=standing.elapsed_s,
                left_s=stopping.seconds_left(self._rule, standing),
            )
        )
