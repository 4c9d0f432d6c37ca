"""The table below the opening of a sweep, of stages, or of a group: one line per job, model or kind of work."""

from collections.abc import Sequence

from rich.table import Table

from cotenant.analyse.dvfs import Sweep
from cotenant.analyse.findings.members import Apart, short
from cotenant.analyse.findings.stages import ModelStages
from cotenant.analyse.sharing.cells import settings_said
from cotenant.reporting.terminal.listing import listing
from cotenant.text import NOTHING, figure, percent, with_interval

MOST_ROWS = 10
MOST_STAGES = 3
LEAST_STAGE = 0.01


def sweep_table(sweeps: Sequence[Sweep]) -> Table:
    """The best clock and the best power limit for each job: energy of a request, and both changes."""
    rows = [
        (
            one.job,
            NOTHING if (value := one.best.value) is None else f"{value:,.0f} {_unit(one)}",
            f"{figure(one.best.energy_j)} J",
            f"-{percent(max(0.0, one.energy_saved))}",
            f"+{percent(max(0.0, one.time_lost))}",
            f"{figure(one.best.power_w)} W",
        )
        for one in sweeps
    ]
    return listing(("job", "least energy at", "a request", "energy", "time", "power"), rows[:MOST_ROWS])


def stage_table(models: Sequence[ModelStages]) -> Table:
    """Time and largest stages of each model."""
    rows = [
        (
            one.model,
            f"{figure(one.est) if one.lo is None else with_interval(one)} ms",
            ", ".join(f"{stage} {percent(share)}" for stage, share in one.shares[:MOST_STAGES] if share >= LEAST_STAGE),
        )
        for one in models[:MOST_ROWS]
    ]
    return listing(("model", "a request", "where the time goes"), rows)


def apart_table(found: Sequence[Apart]) -> Table:
    """Spread between the members for each kind of work."""
    rows = [
        (
            f"{one.work}{', ' + settings_said(one.settings) if one.settings else ''}",
            percent(one.spread),
            f"{figure(min(one.times_ms.values()))} to {figure(max(one.times_ms.values()))} ms",
            short(one.slowest),
        )
        for one in found[:MOST_ROWS]
    ]
    return listing(("work", "apart", "a request", "slowest"), rows)


def _unit(sweep: Sweep) -> str:
    return "MHz" if sweep.control == "clock_mhz" else "W"
