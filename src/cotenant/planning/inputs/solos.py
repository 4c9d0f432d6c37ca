"""Evidence from runs on a real device about a plan's tenants: times alone by batch, and slowdowns of mixes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant.analyse.estimates.autocorrelation import MOST, common_correlation
from cotenant.planning.mixes.tenants import planned
from cotenant.planning.predictors.measured import Law, Measured, most_of, require_measured
from cotenant.planning.predictors.solo import Solo, drift
from cotenant.planning.solver.problem import Floats

if TYPE_CHECKING:
    from cotenant.devices.target import TargetDevice
    from cotenant.prediction.interference.gathered import Learnt, SoloTenant
    from cotenant.store.service_times import ServiceTimes
    from cotenant.tenancy.identity import TenantIdentity
    from cotenant.tenancy.tenant_entry import TenantEntry


def measured_on(
    place: "TargetDevice", tenants: "Mapping[str, TenantEntry]", runs: Sequence[Path], *, risk: float, source: str
) -> tuple[Measured, str]:
    """A predictor for a real device, and its evidence in a sentence.

    Args:
        place: The device.
        tenants: The tenants by name.
        runs: Run folders on this kind of device.
        risk: How often an upper end may be exceeded.
        source: The tenants file's name, for the command that measures what is missing.

    Raises:
        PredictionError: A tenant was not measured alone; or a run is from another device.
    """
    from cotenant.store.learnt import learnt
    from cotenant.study.prediction_inputs import identity_of, on_cpu, solo_of
    from cotenant.tenancy.identity import not_used

    found = learnt(runs, place)
    known = found.found.solos
    services, paused = _services(runs)
    matched: dict[tuple[int, int], SoloTenant] = {}
    reasons = []
    for number, (name, entry) in enumerate(tenants.items()):
        asked = identity_of(entry, place)
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
    require_measured(missing, place.name, source, reasons=[reason for reason in reasons if reason])
    described = on_cpu(known, place.cores, found.bytes_per_s)
    keys = [solo.key for solo in known]
    alike = common_correlation([np.log(times.means_s) for times in services.values()])
    inflation = MOST if alike is None else alike.inflation
    solos = {
        pair: replace(
            _solo(
                keys.index(solo.key), solo, _times(solo, services), place.cores, found.bytes_per_s, inflation=inflation
            ),
            after_pause_s=paused.get(replace(solo.key, in_flight=None)),
        )
        for pair, solo in matched.items()
    }
    laws = {way: _law(way, described, keys, found, place.cores) for way in described["priors"] if way in place.modes}
    mixes = sum(all(member in keys for member in mix.members) for mix in found.found.mixes)
    unspaced = "" if paused else "; not after pauses, where requests may take longer"
    return Measured(
        planned(tenants), solos, laws, risk=risk
    ), f"measured on {place.name}: {len(solos)} alone, {mixes} mixes{unspaced}"


def _law(way: str, described: Mapping[str, Any], keys: "Sequence[TenantIdentity]", found: "Learnt", cores: int) -> Law:
    from cotenant.prediction.interference.forecasting import evidence_of
    from cotenant.prediction.interference.predictor import Predictor
    from cotenant.prediction.interference.setting import setting_of
    from cotenant.prediction.interference.shipped import CPU_PRIOR_HALF

    setting = setting_of([key.workload for key in keys], described["features"], described["priors"][way])
    mixes = [mix for mix in found.found.mixes if mix.sharing == way and all(one in keys for one in mix.members)]
    predictor = Predictor(setting, evidence_of(mixes, keys), described["variances"][way], prior_half=CPU_PRIOR_HALF)
    return Law(predictor, most_of(way, cores))


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
        (one for (key, _), one in services.items() if key == solo.key), None
    )


def _solo(
    place: int, solo: "SoloTenant", times: "ServiceTimes | None", cores: int, bytes_per_s: float | None,
    *, inflation: float,
) -> Solo:  # fmt: skip
    assert times is not None, "only tenants with times are matched"
    mean = float(np.mean(times.means_s))
    busy = solo.service_ns if solo.device_ns is None else solo.device_ns
    moved = (solo.moved_bytes or 0.0) / mean / bytes_per_s if bytes_per_s else 0.0
    return Solo(
        place=place,
        mean_s=mean,
        drawn_s=times.drawn_s,
        drift=drift(times.means_s, inflation),
        cores=float(np.clip(busy / solo.service_ns / cores, 0.0, 1.0)),
        bandwidth=float(np.clip(moved, 0.0, 1.0)),
        memory_bytes=float(solo.memory_bytes or 0),
        first_s=times.first_s,
        step_s=times.step_s,
        in_a_row=max(int(np.median(times.requests)), 1),
    )
