"""Tenants for the tests of faults, and a look at their records and their processes."""

import os
import time
from pathlib import Path

from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.records import TrialRecords
from cotenant.workloads.protocol import WorkloadSpec


def tenant(name: str, workload: str, **params: object) -> Tenant:
    """A tenant that serves requests one after the other."""
    return Tenant(
        name=name, of=name, workload=WorkloadSpec(name=workload, params=params), load=Load(kind="closed"), threads=1
    )


def calm(name: str = "calm") -> Tenant:
    """A tenant that does nothing wrong."""
    return tenant(name, "sleep", ms=2)


def bad(behaviour: str, **params: object) -> Tenant:
    """A tenant that misbehaves as the function of that name says."""
    return tenant("bad", f"misbehaviour:{behaviour}", **params)


def of(records: TrialRecords, name: str) -> dict[str, object]:
    """One tenant's row."""
    return next(dict(row) for row in records.tenants if row["tenant"] == name)


def recorded(records: TrialRecords, name: str) -> int:
    """How many requests of a tenant are in the records."""
    return int((records.requests["tenant"] == name).sum()) if records.requests else 0


def alive_in(folder: Path) -> list[int]:
    """Processes, apart from this one, that work in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                # What has ended, or is about to, has no directory any more.
                here = (entry / "cwd").readlink()
            except OSError:
                continue
            if here.is_relative_to(folder):
                found.append(int(entry.name))
    return found


def gone_from(folder: Path, within_s: float = 10.0) -> list[int]:
    """Who is still there although they were given time to go."""
    give_up = time.monotonic() + within_s
    while (left := alive_in(folder)) and time.monotonic() < give_up:
        time.sleep(0.01)
    return left
