"""Tenants for the fault tests, and checks of their records and processes."""

import os
import time
from pathlib import Path

from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.records import TrialRecords
from cotenant.workloads.protocol import WorkloadSpec
from tests.support import pace


def tenant(name: str, workload: str, **params: object) -> Tenant:
    """A tenant that serves requests one after another."""
    return Tenant(
        name=name, of=name, workload=WorkloadSpec(name=workload, params=params), load=Load(kind="closed"), threads=1
    )


def calm(name: str = "calm") -> Tenant:
    """A well-behaved tenant."""
    return tenant(name, "sleep", ms=2)


def bad(behaviour: str, **params: object) -> Tenant:
    """A tenant that misbehaves like the function with that name."""
    return tenant("bad", f"misbehaviour:{behaviour}", **params)


def of(records: TrialRecords, name: str) -> dict[str, object]:
    """One tenant's row."""
    return next(dict(row) for row in records.tenants if row["tenant"] == name)


def recorded(records: TrialRecords, name: str) -> int:
    """Number of a tenant's requests in the records."""
    return int((records.requests["tenant"] == name).sum()) if records.requests else 0


def alive_in(folder: Path) -> list[int]:
    """Processes, apart from this one, whose working directory is in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                # A process that has ended, or is about to, has no directory.
                here = (entry / "cwd").readlink()
            except OSError:
                continue
            if here.is_relative_to(folder):
                found.append(int(entry.name))
    return found


def gone_from(folder: Path, within_s: float = 60.0) -> list[int]:
    """Processes that survive although they had time to exit."""
    give_up = time.monotonic() + pace.seconds(within_s)
    while (left := alive_in(folder)) and time.monotonic() < give_up:
        time.sleep(0.01)
    return left
