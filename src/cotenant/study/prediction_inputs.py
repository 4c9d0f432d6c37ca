"""The tenants of a study as inputs to a prediction: solo profiles, the prior for each way to share, loads."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cotenant.errors import PredictionError, StudyError
from cotenant.text import amount, did_you_mean, listed

if TYPE_CHECKING:
    from cotenant.devices.target import TargetDevice
    from cotenant.prediction.interference import Asked, Engine, Gathered, GpuMixes, Learnt, PredictedMixes, SoloTenant
    from cotenant.study.model import Study
    from cotenant.tenancy.identity import TenantIdentity
    from cotenant.tenancy.load import Load
    from cotenant.tenancy.sharing import Sharing
    from cotenant.tenancy.tenant_entry import TenantEntry

SIDE_BY_SIDE = ("mps", "streams", "exclusive")
"""Ways to share a GPU in which kernels of all tenants may run at once."""

IN_TORCH = ("eager", "compile", "graphs")


def place_of(study: "Study", device: str | None) -> "TargetDevice":
    """The named device, else the study's. Raises DeviceError."""
    from cotenant.devices.target import place_at

    return place_at(study.device if device is None else device)


def groups_of(study: "Study", mix: str | None) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """The requested mixes, by tenants' names, and a sentence if some of the study's are too large."""
    from cotenant.prediction.interference import LARGEST

    if mix is None:
        groups = tuple(group.members for group in study.mix_list())
    else:
        names = tuple(name.strip() for name in mix.split("+"))
        if not all(names):
            raise StudyError(f"the mix {mix!r} has a name missing", hint="join tenants by one +: --mix a+b")
        for name in names:
            if name not in study.tenants:
                raise StudyError(
                    f"the study has no tenant {name!r}",
                    hint=did_you_mean(name, study.tenants) or f"its tenants are {', '.join(study.tenants)}",
                )
        groups = (names,)
    if not groups:
        raise StudyError(
            "the study has no mix of several tenants", hint="add `mixes: [solo, pairs]`, or name one: --mix a+b"
        )
    possible = tuple(group for group in groups if 2 <= len(group) <= LARGEST)
    if not possible:
        group = groups[0]
        raise StudyError(
            f"{' + '.join(group)} has {len(group)} tenants; mixes of 2 to {LARGEST} can be predicted",
            hint="name fewer tenants with --mix a+b+c",
        )
    over = len(groups) - len(possible)
    of_more = f"{amount(over, 'mix was', 'mixes were')} left out: mixes of 2 to {LARGEST} tenants can be predicted"
    return possible, ((of_more,) if over else ())


def asked_of(
    study: "Study", target: "TargetDevice", learnt: "Learnt", *, study_name: str, exact: bool = False
) -> "Asked":
    """Tenants of the study first, then others known from the runs.

    Args:
        study: The study to predict.
        target: The device.
        learnt: Evidence from runs there.
        study_name: For the command that measures what is missing.
        exact: Let the event engine compute mixes that were not measured, where available.

    Raises:
        PredictionError: A tenant was not measured alone, and there is no other source.
    """
    from cotenant.prediction.interference import CPU_PRIOR_HALF, Asked
    from cotenant.tenancy.identity import not_used

    asked = {
        name: identity_of(entry, target, load=study.loads[0], settings=study.settings[0])
        for name, entry in study.tenants.items()
    }
    evidence, uses = with_tables(learnt, asked)
    known = evidence.solos
    matched = {name: solo_of(name, identity, known) for name, identity in asked.items()}
    unused = [
        reason
        for name, identity in asked.items()
        if matched[name] is None and (reason := not_used(name, identity, [solo.key for solo in known]))
    ]
    names, keys, solos = _everybody(asked, matched, known)
    common: dict[str, Any] = {
        "device": target.name,
        "simulated": target.simulated,
        "names": names,
        "keys": keys,
        "loads": _loads(study),
        "objectives": {name: entry.slo for name, entry in study.tenants.items() if entry.slo},
        "mixes": evidence.mixes,
        "notes": (*learnt.notes, *(f"{reason}." for reason in unused)),
        "errors": evidence.errors,
        "batching": frozenset(name for name, entry in study.tenants.items() if entry.most_at_once > 1),
        **_foreign_basis(learnt),
    }
    shaky = [name for name, solo in matched.items() if solo is not None and solo.unstable]
    if shaky:
        common["notes"] = (*common["notes"], _of_unstable(shaky, cores=bool(target.cores)))
    if target.cores:
        missing = [name for name, solo in matched.items() if solo is None]
        if missing:
            named = study_name if target.name == study.device else f"{study_name} --device {target.name}"
            raise PredictionError(
                f"{listed(missing)} {'has' if len(missing) == 1 else 'have'} not been measured alone on {target.kind}"
                f"{''.join(f'; {reason}' for reason in unused)}",
                hint=f"cotenant run {named} --set 'mixes=[solo]', then cotenant predict {named} --from RUN",
            )
        return Asked(
            **common,
            **on_cpu([solo for solo in solos if solo is not None], target.cores, learnt.bytes_per_s),
            prior_half=CPU_PRIOR_HALF,
        )
    on_gpu = _on_gpu(study, target, names, solos, notes=common["notes"], uses=uses, exact=exact)
    return Asked(**(common | on_gpu))


