"""The product as a user drives it: a study on a simulated device, executed trial by trial into records.

Calls the same functions as `cotenant run --device sim:...`, in one process and without a run folder: a study is
expanded into a block, shares of capacity are measured first, and `SimulatedBench` executes each trial.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from cotenant.devices.simulated.simulated_gpu import SimulatedGpuDevice, open_simulated
from cotenant.measure.calibration import capacity_trials
from cotenant.measure.simulated.simulated_bench import SimulatedBench
from cotenant.prediction.kernels.columns import Floats
from cotenant.study.expand import expand, needs_capacity
from cotenant.study.model import Study
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TrialRecords
from cotenant.tenancy.sharing import Sharing


@dataclass(frozen=True, slots=True)
class Served:
    """A tenant in a trial: times of its requests in the window, nanoseconds."""

    latency_ns: Floats
    service_ns: Floats
    """From the start of serving, without queueing."""
    window_s: float

    @property
    def mean_ms(self) -> float:
        """Mean latency; NaN if nothing was served."""
        return float(self.latency_ns.mean()) / 1e6 if self.latency_ns.size else float("nan")

    def service_ms(self, quantile: float) -> float:
        """Quantile of the service time."""
        return float(np.quantile(self.service_ns, quantile)) / 1e6 if self.service_ns.size else float("nan")


@dataclass(frozen=True, slots=True)
class Answers:
    """All trials of a study's first block."""

    solo: Mapping[str, Served]
    shared: Mapping[tuple[str, str], Mapping[str, Served]] = field(default_factory=dict)
    """By mix and sharing, then by tenant's name within the mix."""

    def slowdown(self, mix: str, sharing: str, tenant: str) -> float:
        """Mean latency in the mix relative to alone."""
        of = tenant.partition("#")[0]
        return self.shared[mix, sharing][tenant].mean_ms / self.solo[of].mean_ms


def ask(study: Mapping[str, Any]) -> Answers:
    """Execute a block of a study on its simulated device."""
    checked = Study(**{"blocks": 1, "lead": "0.3s", **study})
    device = _device(checked.device)
    bench = SimulatedBench(device, run="validation")
    modes = [mode.mode for mode in device.sharings() if mode.available]
    try:
        rates = _capacity(bench, checked)
        trials = expand(checked, 0, modes).trials
        bench.prepare(trials)
        solo: dict[str, Served] = {}
        shared: dict[tuple[str, str], dict[str, Served]] = {}
        for trial in trials:
            served = _served(trial, bench.carry_out(trial, session=0, rates=rates))
            if trial.solo:
                solo |= served
            else:
                shared[trial.mix, str(trial.sharing)] = served
    finally:
        bench.close()
    return Answers(solo, shared)


def ask_on_share(study: Mapping[str, Any], share: float | str, mode: str = "mps") -> Served:
    """The only tenant of a study on a share of the device without neighbours: an MPS cap, or a MIG instance."""
    checked = Study(**{"blocks": 1, "lead": "0.3s", **study})
    bench = SimulatedBench(_device(checked.device), run="validation")
    try:
        (trial,) = expand(checked, 0, ()).trials
        capped = trial.model_copy(update={"sharing": Sharing(mode=mode, shares=(share,))})
        (served,) = _served(capped, bench.carry_out(capped, session=0, rates={})).values()
    finally:
        bench.close()
    return served


@cache
def _device(name: str) -> SimulatedGpuDevice:
    """Opened once per device, to analyse each request only once."""
    return open_simulated(name)


def _capacity(bench: SimulatedBench, study: Study) -> Mapping[str, float]:
    """Rates of a full load, measured before the first block as in a run."""
    tenants = needs_capacity(study)
    trials = capacity_trials(tenants, window_s=study.window_s or 1.0, lead_s=study.lead_s or 0.0, seed=study.seed)
    rates = {}
    for tenant, trial in zip(tenants, trials, strict=True):
        (served,) = _served(trial, bench.carry_out(trial, session=0, rates={})).values()
        rates[tenant.of] = 1e3 / served.mean_ms
    return rates


def _served(trial: Trial, records: TrialRecords) -> dict[str, Served]:
    served: dict[str, Served] = {}
    requests = records.requests
    for tenant in trial.tenants:
        nothing = np.empty(0)
        if not requests:
            served[tenant.name] = Served(nothing, nothing, trial.window_s)
            continue
        mine = (requests["tenant"] == tenant.name) & requests["in_window"] & requests["ok"]
        done = requests["done_ns"][mine].astype(np.float64)
        served[tenant.name] = Served(
            done - requests["intended_ns"][mine], done - requests["started_ns"][mine], trial.window_s
        )
    return served


def window_s(expected_ms: Sequence[float], *, requests: int = 8, least: float = 0.05) -> float:
    """A window in which the slowest tenant serves this many requests."""
    return max(least, requests * max(expected_ms) / 1e3)
