"""Choose predictors for a plan: the simulation for GPUs, runs for real CPUs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant.analyse.estimates import MOST, common_correlation
from cotenant.extras import installed
from cotenant.planning.mixes.predictor import Mixes, MixPredictor, PredictedMix
from cotenant.planning.mixes.tenants import ServingTenant, planned
from cotenant.planning.predictors.measured import Measured, SharingLaw, most_of, require_measured
from cotenant.planning.predictors.solo import SoloTimes, drift
from cotenant.planning.solver.problem import Floats
from cotenant.text import listed

if TYPE_CHECKING:
    from cotenant.devices.target import TargetDevice
    from cotenant.planning.inputs.devices import Devices
    from cotenant.planning.predictors.run_evidence import RunEvidence
    from cotenant.prediction.interference import Learnt, SoloTenant
    from cotenant.store.folder import RunFolder
    from cotenant.store.service_times import ServiceTimes
    from cotenant.tenancy.identity import TenantIdentity
    from cotenant.tenancy.tenant_entry import TenantEntry


class ByKind:
    """Dispatches to the predictor of the kind of device."""

    def __init__(self, predictors: Mapping[str, MixPredictor]) -> None:
        self._predictors = predictors

    def __call__(self, mixes: Mixes, /) -> PredictedMix:
        """What would happen."""
        return self._predictors[mixes.device](mixes)


@dataclass(frozen=True, slots=True)
class PlanEvidence:
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
    known: PlanEvidence,
    *,
    risk: float,
    source: str,
    progress: Callable[[str], None],
) -> tuple[tuple[ServingTenant, ...], MixPredictor, MixPredictor]:
    """Tenants with the best software for each device, a fast predictor for all mixes, and a more precise predictor.

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
    from cotenant.planning.predictors.closed_form import ClosedForm
    from cotenant.planning.predictors.engine import EnginePredictor
    from cotenant.planning.predictors.profiles import Simulation
    from cotenant.planning.predictors.run_evidence import use_costs, use_runs
    from cotenant.planning.predictors.solo import with_spans
    from cotenant.store.learnt import same_kind

    rough: dict[str, MixPredictor] = {}
    closer: dict[str, MixPredictor] = {}
    runs, left = known.runs, list(known.runs)
    tenants = planned(entries)
    for kind, target in there.places.items():
        mine = [run for run in runs if same_kind(_opened(run), target)]
        # Runs of another device are an error only if no other device can use them.
        measured, sentence = measured_on(
            target, entries, mine if there.gpus else runs, risk=risk, source=source, watched=_watched(known, target)
        )
        progress(sentence)
        if known.costs_s and all(same_kind(_opened(run), target) for run in known.served):
            measured, sentence = measured.at_costs(known.costs_s)
            progress(sentence)
        rough[kind], closer[kind] = measured, measured.closer()
        left = [run for run in left if run not in mine]
    if there.gpus:
        closed = ClosedForm(Simulation(tenants, entries, there.gpus, risk=risk))
        if left:
            progress(use_runs([_evidence(run) for run in left], closed))
        if known.costs_s and not any(_opened(run).manifest.get("simulated") for run in known.served):
            progress(use_costs(known.costs_s, closed.simulation))
        tenants = with_spans(tenants, [kind for kind in there.kinds if kind.name in there.gpus], closed)
        rough |= dict.fromkeys(there.gpus, closed)
        if installed("numba"):
            closer |= dict.fromkeys(there.gpus, EnginePredictor(closed.simulation, closed))
        else:
            closer |= dict.fromkeys(there.gpus, closed)
            progress('without numba mixes are judged in closed form; event by event: pip install "cotenant[sim]"')
        tenants = tuple(
            replace(tenant, on_kinds=closed.simulation.softwares(number)) for number, tenant in enumerate(tenants)
        )
    return tenants, ByKind(rough), ByKind(closer)


def _watched(known: PlanEvidence, target: "TargetDevice") -> list[Path]:
    """Runs of watched servers on this kind of device."""
    from cotenant.store.learnt import same_kind
    from cotenant.store.reading import WATCHED

    folders = {run: _opened(run) for run in known.served}
    return [run for run, folder in folders.items()
            if folder.manifest.get("study_name") == WATCHED and same_kind(folder, target)]  # fmt: skip


def _opened(run: Path) -> "RunFolder":
    from cotenant.store import baselines
    from cotenant.store.folder import RunFolder

    return RunFolder.open(baselines.resolve(str(run)))


def _evidence(run: Path) -> "RunEvidence":
    from cotenant.analyse.result import result_of
    from cotenant.planning.predictors.run_evidence import RunEvidence
    from cotenant.store.identities import by_tenant
    from cotenant.store.reading import open_runs
    from cotenant.store.run_records import run_records

    with open_runs([run]) as opened:
        result, identities = result_of(run_records(opened)), by_tenant(opened)
    return RunEvidence(str(run), result, identities)


# --- evidence from runs on a real device about a plan's tenants: times alone by batch, and slowdowns of mixes