def settling(found: "PredictedMixes", study: "Study", name: str, target: "TargetDevice") -> "PredictedMixes":
    """The prediction with the commands that settle which way to share is gentlest.

    Args:
        found: What is predicted.
        study: Its study.
        name: The study, as `cotenant run` takes it.
        target: The device; only a real one tells how far off a simulated one is.
    """
    from dataclasses import replace

    from cotenant.study.windows import LONG, chosen
    from cotenant.tenancy.run_command import (
        FEWEST_BLOCKS,
        REAL_DEVICE,
        RunLength,
        mixes_setting,
        run_command,
        ways_setting,
    )

    device = REAL_DEVICE if target.simulated else None if target.name == study.device else target.name
    commands = []
    for mix in found.open:
        latencies = [tenant.latency_ms.ends[1] for way in found.mixes if way.mix == mix.mix for tenant in way.tenants]
        lengths = chosen(max(latencies) / 1e3, LONG)
        trial_s = lengths.lead_s + (lengths.window_s if study.window_s is None else study.window_s)
        length = RunLength(len(mix.ways) + len(set(mix.mix)), FEWEST_BLOCKS, trial_s)
        settings = [mixes_setting([mix.mix]), ways_setting(mix.ways), *length.settings]
        command = run_command(name, settings, device=device)
        commands.append(replace(mix, minutes=length.minutes, command=command))
    return replace(found, open=tuple(commands))


def _of_unstable(names: Sequence[str], *, cores: bool) -> str:
    were = "was" if len(names) == 1 else "were"
    counted = ": all their threads are taken to be busy" if cores else ""
    return f"{listed(names)} {were} unstable alone{counted}; measure again on a quiet machine before you rely on this."


def with_tables(
    learnt: "Learnt", asked: "Mapping[str, TenantIdentity]"
) -> "tuple[Gathered, Mapping[TenantIdentity, float]]":
    """Runs first, then what tables say of tenants with these names and of others; and the tenants' use of the GPU."""
    from dataclasses import replace

    evidence = learnt.found
    uses: dict[TenantIdentity, float] = {}
    for table in learnt.tables:
        theirs = table.known_as(asked)
        given = table.utilisation
        uses |= {solo.key: given[solo.name] for solo in theirs.found.solos if solo.name in given}
        here = {solo.key for solo in evidence.solos}
        mixed = {(mix.sharing, mix.members) for mix in evidence.mixes}
        evidence = replace(
            evidence,
            solos=(*evidence.solos, *(solo for solo in theirs.found.solos if solo.key not in here)),
            mixes=(*evidence.mixes, *(mix for mix in theirs.found.mixes if (mix.sharing, mix.members) not in mixed)),
        )
    return evidence, uses


