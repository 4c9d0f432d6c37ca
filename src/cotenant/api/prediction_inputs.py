"""The tenants of a study as inputs to a prediction: solo profiles, the prior for each way to share, loads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from cotenant.errors import PredictionError
from cotenant.text import listed

if TYPE_CHECKING:
    from cotenant.api.prediction_evidence import Learnt
    from cotenant.devices.protocol import Device
    from cotenant.devices.simulated.controls import Controls
    from cotenant.devices.simulated.device import SimulatedGpu
    from cotenant.prediction.interference.forecasting import Asked, Engine
    from cotenant.prediction.interference.gathered import SoloTenant, TenantKey
    from cotenant.prediction.sharing.trace import Trace
    from cotenant.study.model import Study, TenantEntry
    from cotenant.tenancy.load import Load

SIDE_BY_SIDE = ("mps", "streams", "exclusive")
"""Ways to share a GPU in which kernels of all tenants may run at once."""


@dataclass(frozen=True, slots=True)
class TargetDevice:
    """The device in question."""

    name: str
    kind: str
    simulated: bool
    modes: tuple[str, ...]
    cores: int
    """Cores of a CPU; 0 for other devices."""
    device: "Device"


def place_of(study: "Study", device: str | None) -> TargetDevice:
    """The study's device, or the one named. Raises DeviceError."""
    return place_at(study.device if device is None else device)


def place_at(device: str) -> TargetDevice:
    """The device of that name. Raises DeviceError."""
    from cotenant.analyse.sharing.peaks import cores_of
    from cotenant.api.prediction_evidence import kind_of
    from cotenant.devices import find_device

    found = find_device(device)
    description = found.describe()
    return TargetDevice(
        name=found.name,
        kind=kind_of(description),
        simulated=found.simulated,
        modes=tuple(mode.mode for mode in found.sharings() if mode.available),
        cores=cores_of({"device_description": description}) if found.kind == "cpu" else 0,
        device=found,
    )


def asked_of(study: "Study", place: TargetDevice, learnt: "Learnt", *, study_name: str, exact: bool = False) -> "Asked":
    """Tenants of the study first, then others known from the runs.

    Args:
        study: The study to predict.
        place: The device.
        learnt: Evidence from runs there.
        study_name: For the command that measures what is missing.
        exact: Let the event engine compute mixes that were not measured, where available.

    Raises:
        PredictionError: A tenant was not measured alone, and there is no other source.
    """
    from cotenant.prediction.interference.forecasting import Asked
    from cotenant.prediction.interference.shipped import CPU_PRIOR_HALF, GPU_PRIOR_HALF

    matched = {name: solo_of(name, entry, learnt.found.solos) for name, entry in study.tenants.items()}
    names, keys, solos = _everybody(study, matched, learnt.found.solos)
    common: dict[str, Any] = {
        "device": place.name,
        "simulated": place.simulated,
        "names": names,
        "keys": keys,
        "loads": _loads(study),
        "objectives": {name: entry.slo.slo() for name, entry in study.tenants.items() if entry.slo},
        "mixes": learnt.found.mixes,
        "notes": learnt.notes,
        "errors": learnt.found.errors,
    }
    if place.cores:
        missing = [name for name, solo in matched.items() if solo is None]
        if missing:
            named = study_name if place.name == study.device else f"{study_name} --device {place.name}"
            raise PredictionError(
                f"{listed(missing)} {'has' if len(missing) == 1 else 'have'} not been measured alone on {place.kind}",
                hint=f"cotenant run {named} --set 'mixes=[solo]', then cotenant predict {named} --from RUN",
            )
        return Asked(
            **common,
            **on_cpu([solo for solo in solos if solo is not None], place.cores, learnt.bytes_per_s),
            prior_half=CPU_PRIOR_HALF,
        )
    on_gpu = _on_gpu(study, place, names, solos, learnt.notes, exact=exact)
    return Asked(**(common | on_gpu), prior_half=GPU_PRIOR_HALF)


