"""Runs as evidence for a plan: measured slowdowns of mixes, and measured times alone."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant.errors import CotenantError
from cotenant.planning.mixes.evidence import Corrections, MeasuredMix, factors_of
from cotenant.planning.mixes.predictor import Mixes
from cotenant.text import figure

if TYPE_CHECKING:
    from cotenant.analyse.sharing.result import Result
    from cotenant.api.planning.closed_form import ClosedForm
    from cotenant.api.planning.profiles import Simulation


def use_runs(runs: Sequence[Path], rough: "ClosedForm") -> str:
    """Correct predictions by runs: solo times scale the simulation's, slowdowns of mixes the effect of neighbours.

    Args:
        runs: Run folders; tenants are matched by name.
        rough: Corrected in place.

    Returns:
        The evidence used, in a sentence.

    Raises:
        CotenantError: The runs contain none of the tenants.
    """
    from cotenant.api.show import show

    names = [tenant.name for tenant in rough.simulation.tenants]
    alone = mixes = 0
    table: dict[tuple[str, tuple[int, ...]], tuple[Mapping[int, float], MeasuredMix]] = {}
    for run in runs:
        result = show(run)
        alone += _calibrate(result, rough.simulation, names)
        for key, measured in _mixes(result, names).items():
            predicted = _predicted(rough, key)
            if predicted is not None:
                table[key] = (factors_of(measured, predicted), measured)
                mixes += 1
    if not alone and not mixes:
        raise CotenantError(
            f"{', '.join(str(run) for run in runs)}: no tenant of the plan was measured there",
            hint=f"tenants are matched by name; the plan's are {', '.join(names)}",
        )
    rough.corrections = Corrections(table)
    return f"measured: {alone} of {len(names)} tenants alone, {mixes} mixes"


def _calibrate(result: "Result", simulation: "Simulation", names: Sequence[str]) -> int:
    """Scale a tenant's simulated times to those measured alone under a closed load."""
    used = 0
    batches = _batches(result.manifests[0].get("study"))
    for row in result.tenants:
        estimate = getattr(row.mean_latency_ms, "est", None)
        closed = row.cell.load.startswith("closed(1)")
        if not row.cell.solo or not closed or row.of not in names or not estimate:
            continue
        kind = row.cell.device if row.cell.device in simulation.gpus else next(iter(simulation.gpus))
        number = names.index(row.of)
        simulated = simulation.profile(kind, number, batches.get(row.of, 1), "", float("nan")).alone_ms
        simulation.scale[number] = estimate / simulated
        if not row.cell.simulated:
            simulation.measured.add(number)
        used += 1
    simulation.forget()
    return used


def use_costs(costs_s: Mapping[str, float], simulation: "Simulation") -> str:
    """Scale the simulated times of tenants to what their requests cost where they were served on a real GPU.

    Args:
        costs_s: By tenant, of requests that were served one by one.
        simulation: Corrected in place.

    Returns:
        The costs, in a sentence.
    """
    kind, said = next(iter(simulation.gpus)), []
    for number, tenant in enumerate(simulation.tenants):
        if tenant.name in costs_s:
            simulated = simulation.profile(kind, number, 1, "", float("nan")).alone_ms
            simulation.scale[number] *= 1e3 * costs_s[tenant.name] / simulated
            simulation.measured.add(number)
            said.append((tenant.name, simulated / 1e3, costs_s[tenant.name]))
    simulation.forget()
    return costs_sentence(said)


def costs_sentence(costs_s: Iterable[tuple[str, float, float]]) -> str:
    """Costs of served requests: tenant, what was known before, and as served."""
    return "costs as served: " + ", ".join(
        f"{name} {figure(1e3 * now)} ms instead of {figure(1e3 * before)} ms" for name, before, now in costs_s
    )


def _batches(study: Any) -> Mapping[str, int]:
    from cotenant.study.tree import read

    data = read(study).data if isinstance(study, str) else None
    tenants = data.get("tenants") if isinstance(data, Mapping) else None
    if not isinstance(tenants, Mapping):
        return {}
    return {name: int(entry.get("batch", 1)) for name, entry in tenants.items() if isinstance(entry, Mapping)}


def _mixes(result: "Result", names: Sequence[str]) -> dict[tuple[str, tuple[int, ...]], MeasuredMix]:
    """By sharing and tenants: mixes whose tenants all belong to the plan."""
    rows: dict[tuple[str, str], list[Any]] = {}
    for row in result.tenants:
        if not row.cell.solo and row.cell.load.startswith("closed"):
            rows.setdefault((row.cell.sharing, row.cell.mix), []).append(row)
    found = {}
    for (sharing, _), tenants in rows.items():
        if "[" in sharing or any(row.of not in names or not hasattr(row.slowdown, "est") for row in tenants):
            continue
        numbers = tuple(sorted(names.index(row.of) for row in tenants))
        slowdown = {
            number: float(np.mean([row.slowdown.est for row in tenants if names.index(row.of) == number]))
            for number in set(numbers)
        }
        halves = [row.slowdown.relative_half_width for row in tenants]
        half = max((one for one in halves if one is not None), default=0.1)
        found[sharing, numbers] = MeasuredMix(
            slowdown, half, min(row.blocks for row in tenants), tenants[0].cell.simulated
        )
    return found


def _predicted(rough: "ClosedForm", key: tuple[str, tuple[int, ...]]) -> Mapping[int, float] | None:
    """The closed form's slowdowns of the same mix with every tenant always busy."""
    sharing, numbers = key
    device = next(iter(rough.simulation.gpus))
    seats = np.array([numbers], np.int64)
    batch = np.array([[rough.simulation.tenants[number].batches[0] for number in numbers]], np.int64)
    nothing = np.full(seats.shape, np.nan)
    found = rough(Mixes(device, sharing, seats, np.zeros(seats.shape), batch, nothing)).slowdown.estimate[0]
    return {number: float(found[place]) for place, number in enumerate(numbers)}