def _foreign_basis(learnt: "Learnt") -> dict[str, str]:
    """Where mixes that no run measured come from, if all have one source."""
    bases = {table.basis for table in learnt.tables}
    return {"foreign_basis": bases.pop()} if len(bases) == 1 else {}


def asked_of_tables(target: "TargetDevice", learnt: "Learnt") -> "Asked":
    """The tenants of tables, which nothing but their times alone and their use of the device describe."""
    from cotenant.prediction.interference import CPU_PRIOR_HALF, Asked

    evidence, uses = with_tables(learnt, {})
    common: dict[str, Any] = {
        "device": target.name,
        "simulated": target.simulated,
        "names": tuple(solo.name for solo in evidence.solos),
        "keys": tuple(solo.key for solo in evidence.solos),
        "loads": {},
        "objectives": {},
        "mixes": evidence.mixes,
        "notes": learnt.notes,
        **_foreign_basis(learnt),
    }
    if target.cores:
        return Asked(**common, **on_cpu(evidence.solos, target.cores, learnt.bytes_per_s), prior_half=CPU_PRIOR_HALF)
    on_gpu = _on_gpu(None, target, common["names"], evidence.solos, notes=learnt.notes, uses=uses, exact=False)
    return Asked(**(common | on_gpu))


def identity_of(
    entry: "TenantEntry",
    target: "TargetDevice",
    *,
    load: "Load | None" = None,
    settings: Mapping[str, Any] | None = None,
) -> "TenantIdentity":
    """Everything that changes a tenant's time on the device."""
    from cotenant.tenancy.identity import TenantIdentity
    from cotenant.workloads.catalogue import published

    spec = target.device.spec(entry.spec())
    if spec.seq is None:
        spec = spec.model_copy(update={"seq": published(spec.name)[1]})
    identity = TenantIdentity.of(entry, spec=spec, load=load, settings=target.device.absolute(settings or {}))
    version = None if target.simulated or identity.software not in IN_TORCH else _torch_here()
    return identity.with_records(version=version)


def major_minor(version: str) -> str:
    """`2.4` of `2.4.1+cpu`."""
    return ".".join(version.split(".")[:2])


def _torch_here() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return major_minor(version("torch"))
    except PackageNotFoundError:
        return None


def solo_of(name: str, asked: "TenantIdentity", solos: "Sequence[SoloTenant]") -> "SoloTenant | None":
    """The measured tenant with the same identity, of the same name if there are several."""
    fits = [solo for solo in solos if not asked.differences(solo.key)]
    return next((solo for solo in fits if solo.name == name), fits[0] if fits else None)


def _everybody(
    asked: "Mapping[str, TenantIdentity]", matched: "Mapping[str, SoloTenant | None]", solos: "Sequence[SoloTenant]"
) -> "tuple[tuple[str, ...], tuple[TenantIdentity, ...], list[SoloTenant | None]]":
    names, keys, rows = [], [], []
    for name, solo in matched.items():
        names.append(name)
        keys.append(asked[name] if solo is None else solo.key)
        rows.append(solo)
    for solo in solos:
        if solo.key not in keys:
            names.append(solo.name if solo.name not in names else f"{solo.name} ({solo.key})")
            keys.append(solo.key)
            rows.append(solo)
    return tuple(names), tuple(keys), rows


def _loads(study: "Study") -> "dict[str, Load]":
    usual = study.loads[0]
    loads = {name: entry.arrivals or usual for name, entry in study.tenants.items()}
    return {name: load for name, load in loads.items() if load.open}