def solo_of(name: str, entry: "TenantEntry", solos: "Sequence[SoloTenant]") -> "SoloTenant | None":
    """The matching measured tenant: same workload, and no difference in what the study states."""
    stated = {"batch": entry.batch, "seq": entry.seq, "dtype": entry.dtype, "threads": entry.threads}
    fits = [
        solo
        for solo in solos
        if solo.key.workload == entry.workload
        and all(value is None or getattr(solo.key, what) in {None, value} for what, value in stated.items())
    ]
    return next((solo for solo in fits if solo.name == name), fits[0] if fits else None)


def _everybody(
    study: "Study", matched: "Mapping[str, SoloTenant | None]", solos: "Sequence[SoloTenant]"
) -> "tuple[tuple[str, ...], tuple[TenantKey, ...], list[SoloTenant | None]]":
    from cotenant.prediction.interference.gathered import TenantKey

    names, keys, found = [], [], []
    for name, solo in matched.items():
        entry = study.tenants[name]
        own = TenantKey(entry.workload, entry.batch, entry.seq, entry.dtype, entry.threads)
        names.append(name)
        keys.append(own if solo is None else solo.key)
        found.append(solo)
    for solo in solos:
        if solo.key not in keys:
            names.append(solo.name if solo.name not in names else f"{solo.name} ({solo.key})")
            keys.append(solo.key)
            found.append(solo)
    return tuple(names), tuple(keys), found


def _loads(study: "Study") -> "dict[str, Load]":
    usual = study.loads[0]
    loads = {name: entry.load or usual for name, entry in study.tenants.items()}
    return {name: load for name, load in loads.items() if load.open}


def on_cpu(solos: "Sequence[SoloTenant]", cores: int, bytes_per_s: float | None) -> dict[str, Any]:
    """Features, priors by way to share, times and memory of CPU tenants that were measured alone."""
    import numpy as np

    from cotenant.prediction.interference.cpu_profiles import CpuProfiles, cores_wanted, roofline_shared
    from cotenant.prediction.interference.shipped import CPU, CPU_THREADS

    service = np.array([solo.service_ns for solo in solos])
    busy = np.array([solo.service_ns if solo.device_ns is None else solo.device_ns for solo in solos])
    moved = np.array([solo.moved_bytes or 0.0 for solo in solos])
    flops = np.array([solo.flops or 0.0 for solo in solos])
    threads = np.array([solo.key.threads or cores for solo in solos])
    drawn = moved / (service / 1e9) / bytes_per_s if bytes_per_s else np.zeros(service.size)
    profiles = CpuProfiles(
        solo_ns=service,
        cores=cores_wanted(busy / service, threads, cores),
        bandwidth=np.clip(drawn, 0.0, 1.0),
        intensity=np.where((moved > 0) & (flops > 0), flops / np.maximum(moved, 1.0), 1.0),
    )
    law = partial(roofline_shared, profiles)
    return {
        "features": profiles.features(),
        "priors": {"processes": law, "threads": law, "pinned": partial(roofline_shared, profiles, pinned=True)},
        "variances": {"processes": CPU, "threads": CPU_THREADS, "pinned": CPU},
        "solo_s": service / 1e9,
        "memory_bytes": tuple(solo.memory_bytes for solo in solos),
    }


