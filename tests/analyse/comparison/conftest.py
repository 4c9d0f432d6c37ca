"""Runs with known truth: machines that drift, processes with different memory layouts, blocks that wander, noise."""

import itertools
import json
from dataclasses import dataclass, field

import numpy as np
import pytest

from cotenant.analyse.sharing.evidence import RequestWork, TenantEvidence
from cotenant.store.folder import RunFolder
from cotenant.tenancy.records import TenantObservation, TrialRecords


@dataclass
class SyntheticRun:
    """A study of tenants alone and in pairs. Spreads are relative standard deviations, all of them realistic."""

    run: str = "now"
    seed: int = 0
    tenants: int = 4
    sharings: int = 2
    blocks: int = 8
    noise: float = 0.008
    """Noise of a trial; heavy-tailed."""
    machine: float = 0.01
    """The machine's speed in this run: uniform within +- this."""
    placement: float = 0.003
    """Effect of a tenant's process in this run: the same in all its blocks."""
    wander: float = 0.005
    """Drift of the machine over the run."""
    slow: dict = field(default_factory=dict)
    """Tenant -> factor on its time, alone and in company."""
    slow_shared: dict = field(default_factory=dict)
    """Tenant -> factor on its time in company only."""
    clock: float | None = None
    clock_bound: bool = True
    """Time follows the clock."""
    everything: float = 1.0
    batch: dict = field(default_factory=dict)
    rate_rps: float | None = None
    unfinished: dict = field(default_factory=dict)
    started: str = "2026-01-01T00:00:00"
    verdict: str = "valid"

    @property
    def names(self):
        return [f"t{number}" for number in range(self.tenants)]

    def evidence(self):
        rng = np.random.default_rng([self.seed, *self.run.encode()])
        speed = rng.uniform(-self.machine, self.machine)
        wander = np.cumsum(rng.normal(0, self.wander / np.sqrt(self.blocks), self.blocks))
        ways = [f"way{number}" for number in range(self.sharings)]
        cells = [((name,), "alone") for name in self.names]
        cells += [(pair, way) for pair in itertools.combinations(self.names, 2) for way in ways]
        found, trial = [], 0
        for mix, sharing in cells:
            placed = {name: rng.normal(0, self.placement) for name in mix}
            for block in range(self.blocks):
                for name in mix:
                    level = 1e6 * (1 + self.names.index(name)) * self.everything * self.slow.get(name, 1)
                    if len(mix) > 1:
                        level *= 1.4 * self.slow_shared.get(name, 1)
                    if self.clock and self.clock_bound:
                        level *= 3000 / self.clock
                    scatter = self.noise * rng.standard_t(5) / np.sqrt(5 / 3)
                    time_ns = float(level * np.exp(speed + wander[block] + placed[name] + scatter))
                    found.append(self._item(trial, block, mix, sharing, name, time_ns, rng))
                trial += 1
        return found

    def _item(self, trial, block, mix, sharing, name, time_ns, rng):  # noqa: PLR0917  (what tells one item from another)
        seen = TenantObservation(
            run=self.run, trial=trial, block=block, mix="+".join(mix), sharing=sharing, settings="{}",
            load="closed(1)" if self.rate_rps is None else "poisson(50%)", device="cpu", simulated=False,
            solo=len(mix) == 1, tenant=name, of=name, verdict=self.verdict,
            failed_checks=() if self.verdict == "valid" else ("tenants_alive",), n=100,
            unfinished=self.unfinished.get(name, 0), throughput_rps=1e9 / time_ns, mean_latency_ns=time_ns,
            window_s=1.0,
        )  # fmt: skip
        return TenantEvidence(
            seen=seen,
            work=RequestWork("gemm", batch=self.batch.get(name, 1)),
            load=seen.load,
            rate_rps=self.rate_rps,
            service_ns=time_ns,
            clock_mhz=None if self.clock is None else self.clock * (1 + 0.002 * rng.normal()),
            started_utc=self.started,
        )

    def write(self, path, **manifest):
        """The same as a run folder; all requests of a trial take its mean."""
        facts = {"run": self.run, "study_name": "mine", "study": "x", "seed": 1, "device": "cpu", "simulated": False}
        folder = RunFolder.create(path, facts | {"device_description": {"model": "X", "cores": [0, 1]}} | manifest)
        for _, group in itertools.groupby(self.evidence(), key=lambda item: item.seen.trial):
            folder.commit(self._records(list(group)))
        return path

    def _records(self, items, requests=4):
        seen = items[0].seen
        start = 1_000_000_000
        durations = np.repeat([round(item.seen.mean_latency_ns) for item in items], requests)
        begin = start + np.tile(np.arange(requests), len(items)) * 50_000_000
        samples = {}
        if items[0].clock_mhz:
            samples = {"device": np.array(["cpu"] * 2), "t_ns": np.array([start + 1, start + 2]),
                       "sensor": np.array(["frequency_mhz"] * 2), "value": np.full(2, items[0].clock_mhz),
                       "unit": np.array(["MHz"] * 2), "source": np.array(["test"] * 2)}  # fmt: skip
        return TrialRecords(
            trial={"trial": seen.trial, "block": seen.block, "order": 0, "mix": seen.mix, "solo": seen.solo,
                   "device": "cpu", "simulated": False, "sharing": seen.sharing, "settings": "{}", "load": seen.load,
                   "window_start_ns": start, "window_s": 1.0, "verdict": seen.verdict, "started_utc": self.started,
                   "failed_checks": list(seen.failed_checks), "reasons": []},
            tenants=tuple({"tenant": item.seen.tenant, "of": item.seen.of, "load": item.load, "workload": "gemm",
                           "batch": item.work.batch, "observed": json.dumps({"device_clock": "process CPU time"})}
                          for item in items),
            requests={"tenant": np.repeat(np.arange(len(items)), requests),
                      "seq": np.tile(np.arange(requests), len(items)),
                      "intended_ns": begin, "started_ns": begin, "done_ns": begin + durations,
                      "in_window": np.ones(begin.size, bool), "ok": np.ones(begin.size, bool)},
            samples=samples,
        )  # fmt: skip


@pytest.fixture(scope="session")
def synthetic():
    return SyntheticRun
