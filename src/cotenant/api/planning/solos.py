"""Evidence from runs on a real device about a plan's tenants: times alone by batch, and slowdowns of mixes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant.analyse.estimates.autocorrelation import MOST, common_correlation
from cotenant.api.planning.measured import Law, Measured, most_of, require_measured
from cotenant.planning.solver.problem import Floats

if TYPE_CHECKING:
    from cotenant.api.prediction_evidence import Learnt
    from cotenant.api.prediction_inputs import TargetDevice
    from cotenant.planning.tenants_file import TenantsFile
    from cotenant.prediction.interference.gathered import SoloTenant, TenantKey
    from cotenant.store.service_times import ServiceTimes

ONE_BLOCK = 0.1
"""Drift assumed for a single block, which can't show any."""


@dataclass(frozen=True, slots=True)
class Solo:
    """A tenant at one batch, measured alone."""

    place: int
    """Index among the solos that the laws know."""
    mean_s: float
    drawn_s: Floats
    """By block, times of its requests."""
    drift: float
    """Standard error of the logarithm of the mean, for another period as long as the measured one."""
    cores: float
    """Share of the device's cores that it keeps busy."""
    bandwidth: float
    memory_bytes: float
    first_s: float | None = None
    step_s: float | None = None
    after_pause_s: Floats | None = None
    """Times of requests that came while nothing ran, if they were measured apart."""
    in_a_row: int = 1
    """Requests per block: this many in a row are about equally fast."""

    @property
    def usual_s(self) -> float:
        """The median of a request under load that leaves pauses, if that was measured."""
        return float(np.median(self.drawn_s if self.after_pause_s is None else self.after_pause_s))

    def slower(self, factor: float) -> "Solo":
        """The same with all times this much longer."""
        return replace(
            self,
            mean_s=self.mean_s * factor,
            drawn_s=self.drawn_s * factor,
            first_s=None if self.first_s is None else self.first_s * factor,
            step_s=None if self.step_s is None else self.step_s * factor,
            after_pause_s=None if self.after_pause_s is None else self.after_pause_s * factor,
        )

    def draw(self, count: int, random: np.random.Generator) -> Floats:
        """Times of requests that follow each other: a slow block stays slow for as long as it was measured."""
        blocks = random.integers(len(self.drawn_s), size=-(-count // self.in_a_row)).repeat(self.in_a_row)[:count]
        return np.asarray(self.drawn_s[blocks, random.integers(self.drawn_s.shape[1], size=count)])


def measured_on(
    place: "TargetDevice", file: "TenantsFile", runs: Sequence[Path], *, risk: float, source: str
) -> tuple[Measured, str]:
    """A predictor for a real device, and its evidence in a sentence.

    Args:
        place: The device.
        file: The tenants.
        runs: Run folders on this kind of device.
        risk: How often an upper end may be exceeded.
        source: The tenants file's name, for the command that measures what is missing.

    Raises:
        PredictionError: A tenant was not measured alone; or a run is from another device.
    """
    from cotenant.api.prediction_evidence import learnt
    from cotenant.api.prediction_inputs import on_cpu, solo_of

    found = learnt(runs, place)
    known = found.found.solos
    services, paused = _services(runs)
    matched: dict[tuple[int, int], SoloTenant] = {}
    for number, (name, entry) in enumerate(file.tenants.items()):
        smaller = {solo.key.batch or 1 for solo in known if (solo.key.batch or 1) < max(entry.batch)}
        for batch in sorted({*entry.batch, *smaller}):
            solo = solo_of(name, entry.model_copy(update={"batch": batch}), known)
            if solo is not None and _times(solo, services) is not None:
                matched[number, batch] = solo
    missing = [name for number, name in enumerate(file.tenants) if not any(number == key[0] for key in matched)]
    require_measured(missing, place.name, source)
    described = on_cpu(known, place.cores, found.bytes_per_s)
    keys = [solo.key for solo in known]
    alike = common_correlation([np.log(times.means_s) for times in services.values()])
    inflation = MOST if alike is None else alike.inflation
    solos = {
        pair: replace(
            _solo(
                keys.index(solo.key), solo, _times(solo, services), place.cores, found.bytes_per_s, inflation=inflation
            ),
            after_pause_s=paused.get(solo.key),
        )
        for pair, solo in matched.items()
    }
    laws = {way: _law(way, described, keys, found, place.cores) for way in described["priors"] if way in place.modes}
    mixes = sum(all(member in keys for member in mix.members) for mix in found.found.mixes)
    unspaced = "" if paused else "; not after pauses, where requests may take longer"
    return Measured(
        file.planned(), solos, laws, risk=risk
    ), f"measured on {place.name}: {len(solos)} alone, {mixes} mixes{unspaced}"


def _law(way: str, described: Mapping[str, Any], keys: "Sequence[TenantKey]", found: "Learnt", cores: int) -> Law:
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
) -> "tuple[Mapping[tuple[TenantKey, str], ServiceTimes], Mapping[TenantKey, Floats]]":
    """Times back to back, by tenant and name; and those of requests after a pause, by tenant."""
    from cotenant.prediction.interference.gathered import TenantKey
    from cotenant.store import baselines
    from cotenant.store.reading import open_runs
    from cotenant.store.service_times import after_pauses, service_times

    if not runs:
        return {}, {}
    with open_runs([baselines.resolve(str(run)) for run in runs]) as opened:
        times = {(TenantKey(*key), name): times for (key, name), times in service_times(opened).items()}
        return times, {TenantKey(*key): drawn for key, drawn in after_pauses(opened).items()}


def _times(solo: "SoloTenant", services: "Mapping[tuple[TenantKey, str], ServiceTimes]") -> "ServiceTimes | None":
    """The tenant of that name, else another that runs the same."""
    return services.get((solo.key, solo.name)) or next(
        (one for (key, _), one in services.items() if key == solo.key), None
    )


def drift(means_s: Sequence[float], inflation: float) -> float:
    """How far the mean of the next period may be off: both means are of blocks that resemble their neighbours.

    Args:
        means_s: By block.
        inflation: Variance of a mean over that of as many independent blocks.
    """
    count = len(means_s)
    if count == 1:
        return ONE_BLOCK
    # At most that of a single block to come.
    parts = min(2 * inflation / count, 1 + 1 / count)
    return float(np.std(np.log(means_s), ddof=1)) * float(np.sqrt(parts))


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
