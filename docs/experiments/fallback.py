"""A sharing that fell back gives a precise wrong answer.

Two tenants on 4 cores. With cores of their own they would not disturb each other; on common cores each takes 1.6
times as long. In the last line `pinned` was asked for and the affinity was never applied. The interval is narrow, the
blocks agree, and the answer is wrong; what the processes report about themselves is the only way to know.
"""

import math

import numpy as np

from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.devices.cpu.core_sharing import arrange
from cotenant.devices.protocol import SeatReport
from cotenant.reporting.elements.markdown import table
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing
from cotenant.workloads.protocol import WorkloadSpec

HEAD = ("asked for", "happened", "measured slowdown", "what the check says")
CORES = ((0,), (1,), (2,), (3,))
SLOWDOWN = {"pinned": 1.0, "processes": 1.6}
BLOCKS, NOISE = 8, 0.01


def rows() -> list[tuple[str, ...]]:
    """What was asked for, what happened, and what each of the two would tell."""
    rng = np.random.default_rng(1)
    return [_row(rng, *case) for case in (("processes", "processes"), ("pinned", "pinned"), ("pinned", "processes"))]


def _row(rng: np.random.Generator, asked: str, happened: str) -> tuple[str, ...]:
    tenants = [
        Tenant(name=name, of=name, workload=WorkloadSpec(name="spin"), load=Load(kind="closed"), threads=2)
        for name in ("a", "b")
    ]
    wanted, real = (arrange(CORES, Sharing(mode=mode), tenants) for mode in (asked, happened))
    options = {tenants[seat.tenant].name: seat.options for host in real.hosts for seat in host.seats}
    reports = [SeatReport(name, 100 + number, dict(options[name])) for number, name in enumerate(options)]
    found = ratio_interval(math.log(SLOWDOWN[happened]) + NOISE * rng.normal(size=BLOCKS))
    wrong = wanted.verify(reports)
    measured = f"{found.est:.2f} [{found.lo:.2f}, {found.hi:.2f}]"
    return asked, happened, measured, f"invalid: {wrong[0]}" if wrong else "valid"


if __name__ == "__main__":
    print(table(HEAD, rows()))
