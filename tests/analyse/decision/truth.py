"""Runs with known truth."""

from dataclasses import replace

import numpy as np

from cotenant.analyse.decision import decide
from cotenant.analyse.sharing.summarise import summarise
from cotenant.tenancy.records import TenantObservation, TokenTimes

QUANTILE = 0.9
SHAPE = 50
"""Shape of the gamma distribution of latencies around their level."""


class Truth:
    """Trials whose true times are known. ``times`` of a tenant with an objective: {"a": (10, 15)}: 10 ms, within 15."""

    def __init__(self, seed=0, blocks=12, requests=300, noise=0.01, *, rate=None, arrivals="poisson"):
        self.rng = np.random.default_rng(seed)
        self.blocks, self.requests, self.noise = blocks, requests, noise
        self.rate, self.arrivals = rate, arrivals
        self.seen = []

    def trials(self, sharing, times, verdict="valid", *, simulated=False, error=None, failed=(), served=None, llm=()):
        """``served``: requests/s of tenants that fall behind; ``llm``: tenants that generate tokens."""
        mix = "+".join(times)
        for block in range(self.blocks):
            for name, (time_ms, limit_ms) in times.items():
                level = time_ms * (1 + self.noise * self.rng.normal())
                latency = (level * 1e6 * self.rng.gamma(SHAPE, 1 / SHAPE, self.requests)).astype(np.int64)
                self.seen.append(
                    TenantObservation(
                        run="r", trial=len(self.seen), block=block, mix=mix, sharing=sharing, settings="{}",
                        rate_rps=self.rate,
                        load="closed(1)" if self.rate is None else f"{self.arrivals}({self.rate})",
                        device="cpu", simulated=simulated, model_error=error, solo=len(times) == 1,
                        tenant=name, of=name.partition("#")[0], verdict=verdict, failed_checks=failed, n=self.requests,
                        unfinished=0, software="eager",
                        throughput_rps=self.throughput(name, latency, served or {}),
                        mean_latency_ns=float(latency.mean()),
                        window_s=1.0, slo_ms=limit_ms, slo_quantile=None if limit_ms is None else QUANTILE,
                        slo_met=None if limit_ms is None else int((latency <= limit_ms * 1e6).sum()),
                        latency_ns=latency, token_times=TokenTimes(*3 * (latency,)) if name in llm else None,
                    )
                )  # fmt: skip
        return self

    def throughput(self, name, latency, served):
        return served.get(name, 1e9 / latency.mean() if self.rate is None else self.rate)

    def solos(self, **times):
        for name, pair in times.items():
            self.trials("alone", {name: pair})
        return self

    def answer(self):
        return decide(self.summary())

    def summary(self):
        rows = sorted(self.seen, key=lambda one: (one.load, one.solo, one.mix, one.sharing, one.tenant, one.block))
        trials = {}
        for one in rows:
            trials.setdefault((one.load, one.mix, one.sharing, one.block), len(trials))
        return summarise(replace(one, trial=trials[one.load, one.mix, one.sharing, one.block]) for one in rows)

    def and_at(self, other):
        """The same run with the trials of another one, at another rate."""
        self.seen += other.seen
        return self