def on_cpu(solos: "Sequence[SoloTenant]", cores: int, bytes_per_s: float | None) -> dict[str, Any]:
    """Features, priors by way to share, times and memory of CPU tenants that were measured alone."""
    import numpy as np

    from cotenant.prediction.interference import CPU, CPU_THREADS, CpuProfiles, cores_wanted, roofline_shared

    service = np.array([solo.service_ns for solo in solos])
    used = np.array([solo.service_ns if solo.device_ns is None else solo.device_ns for solo in solos])
    # On a busy machine, cores that others took look idle: every thread of an unstable tenant counts as busy.
    busy = np.where([solo.unstable for solo in solos], np.maximum(used, service), used)
    moved = np.array([solo.moved_bytes or 0.0 for solo in solos])
    flops = np.array([solo.flops or 0.0 for solo in solos])
    threads = np.array([solo.threads or solo.key.threads or cores for solo in solos])
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
    study: "Study | None",
    target: "TargetDevice",
    names: Sequence[str],
    solos: "Sequence[SoloTenant | None]",
    *,
    notes: Sequence[str],
    uses: "Mapping[TenantIdentity, float]",
    exact: bool,
) -> dict[str, Any]:
    import numpy as np

    from cotenant.devices.target import twin_of
    from cotenant.prediction.calibration import calibrating
    from cotenant.prediction.interference import (
        GPU,
        GPU_PRIOR_HALF,
        PLAIN_PRIOR_HALF,
        GpuMixes,
        is_elsewhere,
        plain_trace,
        power_use,
        profiles_of,
    )
    from cotenant.tenancy.sharing import Sharing
    from cotenant.workloads.protocol import WorkloadSpec

    gpu = twin_of(target)
    entries = {} if study is None else study.tenants
    plain = {
        number: plain_trace(solo.service_ns, uses.get(solo.key))
        for number, solo in enumerate(solos)
        if solo is not None and is_elsewhere(solo.key)
    }
    specs = [
        entries[name].spec() if name in entries else WorkloadSpec(name=name) if number in plain else _spec(solo)
        for number, (name, solo) in enumerate(zip(names, solos, strict=True))
    ]
    described = [number for number in range(len(specs)) if number not in plain]
    measured = [None if target.simulated and not _from_table(solos[number]) else solos[number] for number in described]
    controls, uncalibrated = calibrating(gpu, [specs[number] for number in described], measured)
    priority = [entries[name].priority if name in entries else 0 for name in names]
    shares = [entries[name].share if name in entries else None for name in names]
    mixes = GpuMixes(gpu, specs, controls, priority=priority, shares=shares, plain=plain)
    traces = [mixes.trace(number) for number in range(len(specs))]
    solo_ns = [trace.alone_ns() if solo is None else solo.service_ns for trace, solo in zip(traces, solos, strict=True)]
    profiles = profiles_of(traces, solo_ns)
    usual = [Sharing(mode=mode) for mode in ("processes", *SIDE_BY_SIDE)]
    ways = {str(sharing): sharing for sharing in (*usual, *([] if study is None else study.sharings(target.modes)))}
    return {
        "notes": (*notes, *uncalibrated),
        "features": profiles.features(),
        "priors": {way: mixes.prior(sharing) for way, sharing in ways.items()},
        "variances": dict.fromkeys(ways, GPU),
        "solo_s": np.array(solo_ns) / 1e9,
        "memory_bytes": tuple(None if number in plain else gpu.memory_bytes(spec) for number, spec in enumerate(specs)),
        "power": None if plain else power_use(gpu.gpu, profiles),
        "prior_half": PLAIN_PRIOR_HALF if plain else GPU_PRIOR_HALF,
        "prior_basis": "closed form, prior only",
        "engine": _simulated(mixes, ways, names) if exact else None,
    }


def _from_table(solo: "SoloTenant | None") -> bool:
    """Whether its time is from a table, which a simulated GPU is to follow."""
    return solo is not None and solo.foreign


def _simulated(mixes: "GpuMixes", ways: "Mapping[str, Sharing]", names: Sequence[str]) -> "Engine":
    def engine(group: tuple[str, ...], sharing: str, loads: "Mapping[str, Load]") -> Sequence[float] | None:
        numbers = [names.index(name) for name in group]
        return mixes.simulated(numbers, ways[sharing], {names.index(name): load for name, load in loads.items()})

    return engine


def _spec(solo: "SoloTenant | None") -> Any:
    assert solo is not None, "a tenant that the study doesn't name is known from a run"
    return solo.key.spec()
