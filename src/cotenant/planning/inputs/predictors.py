"""Choose predictors for a plan: the simulation for GPUs, runs for real CPUs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.planning.mixes.predictor import Mixes, Predicted, Predictor
from cotenant.planning.mixes.tenants import ServingTenant, planned

if TYPE_CHECKING:
    from cotenant.planning.inputs.devices import Devices
    from cotenant.planning.predictors.evidence import RunEvidence
    from cotenant.store.folder import RunFolder
    from cotenant.tenancy.tenant_entry import TenantEntry


class ByKind:
    """Dispatches to the predictor of the kind of device."""

    def __init__(self, predictors: Mapping[str, Predictor]) -> None:
        self._predictors = predictors

    def __call__(self, mixes: Mixes, /) -> Predicted:
        """What would happen."""
        return self._predictors[mixes.device](mixes)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known besides the simulation."""

    runs: Sequence[Path] = ()
    """Measured runs."""
    served: Sequence[Path] = ()
    """Runs of served traffic."""
    costs_s: Mapping[str, float] = field(default_factory=dict)
    """By tenant: the usual time on the device of a request that was served."""


def predictors_for(
    entries: "Mapping[str, TenantEntry]",
    there: "Devices",
    known: Evidence,
    *,
    risk: float,
    source: str,
    progress: Callable[[str], None],
) -> tuple[tuple[ServingTenant, ...], Predictor, Predictor]:
    """Tenants with the best software for each device, a predictor that sweeps all mixes, and a more precise one.

    Args:
        entries: The tenants by name.
        there: The devices.
        known: Measured runs, and costs of served requests.
        risk: How often an upper end may be exceeded.
        source: The file's name, for commands in hints.
        progress: Called with a sentence on what the runs contributed.

    Raises:
        CotenantError: A tenant must be measured first, or the runs contain nothing relevant.
    """
    from cotenant.planning.inputs.solos import measured_on
    from cotenant.planning.predictors.closed_form import ClosedForm
    from cotenant.planning.predictors.engine import Engine
    from cotenant.planning.predictors.evidence import use_costs, use_runs
    from cotenant.planning.predictors.profiles import Simulation
    from cotenant.planning.predictors.spans import with_spans
    from cotenant.store.learnt import same_kind

    rough: dict[str, Predictor] = {}
    closer: dict[str, Predictor] = {}
    runs, left = known.runs, list(known.runs)
    tenants = planned(entries)
    for kind, place in there.places.items():
        mine = [run for run in runs if same_kind(_opened(run), place)]
        # Runs of another device are an error only if no other device can use them.
        measured, said = measured_on(place, entries, mine if there.gpus else runs, risk=risk, source=source)
        progress(said)
        if known.costs_s and all(same_kind(_opened(run), place) for run in known.served):
            measured, said = measured.at_costs(known.costs_s)
            progress(said)
        rough[kind], closer[kind] = measured, measured.closer()
        left = [run for run in left if run not in mine]
    if there.gpus:
        closed = ClosedForm(Simulation(tenants, entries, there.gpus, risk=risk))
        if left:
            progress(use_runs([_evidence(run) for run in left], closed))
        if known.costs_s and not any(_opened(run).manifest.get("simulated") for run in known.served):
            progress(use_costs(known.costs_s, closed.simulation))
        tenants = with_spans(tenants, [kind for kind in there.kinds if kind.name in there.gpus], closed)
        engine = Engine(closed.simulation, closed)
        rough |= dict.fromkeys(there.gpus, closed)
        closer |= dict.fromkeys(there.gpus, engine)
        tenants = tuple(
            replace(tenant, on_kinds=closed.simulation.softwares(number)) for number, tenant in enumerate(tenants)
        )
    return tenants, ByKind(rough), ByKind(closer)


def _opened(run: Path) -> "RunFolder":
    from cotenant.store import baselines
    from cotenant.store.folder import RunFolder

    return RunFolder.open(baselines.resolve(str(run)))


def _evidence(run: Path) -> "RunEvidence":
    from cotenant.planning.predictors.evidence import RunEvidence
    from cotenant.store.identities import by_tenant
    from cotenant.store.reading import open_runs
    from cotenant.store.results import result_of

    with open_runs([run]) as opened:
        result, identities = result_of(opened), by_tenant(opened)
    return RunEvidence(str(run), result, identities)
