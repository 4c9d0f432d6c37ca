"""The main result of a study that isn't a decision: one line per kind of work, job, tenant or model.

Terminal and pages show the same table below the opening sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.analyse.dvfs import Sweep
from cotenant.analyse.findings import Apart, ModelStages, by_model, short
from cotenant.analyse.result import Result
from cotenant.analyse.sharing import CapacityCurve, beside_alone, capacity_curves, settings_said
from cotenant.text import NOTHING, figure, in_time, percent, with_interval

MOST_ROWS = 10
MOST_STAGES = 3
LEAST_STAGE = 0.01


@dataclass(frozen=True, slots=True)
class MainTable:
    """Cells are text with units."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def main_table(result: Result) -> MainTable | None:
    """None where the decision about mixes is the main result."""
    if result.members:
        return members_apart(result.members)
    if result.sweeps:
        return best_settings(result.sweeps)
    knees = capacity_curves(result.summary)
    if knees and len({curve.cell.load for curve in knees}) == 1:
        return knees_of(knees)
    if result.before_any_mix:
        return None
    models = by_model(result.valid_stages, {tenant.of: tenant.mean_latency_ms for tenant in result.tenants})
    return stages_of(models, by_model(result.stages)) if result.stages else None


def members_apart(members: Sequence[Apart]) -> MainTable:
    """Spread between the members for each kind of work."""
    rows = tuple(
        (
            f"{member.work}{', ' + settings_said(member.settings) if member.settings else ''}",
            percent(member.spread),
            f"{figure(min(member.times_ms.values()))} to {figure(max(member.times_ms.values()))} ms",
            short(member.slowest),
        )
        for member in members[:MOST_ROWS]
    )
    return MainTable(("work", "apart", "a request", "slowest"), rows)


def best_settings(sweeps: Sequence[Sweep]) -> MainTable:
    """The best clock and the best power limit for each job: energy of a request, and both changes."""
    rows = tuple(
        (
            sweep.job,
            NOTHING if (value := sweep.best.value) is None else f"{value:,.0f} {_unit(sweep)}",
            f"{figure(sweep.best.energy_j)} J",
            f"-{percent(max(0.0, sweep.energy_saved))}",
            f"+{percent(max(0.0, sweep.time_lost))}",
            f"{figure(sweep.best.power_w)} W",
        )
        for sweep in sweeps[:MOST_ROWS]
    )
    return MainTable(("job", "least energy at", "a request", "energy", "time", "power"), rows)


def _unit(sweep: Sweep) -> str:
    return "MHz" if sweep.control == "clock_mhz" else "W"


def knees_of(curves: Sequence[CapacityCurve]) -> MainTable:
    """The knee of each tenant, alone and in each mix."""
    rows = []
    several = len({curve.cell.sharing for curve in curves if not curve.cell.solo}) > 1
    for curve, alone in beside_alone(curves)[:MOST_ROWS]:
        knee, broken = curve.knee, curve.broken
        before = None if alone is None else alone.knee
        rows.append(
            (
                curve.tenant,
                "alone" if curve.cell.solo else curve.cell.mix + (f", {curve.cell.sharing}" if several else ""),
                NOTHING if knee is None else f"{figure(knee.rate_rps)}/s",
                NOTHING if broken is None else f"{figure(broken.rate_rps)}/s ({in_time(broken.attainment)} in time)",
                NOTHING if knee is None or before is None else percent(knee.rate_rps / before.rate_rps),
            )
        )
    return MainTable(("tenant", "where", "kept up to", "missed at", "of alone"), tuple(rows))


def stages_of(models: Sequence[ModelStages], every: Sequence[ModelStages] = ()) -> MainTable:
    """Time and largest stages of each model; of those without a valid trial only the name."""
    known = {stages.model for stages in models}
    unknown = [(stages.model, NOTHING, "no valid trial") for stages in every if stages.model not in known]
    rows = tuple(
        (
            stages.model,
            f"{figure(stages.time_ms.est) if stages.time_ms.lo is None else with_interval(stages.time_ms)} ms",
            ", ".join(
                f"{stage} {percent(share)}" for stage, share in stages.shares[:MOST_STAGES] if share >= LEAST_STAGE
            ),
        )
        for stages in models[:MOST_ROWS]
    )
    return MainTable(("model", "a request", "where the time goes"), (*rows, *unknown)[:MOST_ROWS])