def _on_gpu(
    study: "Study",
    place: TargetDevice,
    names: Sequence[str],
    solos: "Sequence[SoloTenant | None]",
    notes: Sequence[str],
    *,
    exact: bool,
) -> dict[str, Any]:
    import numpy as np

    from cotenant.api.prediction_calibration import calibrating
    from cotenant.prediction.interference.energy import power_use
    from cotenant.prediction.interference.fluid import in_turns, side_by_side
    from cotenant.prediction.interference.gpu_profiles import profiles_of
    from cotenant.prediction.interference.shipped import GPU

    gpu = twin_of(place)
    specs = [
        study.tenants[name].spec() if name in study.tenants else _spec(solo)
        for name, solo in zip(names, solos, strict=True)
    ]
    measured: Sequence[SoloTenant | None] = [None] * len(solos) if place.simulated else solos
    controls, uncalibrated = calibrating(gpu, specs, measured)
    traces = [_trace(gpu, spec, controls) for spec in specs]
    solo_ns = [
        max(trace.device_ns, float(trace.launch_ns.sum())) + trace.before_ns + trace.after_ns
        if solo is None
        else solo.service_ns
        for trace, solo in zip(traces, solos, strict=True)
    ]
    profiles = profiles_of(traces, solo_ns)
    together = partial(side_by_side, profiles)
    return {
        "notes": (*notes, *uncalibrated),
        "features": profiles.features(),
        "priors": {"processes": partial(in_turns, profiles), **dict.fromkeys(SIDE_BY_SIDE, together)},
        "variances": dict.fromkeys(("processes", *SIDE_BY_SIDE), GPU),
        "solo_s": np.array(solo_ns) / 1e9,
        "memory_bytes": tuple(gpu.memory_bytes(spec) for spec in specs),
        "power": power_use(gpu.gpu, profiles),
        "engine": _engine(dict(zip(names, traces, strict=True))) if exact else None,
    }


def twin_of(place: TargetDevice) -> "SimulatedGpu":
    """The catalogue GPU that stands for the device. Raises PredictionError if there is none."""
    from cotenant.devices.simulated.catalogue.find import gpu_names
    from cotenant.devices.simulated.device import open_simulated

    if place.device.simulated:
        return place.device.simulation()
    plain = place.kind.lower().removeprefix("nvidia ").replace(" ", "-")
    near = [name for name in gpu_names() if plain.startswith(name) or name.startswith(plain)]
    if not near:
        raise PredictionError(
            f"{place.kind} is not in the catalogue of GPUs, so there is no prior for it",
            hint="measure the mixes: cotenant run STUDY; or describe the GPU in a file: --device sim:/path/to/gpu.yaml",
        )
    return open_simulated(f"sim:{near[0]}")


def _trace(gpu: "SimulatedGpu", spec: Any, controls: "Controls") -> "Trace":
    from cotenant.prediction.sharing.layout import Part

    whole = Part(sms=gpu.gpu.sms, sm_domain=0, domain_sms=gpu.gpu.sms, memory_bytes=gpu.gpu.memory_bytes)
    return gpu.trace(gpu.request(spec), whole, controls)


def _spec(solo: "SoloTenant | None") -> Any:
    from cotenant.workloads.protocol import WorkloadSpec

    assert solo is not None, "a tenant that the study doesn't name is known from a run"
    key = solo.key
    return WorkloadSpec.model_validate(
        {"name": key.workload, "batch": key.batch or 1, "seq": key.seq, "dtype": key.dtype}
    )


def _engine(traces: "Mapping[str, Trace]") -> "Engine":
    import numpy as np

    from cotenant.prediction.sharing.layout import TURNS
    from cotenant.prediction.sharing.simulate import Player, simulate

    def times(group: Sequence[str], sharing: str) -> list[float]:
        players = [Player(traces[name], shared_host=sharing in {"streams", "exclusive"}) for name in group]
        longest = max(max(traces[name].device_ns, traces[name].host_ns) for name in group)
        window = 12 * longest * len(group)
        outcome = simulate(
            players,
            window_end_ns=window,
            deadline_ns=20 * window,
            slicing=TURNS if sharing == "processes" and len(group) > 1 else None,
            host_spread=0.03,
            seed=1,
        )
        return [float(np.diff(one.done[1:]).mean()) if one.done.size > 3 else float("inf") for one in outcome.requests]

    def engine(group: tuple[str, ...], sharing: str) -> Sequence[float]:
        alone = [times((name,), sharing)[0] for name in group]
        return [max(together / own, 1.0) for together, own in zip(times(group, sharing), alone, strict=True)]

    return engine
