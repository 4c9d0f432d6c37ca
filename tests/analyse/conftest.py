"""Synthetic runs with known truth."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import settings

from cotenant.tenancy.records import TenantObservation

# Fixed examples, and no failures because a busy machine was slow.
settings.register_profile("analyse", deadline=None, derandomize=True)
settings.load_profile("analyse")


class SyntheticRun:
    """Trials of tenants whose true time per request is known; requests scatter, blocks drift together."""

    def __init__(self, *, seed=0, blocks=6, requests=400, block_noise=0.005, drift=0.0, settings="{}", run="run"):
        self.rng = np.random.default_rng(seed)
        self.blocks, self.requests, self.block_noise, self.drift = blocks, requests, block_noise, drift
        self.settings, self.run = settings, run
        self.observations = []
        self._trial = 0

    def trials(
        self,
        mix: str,
        sharing: str,
        times_ms: Mapping[str, float],
        *,
        verdicts: Sequence[str] = (),
        unfinished: int = 0,
        slo_ms: float | None = None,
        load: str = "closed(1)",
        raw: bool = True,
        requests: int | None = None,
    ):
        first = self._trial
        self._trial += self.blocks
        n = self.requests if requests is None else requests
        window_s = n * max(times_ms.values()) / 1e3 or 1.0
        for tenant, time_ms in times_ms.items():
            for block in range(self.blocks):
                drifted = time_ms * (1 + self.drift * block / max(1, self.blocks - 1))
                level = drifted * (1 + self.block_noise * self.rng.normal())
                latency = (level * 1e6 * self.rng.gamma(50, 1 / 50, n)).astype(np.int64)
                verdict = verdicts[block] if block < len(verdicts) else "valid"
                mean = float(latency.mean()) if n else float("nan")
                self.observations.append(
                    TenantObservation(
                        run=self.run,
                        trial=first + block,
                        block=block,
                        mix=mix,
                        sharing=sharing,
                        settings=self.settings,
                        load=load,
                        device="cpu",
                        simulated=False,
                        solo=len(times_ms) == 1,
                        tenant=tenant,
                        of=tenant.partition("#")[0],
                        verdict=verdict,
                        failed_checks=() if verdict == "valid" else ("clock-steady",),
                        n=n,
                        unfinished=unfinished,
                        throughput_rps=1e9 / mean if n else 0.0,
                        mean_latency_ns=mean,
                        window_s=window_s,
                        mean_device_ns=mean * 0.8,
                        slo_ms=slo_ms,
                        slo_quantile=None if slo_ms is None else 0.9,
                        slo_met=None if slo_ms is None else int((latency <= slo_ms * 1e6).sum()),
                        latency_ns=latency if raw else None,
                    )
                )
        return self


@pytest.fixture
def synthetic_run():
    return SyntheticRun
