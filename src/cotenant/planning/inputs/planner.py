"""From a file of tenants, or of jobs, and what there is to run them on, to a plan."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from cotenant import extras
from cotenant.errors import CotenantError, DatabaseError, ImpossibleObjectives
from cotenant.planning.admission import Advisor
from cotenant.planning.assignment import JobPlan, Objective
from cotenant.planning.assignment import plan as place_jobs
from cotenant.planning.exports import Model
from cotenant.planning.gpu_fleet import GpuFleet, fleet_of
from cotenant.planning.inputs.devices import devices_of
from cotenant.planning.inputs.predictors import PlanEvidence, predictors_for
from cotenant.planning.inputs.studies import measuring, with_measurements
from cotenant.planning.inputs.tenants import (
    as_served,
    devices_in,
    for_the_database,
    is_served,
    model_of,
    tenants_to_plan,
    waiting_jobs,
)
from cotenant.planning.mixes import Ask, DeviceKind, Impossible, Minimise, ServingPlan, make_plan, within_budget
from cotenant.store.database import Database, variabilities
from cotenant.study.model import Study
from cotenant.tenancy.tenant_entry import demands
from cotenant.text import amount

MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePlan:
    """A plan, and what it was made from."""

    plan: ServingPlan
    available: str
    """The devices to choose from."""
    models: Mapping[str, Model]
    """By tenant."""
    runs: tuple[str, ...]
    """Evidence besides the simulation."""


def made_plan(
    tenants: Path,
    devices: str | None,
    *,
    minimise: Minimise,
    seconds: float,
    risk: float,
    prices: Mapping[str, float],
    runs: Sequence[Path],
    power_budget_w: float | None,
    overrides: Sequence[str],
    sharing: Sequence[str],
    objective: Objective,
    work: str | None,
    home: Path,
    progress: Callable[[str], None],
) -> MadePlan | JobPlan:
    """The best plan for a file of tenants; arguments and errors as of `cotenant.plan`."""
    clock = _own_clock()
    end = clock() + seconds
    if not 0 < risk < 0.5:
        raise CotenantError(f"the risk must be between 0 and 0.5, not {risk:g}", hint="e.g. --risk 0.05")
    file = tenants_to_plan(tenants, overrides, devices=devices)
    if devices is None and for_the_database(file):
        fleet = measured_fleet(work, home)
        return place_jobs(fleet, waiting_jobs(file.tenants), objective=objective, budget_w=power_budget_w)
    file, evidence = _evidence(file, runs, progress)
    devices = devices or devices_in(file, tenants)
    clocked = minimise == "energy" or power_budget_w is not None
    own = {**file.prices, **prices}
    there = devices_of(devices, own, priced=minimise == "cost", clocked=clocked, sharing=sharing)
    if minimise == "cost" and not any(kind.price_per_h for kind in there.kinds):
        minimise = "devices"
    for line in demands(file.tenants):
        progress(line)
    progress(f"describing {amount(len(file.tenants), 'tenant')} on {amount(len(there.kinds), 'kind')} of device")
    wanted, rough, closer = predictors_for(
        file.tenants, there, evidence, risk=risk, source=str(tenants), progress=progress
    )
    ask = Ask(minimise=minimise, seconds=max(end - clock(), seconds / 5), risk=risk)

    def make(kinds: Sequence[DeviceKind]) -> ServingPlan:
        # A power budget may take a plan for each clock: each gets half of the time that is left.
        left = ask.seconds if power_budget_w is None else max((end - clock()) / 2, seconds / 10)
        return make_plan(
            wanted, kinds, rough, clock=clock, ask=replace(ask, seconds=left), closer=closer, progress=progress
        )

    advisor = None
    if there.gpus and not (evidence.runs or evidence.served):
        advisor = Advisor(tenants, devices, file.tenants, tuple(overrides), replace(ask, seconds=seconds), clock)
    try:
        made = make(there.kinds) if power_budget_w is None else within_budget(make, there.kinds, power_budget_w)
    except Impossible as error:
        hint = error.hint if advisor is None else advisor.hint(error.tenants, {kind.name for kind in there.kinds}, end)
        if error.measure is not None:
            measure = measuring(error.measure, file.tenants, tenants)
            hint = f"{measure.sentence}: {measure.command}; or: {hint}"
        raise ImpossibleObjectives(error.message, hint=hint) from None
    if made.refusals and advisor is not None:
        progress("looking for the change that admits what is left out")
        made = replace(made, refusals=advisor.explained(made.refusals, end))
    made = with_measurements(made, file.tenants, tenants)
    models = {name: model_of(entry) for name, entry in file.tenants.items()}
    return MadePlan(plan=made, available=devices, models=models, runs=tuple(map(str, evidence.runs)))


def _evidence(file: Study, runs: Sequence[Path], progress: Callable[[str], None]) -> tuple[Study, PlanEvidence]:
    """The tenants, at the rates that came if traffic was served, and what is known about them."""
    served = [run for run in runs if is_served(run)]
    learnt_from = [run for run in runs if run not in served]
    if not served:
        return file, PlanEvidence(learnt_from, served, {})
    came = as_served(file, served)
    progress(came.sentence)
    return came.file, PlanEvidence(learnt_from, served, came.costs_s)


# --- the GPUs of the database, where jobs are placed


def measured_fleet(work: str | None, home: Path) -> GpuFleet:
    """The GPUs of the database under a kind of work. Raises DatabaseError."""
    with Database.open(home) as database:
        kinds = [kind for _, kind in variabilities(database, work)]
    if not kinds:
        raise DatabaseError(
            "the database has sensor readings, but no measured work that describes its GPUs",
            hint="measure some: cotenant run variability --devices all, then cotenant db add RUN",
        )
    if len(kinds) > 1:
        names = ", ".join(kind.work for kind in kinds[:MOST_NAMED])
        names += f" and {len(kinds) - MOST_NAMED} more" if len(kinds) > MOST_NAMED else ""
        raise DatabaseError(
            f"the database contains {len(kinds)} kinds of work: {names}",
            hint="say which one describes the GPUs best with --work, e.g. --work sgemm",
        )
    fleet = fleet_of(kinds[0].profiles, simulated=kinds[0].simulated)
    if not len(fleet):
        raise DatabaseError(
            f"no GPU has both a clock and a power under {kinds[0].work}",
            hint="measure with sensors: cotenant run variability --devices all",
        )
    return fleet


BUSIEST = 3.0
"""By the clock on the wall, a plan takes at most this multiple of its time."""


def _own_clock() -> Callable[[], float]:
    """Seconds of this thread: on a busy machine the same question gets the same answer, a little later.

    So it does after installation, when the simulation is compiled.
    """
    if extras.installed("numba"):
        _watch_compiler()
    spent = COMPILING
    began, used = time.monotonic() - spent.wall_s, time.thread_time() - spent.thread_s
    return lambda: max(time.thread_time() - spent.thread_s - used, (time.monotonic() - spent.wall_s - began) / BUSIEST)


@dataclass(slots=True)
class Spent:
    """Seconds, of this thread and on the wall."""

    thread_s: float = 0.0
    wall_s: float = 0.0


COMPILING = Spent()
"""On compiling, which happens once after installation: the results are kept on disk."""


@cache
def _watch_compiler() -> None:
    from numba.core import event

    class Stopwatch(event.Listener):  # type: ignore[misc] # numba has no types
        """Times the compilation of functions, with all that they call."""

        def __init__(self) -> None:
            self._begun: list[tuple[float, float]] = []

        def on_start(self, _: object) -> None:
            """A function, perhaps within another."""
            self._begun.append((time.thread_time(), time.monotonic()))

        def on_end(self, _: object) -> None:
            """The outermost counts."""
            used, began = self._begun.pop()
            if not self._begun:
                COMPILING.thread_s += time.thread_time() - used
                COMPILING.wall_s += time.monotonic() - began

    event.register("numba:compile", Stopwatch())
