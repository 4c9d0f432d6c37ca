"""Runs as evidence for a plan: measured slowdowns of mixes, and measured times alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant.errors import CotenantError
from cotenant.planning.mixes.corrections import Corrections, MeasuredGroup, factors_of
from cotenant.planning.mixes.predictor import Mixes
from cotenant.text import figure, listed

if TYPE_CHECKING:
    from cotenant.analyse.result import Result
    from cotenant.planning.predictors.closed_form import ClosedForm
    from cotenant.planning.predictors.profiles import Simulation
    from cotenant.tenancy.identity import TenantIdentity


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """A run of a plan's tenants, which are matched by name."""

    source: str
    result: "Result"
    identities: "Mapping[str, TenantIdentity]"
    """By tenant."""


def use_runs(runs: Sequence[RunEvidence], rough: "ClosedForm") -> str:
    """Correct predictions by runs: solo times scale the simulation's, slowdowns of mixes the effect of neighbours.

    Args:
        runs: What they measured.
        rough: Corrected in place.

    Returns:
        The evidence used, in a sentence.

    Raises:
        CotenantError: The runs contain none of the tenants.
    """
    names = [tenant.name for tenant in rough.simulation.tenants]
    alone = mixes = 0
    unused: dict[str, None] = {}
    open_only: dict[str, None] = {}
    table: dict[tuple[str, tuple[int, ...]], tuple[Mapping[int, float], MeasuredGroup]] = {}
    for run in runs:
        same, reasons = _same(run, rough.simulation, names)
        unused |= dict.fromkeys(reasons)
        open_only |= dict.fromkeys(same)
        alone += _calibrate(run, rough.simulation, same)
        for key, measured in _mixes(run.result, same, names).items():
            predicted = _predicted(rough, key)
            if predicted is not None:
                table[key] = (factors_of(measured, predicted), measured)
                mixes += 1
    if not alone and not mixes and open_only:
        raise CotenantError(
            f"{', '.join(run.source for run in runs)}: {listed(list(open_only))} had arrivals there; "
            "a plan takes times from tenants that are always busy",
            hint="measure them so: cotenant plan FILE --devices ... --study measure.yaml writes the study",
        )
    if not alone and not mixes:
        raise CotenantError(
            "; ".join([f"{', '.join(run.source for run in runs)}: no tenant of the plan was measured there", *unused]),
            hint=f"tenants are matched by name; the plan's are {', '.join(names)}",
        )
    rough.corrections = Corrections(table)
    return "; ".join([f"measured: {alone} of {len(names)} tenants alone, {mixes} mixes", *unused])


def _same(run: RunEvidence, simulation: "Simulation", names: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """Numbers of the plan's tenants that the run measured, by name, and why others of that name are no evidence."""
    from cotenant.tenancy.identity import not_used

    same, reasons = {}, []
    for number, name in enumerate(names):
        measured = run.identities.get(name)
        if measured is None:
            continue
        asked = simulation.identity(number)
        items = measured.batch or 1
        if simulation.together(number, items) is not None:  # several requests that are executed together
            asked = replace(asked, batch=items)
        if measured.software in simulation.allowed(number):
            asked = replace(asked, software=measured.software)
        if asked.differences(measured):
            reasons.append(not_used(name, asked, [measured]))
        else:
            same[name] = number
    return same, reasons


def _calibrate(run: RunEvidence, simulation: "Simulation", same: Mapping[str, int]) -> int:
    """Scale a tenant's simulated times to those measured alone under a closed load."""
    used = 0
    for row in run.result.tenants:
        estimate = getattr(row.mean_latency_ms, "est", None)
        closed = row.cell.load.startswith("closed(1)")
        if not row.cell.solo or not closed or row.of not in same or not estimate or not _usual(row.cell.settings):
            continue
        kind = row.cell.device if row.cell.device in simulation.gpus else next(iter(simulation.gpus))
        number = same[row.of]
        together = simulation.together(number, run.identities[row.of].batch or 1)
        assert together is not None, "the same requests, or several of them"
        simulated = simulation.profile(kind, number, together).alone_ms
        simulation.scale[number] = estimate / simulated
        if not row.cell.simulated:
            simulation.measured.add(number)
        used += 1
    simulation.forget()
    return used


def use_costs(costs_s: Mapping[str, float], simulation: "Simulation") -> str:
    """Scale the simulated times of tenants to what their requests cost where they were served on a real GPU.

    Args:
        costs_s: By tenant, of requests that were served in sequence.
        simulation: Corrected in place.

    Returns:
        The costs, in a sentence.
    """
    kind, costs = next(iter(simulation.gpus)), []
    for number, tenant in enumerate(simulation.tenants):
        if tenant.name in costs_s:
            simulated = simulation.profile(kind, number, 1).alone_ms
            simulation.scale[number] *= 1e3 * costs_s[tenant.name] / simulated
            simulation.measured.add(number)
            costs.append((tenant.name, simulated / 1e3, costs_s[tenant.name]))
    simulation.forget()
    return costs_sentence(costs)


def costs_sentence(costs_s: Iterable[tuple[str, float, float]]) -> str:
    """Costs of served requests: tenant, what was known before, and as served."""
    return "costs as served: " + ", ".join(
        f"{name} {figure(1e3 * now)} ms instead of {figure(1e3 * before)} ms" for name, before, now in costs_s
    )


def _usual(settings: str) -> bool:
    """Whether a trial ran at the device's usual clock and power limit, as plans are."""
    return settings in {"", "{}"}


def _mixes(
    result: "Result", same: Mapping[str, int], names: Sequence[str]
) -> dict[tuple[str, tuple[int, ...]], MeasuredGroup]:
    """By sharing and tenants: mixes whose tenants all belong to the plan."""
    rows: dict[tuple[str, str], list[Any]] = {}
    for row in result.tenants:
        if not row.cell.solo and row.cell.load.startswith("closed") and _usual(row.cell.settings):
            rows.setdefault((row.cell.sharing, row.cell.mix), []).append(row)
    groups = {}
    for (sharing, _), tenants in rows.items():
        if "[" in sharing or any(row.of not in same or not hasattr(row.slowdown, "est") for row in tenants):
            continue
        numbers = tuple(sorted(names.index(row.of) for row in tenants))
        slowdown = {
            number: float(np.mean([row.slowdown.est for row in tenants if names.index(row.of) == number]))
            for number in set(numbers)
        }
        halves = [row.slowdown.relative_half_width for row in tenants]
        half = max((width for width in halves if width is not None), default=0.1)
        groups[sharing, numbers] = MeasuredGroup(
            slowdown, half, min(row.blocks for row in tenants), tenants[0].cell.simulated
        )
    return groups


def _predicted(rough: "ClosedForm", key: tuple[str, tuple[int, ...]]) -> Mapping[int, float] | None:
    """The closed form's slowdowns of the same mix with every tenant always busy."""
    sharing, numbers = key
    device = next(iter(rough.simulation.gpus))
    seats = np.array([numbers], np.int64)
    batch = np.array([[rough.simulation.tenants[number].batches[0] for number in numbers]], np.int64)
    nothing = np.full(seats.shape, np.nan)
    slowdown = rough(Mixes(device, sharing, seats, np.zeros(seats.shape), batch, nothing)).slowdown.estimate[0]
    return {number: float(slowdown[index]) for index, number in enumerate(numbers)}
