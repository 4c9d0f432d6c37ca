"""Plan again from served traffic: the rates that came instead of those in the file, and what requests cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.errors import CotenantError
from cotenant.text import amount, figure

if TYPE_CHECKING:
    from cotenant.planning.mixes.tenants import ServingTenant
    from cotenant.study.model import Study
    from cotenant.tenancy.load import Load

FEWEST = 30
"""Requests that show a rate."""
MOST_BURSTY = 5.0
BURSTS_SHOWN = 0.3
"""Difference from Poisson's variation of gaps (cv 1) that is worth a word: it may cost as much as a higher rate."""


def is_served(run: Path) -> bool:
    """Whether `cotenant serve` or `cotenant watch` recorded this run."""
    from cotenant.store import baselines
    from cotenant.store.folder import RunFolder
    from cotenant.store.traffic import SERVED
    from cotenant.store.watched import WATCHED

    return RunFolder.open(baselines.resolve(str(run))).manifest.get("study_name") in {SERVED, WATCHED}


@dataclass(frozen=True, slots=True)
class Served:
    """What served traffic says about the tenants of a file."""

    file: "Study"
    """At the rates and with the bursts that came."""
    costs_s: Mapping[str, float]
    """By tenant: the usual time of a request on the device, where it was served by itself."""
    sentence: str
    """The rates, in words."""


def as_served(file: "Study", runs: Sequence[Path]) -> Served:
    """The tenants as they were served.

    Args:
        file: The tenants.
        runs: Runs of served traffic; tenants are matched by name.

    Raises:
        CotenantError: No tenant of the file was served often enough.
    """
    from cotenant.planning.mixes.tenants import planned
    from cotenant.store import baselines
    from cotenant.store.reading import open_runs
    from cotenant.store.traffic import traffic_of
    from cotenant.tenancy.load import Load

    with open_runs([baselines.resolve(str(run)) for run in runs]) as opened:
        found = {name: one for name, one in traffic_of(opened).items() if one.requests >= FEWEST}
    entries, said, costs = dict(file.tenants), [], {}
    for tenant in planned(file.tenants):
        if tenant.name not in found or tenant.job:
            continue
        came = found[tenant.name]
        load = Load(kind="gamma", rate_rps=came.rate_rps, cv=min(max(came.cv, 0.1), MOST_BURSTY))
        entries[tenant.name] = file.tenants[tenant.name].model_copy(update={"load": load})
        said.append(f"{tenant.name} {_shown(load)} instead of {_shown(tenant)}")
        if came.cost_s and came.served >= FEWEST:
            costs[tenant.name] = came.cost_s
    if not said:
        raise CotenantError(
            f"{', '.join(map(str, runs))}: no tenant of the plan had {amount(FEWEST, 'request')} there",
            hint=f"tenants are matched by name; the plan's are {', '.join(file.tenants)}",
        )
    return Served(file.model_copy(update={"tenants": entries}), costs, f"rates as served: {', '.join(said)}")


def _shown(load: "Load | ServingTenant") -> str:
    """`20.0/s`, with its burstiness if that isn't close to Poisson's."""
    bursts = f" (cv {load.cv:.1f})" if abs(load.cv - 1) >= BURSTS_SHOWN else ""
    return f"{figure(load.rate_rps or 0.0)}/s{bursts}"
