"""A shared machine in simulated time: a study on it gives the evidence that `compare` sees."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cotenant.analyse.sharing.evidence import RequestWork, TenantEvidence
from cotenant.measure.checks import FOREIGN_SHARE
from cotenant.tenancy.records import TenantObservation

TRIAL_S, GAP_S = 2.0, 0.3
STEP_S = 0.1

Load = Callable[[np.random.Generator, int], np.ndarray]
"""The share of the device that others take, in steps of `STEP_S`."""


def quiet(rng, steps):
    """A little background load all the time."""
    return np.clip(rng.normal(0.01, 0.005, steps), 0, 1)


def steady(rng, steps):
    """A long job: constant within a run, different in the next."""
    return np.clip(rng.uniform(0, 0.6) + rng.normal(0, 0.01, steps), 0, 1)


def drifting(rng, steps):
    """Too little for any single check, drifting over the length of a run."""
    level = rng.uniform(0, 0.09) + np.cumsum(rng.normal(0, 0.03 / np.sqrt(steps), steps))
    return np.clip(level, 0, 0.095)


def bursty(rng, steps):
    """Jobs that come and go: 20 s on, 30 s off, of random size."""
    taken = np.zeros(steps)
    at, busy = 0, rng.random() < 0.4
    while at < steps:
        length = int(rng.exponential(20 if busy else 30) / STEP_S) + 1
        taken[at : at + length] = rng.uniform(0.1, 0.9) if busy else 0.01
        at, busy = at + length, not busy
    return taken


LOADS = {"quiet": quiet, "steady": steady, "drifting": drifting, "bursty": bursty}


@dataclass(frozen=True)
class Study:
    """Tenants alone and in pairs, in blocks of random order."""

    tenants: int = 3
    blocks: int = 6
    noise: float = 0.008
    placement: float = 0.003
    slower: float = 1.0
    """A factor on the first tenant's time: a true change."""

    def run(self, name, load, seed):
        """The evidence of one run, one trial after another under ongoing load."""
        rng = np.random.default_rng([seed, *name.encode()])
        names = [f"t{number}" for number in range(self.tenants)]
        mixes = [(one,) for one in names] + list(itertools.combinations(names, 2))
        per_trial = round((TRIAL_S + GAP_S) / STEP_S)
        taken = load(rng, per_trial * len(mixes) * self.blocks)
        tenant_rng = np.random.default_rng(seed)  # a tenant's sensitivity is its own, the same in both runs
        suffering = dict(zip(names, tenant_rng.uniform(0.5, 1.5, self.tenants), strict=True))
        placed = {(mix, one): rng.normal(0, self.placement) for mix in mixes for one in mix}
        found, trial = [], 0
        for block in range(self.blocks):
            for place in rng.permutation(len(mixes)):
                mix = mixes[place]
                during = taken[trial * per_trial : (trial + 1) * per_trial]
                share = float(np.clip(during.mean() + rng.normal(0, 0.003), 0, 1))
                for one in mix:
                    level = 1e6 * (1 + names.index(one)) * (1.4 if len(mix) > 1 else 1.0)
                    level *= self.slower if one == "t0" else 1.0
                    hurt = 1 / (1 - np.minimum(0.9, suffering[one] * during))
                    scatter = placed[mix, one] + self.noise * rng.standard_t(5) / np.sqrt(5 / 3)
                    found.append(_evidence(name, trial, block, mix, one, level * hurt.mean() * np.exp(scatter), share))
                trial += 1
        return found


def _evidence(run, trial, block, mix, one, time_ns, share):  # noqa: PLR0917  (what tells one item from another)
    disturbed = share >= FOREIGN_SHARE
    seen = TenantObservation(
        run=run, trial=trial, block=block, mix="+".join(mix), sharing="alone" if len(mix) == 1 else "processes",
        settings="{}", load="closed(1)", device="cpu", simulated=False, solo=len(mix) == 1, tenant=one, of=one,
        verdict="unstable" if disturbed else "valid", failed_checks=("quiet_machine",) if disturbed else (), n=100,
        unfinished=0, throughput_rps=1e9 / time_ns, mean_latency_ns=time_ns, window_s=TRIAL_S,
    )  # fmt: skip
    return TenantEvidence(
        seen=seen, work=RequestWork("gemm"), load="closed(1)", service_ns=time_ns, foreign_share=share, steal_share=0.0
    )