def measured_on(
    target: "TargetDevice", tenants: "Mapping[str, TenantEntry]", runs: Sequence[Path], *, risk: float, source: str,
    watched: Sequence[Path] = (),
) -> tuple[Measured, str]:  # fmt: skip
    """A predictor for a real device, and its evidence in a sentence.

    Args:
        target: The device.
        tenants: The tenants by name.
        runs: Run folders on this kind of device.
        risk: How often an upper end may be exceeded.
        source: The tenants file's name, for the command that measures what is missing.
        watched: Runs of watched servers there, which serve for tenants that no run measured.

    Raises:
        PredictionError: A tenant was not measured alone; or a run is from another device.
    """
    from cotenant.store.learnt import learnt, watched_services
    from cotenant.study.prediction_inputs import identity_of, on_cpu, solo_of, with_tables
    from cotenant.tenancy.identity import not_used

    measurements = learnt([*runs, *watched], target)
    identities = {name: replace(identity_of(entry, target), batch=entry.batch) for name, entry in tenants.items()}
    measurements = replace(measurements, found=with_tables(measurements, identities)[0])
    known = measurements.found.solos
    services, paused = _services(runs)
    if watched:
        services = {**{(identities[name], name): times for name, times in watched_services(watched).items()
                       if name in identities}, **services}  # fmt: skip
    matched: dict[tuple[int, int], SoloTenant] = {}
    reasons = []
    for number, (name, entry) in enumerate(tenants.items()):
        asked = identity_of(entry, target)
        items = entry.most_at_once * entry.batch
        smaller = {solo.key.batch or 1 for solo in known if (solo.key.batch or 1) < items}
        measured = {size // entry.batch for size in smaller if size % entry.batch == 0}
        for together in sorted({*(entry.at_once or (1,)), *measured}):
            solo = solo_of(name, replace(asked, batch=together * entry.batch), known)
            if solo is not None and _times(solo, services) is not None:
                matched[number, together] = solo
        if not any(number == key[0] for key in matched):
            reasons.append(not_used(name, asked, [solo.key for solo in known]))
    missing = [name for number, name in enumerate(tenants) if not any(number == key[0] for key in matched)]
    require_measured(missing, target.name, source, reasons=[reason for reason in reasons if reason])
    described = on_cpu(known, target.cores, measurements.bytes_per_s)
    keys = [solo.key for solo in known]
    alike = common_correlation([np.log(times.means_s) for times in services.values()])
    inflation = MOST if alike is None else alike.inflation
    solos = {
        pair: replace(
            _solo(
                keys.index(solo.key),
                solo,
                _times(solo, services),
                target.cores,
                measurements.bytes_per_s,
                inflation=inflation,
            ),
            after_pause_s=paused.get(replace(solo.key, in_flight=None)),
        )
        for pair, solo in matched.items()
    }
    laws = {
        way: _law(way, described, keys, measurements, target.cores)
        for way in described["priors"]
        if way in target.modes
    }
    mixes = sum(all(member in keys for member in mix.members) for mix in measurements.found.mixes)
    unspaced = "" if paused else "; not after pauses, where requests may take longer"
    names = list(tenants)
    doubted = list(dict.fromkeys(names[number] for (number, _), solo in solos.items() if solo.doubted))
    how = f"observed without a valid trial of {listed(doubted)} alone" if doubted else "measured"
    if watched:
        unspaced += "; times of watched servers include waiting for requests of their own"
    return Measured(
        planned(tenants), solos, laws, risk=risk
    ), f"{how} on {target.name}: {len(solos)} alone, {mixes} mixes{unspaced}"


def _law(
    way: str, described: Mapping[str, Any], keys: "Sequence[TenantIdentity]", measurements: "Learnt", cores: int
) -> SharingLaw:
    from cotenant.prediction.interference import CPU_PRIOR_HALF, Predictor, evidence_of, setting_of

    setting = setting_of([key.workload for key in keys], described["features"], described["priors"][way])
    mixes = [
        mix for mix in measurements.found.mixes if mix.sharing == way and all(member in keys for member in mix.members)
    ]
    predictor = Predictor(setting, evidence_of(mixes, keys), described["variances"][way], prior_half=CPU_PRIOR_HALF)
    return SharingLaw(predictor, most_of(way, cores))


def _services(
    runs: Sequence[Path],
) -> "tuple[Mapping[tuple[TenantIdentity, str], ServiceTimes], Mapping[TenantIdentity, Floats]]":
    """Times back to back, by tenant and name; and those of requests after a pause, by tenant."""
    from cotenant.store import baselines
    from cotenant.store.reading import open_runs
    from cotenant.store.service_times import after_pauses, service_times

    if not runs:
        return {}, {}
    with open_runs([baselines.resolve(str(run)) for run in runs]) as opened:
        return service_times(opened), after_pauses(opened)


def _times(solo: "SoloTenant", services: "Mapping[tuple[TenantIdentity, str], ServiceTimes]") -> "ServiceTimes | None":
    """The tenant of that name, else another that runs the same."""
    return services.get((solo.key, solo.name)) or next(
        (times for (key, _), times in services.items() if key == solo.key), None
    )


def _solo(
    position: int, solo: "SoloTenant", times: "ServiceTimes | None", cores: int, bytes_per_s: float | None,
    *, inflation: float,
) -> SoloTimes:  # fmt: skip
    assert times is not None, "only tenants with times are matched"
    mean = float(np.mean(times.means_s))
    busy = solo.service_ns if solo.device_ns is None else solo.device_ns
    moved = (solo.moved_bytes or 0.0) / mean / bytes_per_s if bytes_per_s else 0.0
    return SoloTimes(
        place=position,
        mean_s=mean,
        drawn_s=times.drawn_s,
        drift=drift(times.means_s, inflation),
        cores=float(np.clip(busy / solo.service_ns / cores, 0.0, 1.0)),
        bandwidth=float(np.clip(moved, 0.0, 1.0)),
        memory_bytes=float(solo.memory_bytes or 0),
        first_s=times.first_s,
        step_s=times.step_s,
        doubted=solo.unstable and not solo.foreign,
        in_a_row=max(int(np.median(times.requests)), 1),
    )
