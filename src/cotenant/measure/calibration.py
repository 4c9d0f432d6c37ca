"""Before the first block: the overhead of the instrument, each tenant's capacity alone, and the windows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cotenant.errors import TenantFailed
from cotenant.measure.bench import DeviceBench
from cotenant.measure.events import Listener, Noticed, Preparing
from cotenant.measure.run_plan import RunPlan
from cotenant.store.folder import RunFolder
from cotenant.store.observe import observe_trial
from cotenant.study import windows
from cotenant.study.consistency import impossible
from cotenant.study.expand import needs_capacity
from cotenant.study.model import Study
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import MISSING_NS, TrialRecords
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE
from cotenant.workloads.protocol import WorkloadSpec

CALIBRATION_BLOCK = -1
FIRST_NUMBER = 1_000_000
"""Calibration trials are numbered from here, so that numbers in the blocks don't depend on their count."""
NUMBERS = range(FIRST_NUMBER, 2 * FIRST_NUMBER)
INSTRUMENT_RATE_RPS = 1000


def get_ready(plan: RunPlan, bench: DeviceBench, folder: RunFolder, *, session: int, listener: Listener) -> None:
    """Measure the instrument and what 100 % load means, and choose windows, unless the manifest has them.

    What can't work is reported before the first trial.

    Raises:
        TenantFailed: A tenant can't be built, or does not serve alone.
        SharingUnavailable: A way to share could not be set up.
    """
    _Calibration(bench, folder, session, listener).carry_out(plan)


def with_known_windows(plan: RunPlan, manifest: Mapping[str, Any]) -> RunPlan:
    """The plan with the windows that the manifest has; unchanged before `get_ready`."""
    kept = manifest.get("windows")
    if kept is None:
        return plan
    lengths = windows.Windows(float(kept["window_s"]), float(kept["lead_s"]))
    return plan.with_windows(lengths, kept.get("alone_s", {}))


class _Calibration:
    def __init__(self, bench: DeviceBench, folder: RunFolder, session: int, listener: Listener) -> None:
        self._bench, self._folder, self._session, self._listener = bench, folder, session, listener
        self._done = folder.committed()

    def carry_out(self, plan: RunPlan) -> None:
        self._measure_instrument(plan.study)
        self._measure_capacities(plan.study)
        if "windows" not in self._folder.manifest and all(number in NUMBERS for number in self._done):
            self._choose_windows(plan)

    def _measure_instrument(self, study: Study) -> None:
        if "instrument" in self._folder.manifest:
            return
        self._listener(Preparing("measuring the instrument's overhead"))
        back_to_back, scheduled = map(self._records, instrument_trials(study.seed))
        self._folder.update_manifest(instrument=instrument_facts(back_to_back, scheduled))

    def _measure_capacities(self, study: Study) -> None:
        rates: dict[str, float] = dict(self._folder.manifest.get("capacity_rps", {}))
        tenants = [tenant for tenant in needs_capacity(study) if tenant.of not in rates]
        if not tenants:
            return
        self._listener(Preparing("measuring each tenant's capacity alone"))
        lengths = windows.expected(study)
        trials = capacity_trials(tenants, window_s=max(lengths.window_s, 1.0), lead_s=lengths.lead_s, seed=study.seed)
        self._bench.prepare(trials)
        for trial in trials:
            [observation] = observe_trial(self._records(trial), self._folder.run)
            if observation.n == 0:
                raise TenantFailed(
                    f"the capacity of {trial.mix} alone could not be measured, so its load is undefined",
                    hint=f"give its load as a rate, or find out why it failed: cotenant run with only {trial.mix}",
                )
            rates[observation.of] = observation.throughput_rps
        self._folder.update_manifest(capacity_rps=rates)

    def _choose_windows(self, plan: RunPlan) -> None:
        """Start the tenants and time them; a resumed run keeps its windows."""
        trials = plan.block(0).trials
        alone_s: dict[str, float] = {}
        if plan.study.fresh != "trial":
            self._listener(Preparing("starting the tenants"))
            self._bench.prepare(trials)
            alone_s = dict(self._bench.request_times(trials))
        for sentence in impossible(plan.study, alone_s):
            self._listener(Noticed(sentence))
        needed = [windows.needed_s(trial, alone_s) for trial in trials]
        slowest_s = max((time_s for time_s in needed if time_s is not None), default=None)
        chosen = windows.LONG if slowest_s is None else windows.chosen(slowest_s)
        lengths = windows.expected(windows.with_windows(plan.study, chosen))
        self._folder.update_manifest(
            windows={"window_s": lengths.window_s, "lead_s": lengths.lead_s, "alone_s": alone_s}
        )

    def _records(self, trial: Trial) -> TrialRecords:
        records = self._bench.carry_out(trial, session=self._session, rates={})
        if trial.number not in self._done:  # a run killed here measures it again; the first record stays
            self._folder.commit(records)
        return records


def instrument_trials(seed: int) -> tuple[Trial, Trial]:
    """A tenant that does nothing, back to back and on a schedule: its time is the instrument's overhead."""
    loads = (Load(kind="closed"), Load(kind="poisson", rate_rps=INSTRUMENT_RATE_RPS))
    return tuple(  # type: ignore[return-value]  # two loads give two trials
        _alone(
            Tenant(name="null", of="null", workload=WorkloadSpec(name="null"), load=load),
            number=FIRST_NUMBER + index,
            window_s=0.3,
            lead_s=0.05,
            seed=seed,
        )
        for index, load in enumerate(loads)
    )


def capacity_trials(tenants: Sequence[Tenant], *, window_s: float, lead_s: float, seed: int) -> tuple[Trial, ...]:
    """Each tenant alone and always busy: its throughput defines a load of 100 %."""
    return tuple(
        _alone(tenant, number=FIRST_NUMBER + 2 + index, window_s=window_s, lead_s=lead_s, seed=seed)
        for index, tenant in enumerate(tenants)
    )


def instrument_facts(back_to_back: TrialRecords, scheduled: TrialRecords) -> Mapping[str, Any]:
    """Overhead of the harness per request, and how late it starts requests."""
    closed, open_ = _counted(back_to_back), _counted(scheduled)
    if not closed["done_ns"].size or not open_["done_ns"].size:
        return {"error": "the null tenant did not serve"}
    span = closed["done_ns"][-1] - closed["started_ns"][0]
    late = (open_["started_ns"] - open_["intended_ns"])[open_["started_ns"] != MISSING_NS]
    return {
        "per_request_ns": round(float(span / closed["done_ns"].size), 1),
        "per_request_n": int(closed["done_ns"].size),
        "schedule_rate_rps": INSTRUMENT_RATE_RPS,
        "schedule_error_ns": {"p50": float(np.quantile(late, 0.5)), "p99": float(np.quantile(late, 0.99))},
        "schedule_error_n": int(late.size),
    }


def _counted(records: TrialRecords) -> dict[str, np.ndarray]:
    if not records.requests:
        return {name: np.empty(0) for name in ("intended_ns", "started_ns", "done_ns")}
    keep = records.requests["in_window"] & records.requests["ok"]
    return {name: records.requests[name][keep] for name in ("intended_ns", "started_ns", "done_ns")}


def _alone(tenant: Tenant, *, number: int, window_s: float, lead_s: float, seed: int) -> Trial:
    return Trial(
        number=number,
        block=CALIBRATION_BLOCK,
        order=number - FIRST_NUMBER,
        mix=tenant.name,
        tenants=(tenant,),
        sharing=Sharing(mode=ALONE),
        load=str(tenant.load),
        window_s=window_s,
        lead_s=lead_s,
        seed=seed,
    )
