"""Layout of a mix on a GPU: each tenant's part, the tenants it shares it with, and the shares worth trying."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations
from math import ceil

from cotenant.errors import SharingUnavailable
from cotenant.prediction.gpu import GpuSpec, MigProfile
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing, percent_of_sms
from cotenant.tenancy.ways import ALONE, SCHEDULED


@dataclass(frozen=True, slots=True)
class Slicing:
    """Time-slicing: kernels of different tenants never run at once."""

    slice_ns: float
    interrupt_ns: float
    """Time lost when a running tenant is interrupted."""
    yield_ns: float
    """Time lost when it had nothing to run."""


MODES = ("processes", "mps", "streams", "green", "mig")
EXCLUSIVE = "exclusive"
"""As `streams`, with other processes locked out, of which a simulated GPU has none. As on a real GPU, `sharing: all`
excludes it, but it can be named."""

TURNS = Slicing(slice_ns=2e6, interrupt_ns=0.217e6, yield_ns=0.15e6)
"""The driver's time-slicing. The slice is the driver's default; the cost of interrupting, 11 % of a slice, was fitted
on three pods of YOLOS-small (nos, A100); that of a switch without interruption on ten DistilGPT2 (A100)."""

LOAD_STEP = 5.0
"""Percent of the SMs: caps of a plan's tenants add up to 97 to 100 %, and each sum would be described anew."""

ONE_THREAD = ("streams", EXCLUSIVE, "green")
"""Ways to share in which one thread launches the kernels of all tenants."""

GREEN_SMS = {
    "kepler": 0,
    "pascal": 1,
    "volta": 2,
    "turing": 2,
    "ampere": 4,
    "ada": 4,
    "hopper": 8,
    "blackwell": 8,
    "cdna3": 0,
}
"""Group size of SMs in green contexts (CUDA driver API, cuDevSmResourceSplitByCount); 0 if unsupported."""


@dataclass(frozen=True, slots=True)
class Part:
    """A tenant's part of the GPU."""

    sms: int
    """SMs it may use."""
    sm_domain: int
    """Tenants of a domain share its SMs."""
    domain_sms: int
    """SMs of that domain."""
    memory_bytes: int
    """Memory of the domain."""
    dram_domain: int = 0
    dram_share: float = 1.0
    """Share of bandwidth and L2 of its DRAM domain."""
    label: str | None = None
    loaded: float = 1.0
    """Share of the GPU's SMs that may be busy: while the others idle, power allows a higher clock."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A mix laid out on a GPU."""

    mode: str
    parts: tuple[Part, ...]
    """By tenant."""
    slicing: Slicing | None = None
    """Time-slicing; None: kernels run side by side."""
    shared_host: bool = False
    """A single thread launches the kernels of all tenants."""


def missing(gpu: GpuSpec, mode: str) -> str | None:
    """The feature this GPU lacks for a way to share; None if it has it."""
    lacks = {
        "mps": None if gpu.mps else f"MPS: on {gpu.title} it can't run kernels of several processes at once",
        "green": None if GREEN_SMS[gpu.architecture] else f"green contexts: {gpu.title} is too old",
        "mig": None if gpu.mig else f"MIG: {gpu.title} can't be cut into instances",
    }
    return lacks.get(mode)


def slicing_of(mode: str) -> Slicing | None:
    """How tenants take turns; None: kernels run side by side."""
    return TURNS if mode == "processes" else None


def nearest(gpu: GpuSpec) -> str:
    """The closest supported way to share."""
    return "mps" if gpu.mps else "processes"


def lay_out(gpu: GpuSpec, sharing: Sharing, tenants: Sequence[Tenant], needs: Mapping[str, int]) -> Layout:
    """Lay out a mix.

    Args:
        gpu: The GPU.
        sharing: The way to share.
        tenants: The tenants.
        needs: Bytes needed by each tenant, by name; missing ones are unknown.

    Raises:
        SharingUnavailable: This mix can't share this GPU that way.
    """
    if sharing.mode in {ALONE, SCHEDULED}:
        return Layout(sharing.mode, (whole_of(gpu),) * len(tenants))
    if sharing.mode not in {*MODES, EXCLUSIVE}:
        raise SharingUnavailable(
            f"a simulated GPU can't be shared by `{sharing.mode}`",
            hint=f"use one of {', '.join(mode for mode in MODES if missing(gpu, mode) is None)}",
        )
    if (lacks := missing(gpu, sharing.mode)) is not None:
        raise SharingUnavailable(f"{gpu.name} lacks {lacks}", hint=f"use `{nearest(gpu)}`")
    shares = sharing.shares or own_shares(tenants)
    if shares and len(shares) != len(tenants):
        raise SharingUnavailable(
            f"`{sharing}` names {len(shares)} shares for {len(tenants)} tenants", hint="give one share per tenant"
        )
    match sharing.mode:
        case "mps" if shares:
            parts = _capped(gpu, shares)
        case "green":
            parts = _green(gpu, shares, len(tenants))
        case "mig":
            parts = _instances(gpu, shares, tenants, needs)
        case _:
            parts = (whole_of(gpu),) * len(tenants)
    return Layout(sharing.mode, parts, slicing_of(sharing.mode), shared_host=sharing.mode in ONE_THREAD)


def own_shares(tenants: Sequence[Tenant]) -> tuple[float | str, ...]:
    """The tenants' own, if each has one; else none."""
    own = tuple(tenant.share for tenant in tenants)
    return tuple(share for share in own if share is not None) if all(share is not None for share in own) else ()


def whole_of(gpu: GpuSpec) -> Part:
    """The entire GPU as a part."""
    return Part(sms=gpu.sms, sm_domain=0, domain_sms=gpu.sms, memory_bytes=gpu.memory_bytes)


def part_of(gpu: GpuSpec, mode: str, share: float | str, domain: int = 0, loaded: float = 1.0) -> Part:
    """A tenant's part.

    Args:
        gpu: The GPU.
        mode: A way to share that divides it.
        share: A percentage of the SMs, or the name of a MIG instance.
        domain: Number of the part, where tenants don't share SMs.
        loaded: Share of the GPU's SMs that all parts have.
    """
    if mode == "mig":
        assert gpu.mig is not None
        profile = gpu.mig.profiles[str(share)]
        size, part = instance_bytes(profile), profile.memory_slices / gpu.mig.memory_slices
        return Part(profile.sms, domain, profile.sms, size, domain, part, label=str(share), loaded=loaded)
    percent = percent_of_sms(share, mode)
    if mode == "green":
        group = GREEN_SMS[gpu.architecture]
        sms = int(gpu.sms * percent / 100) // group * group
        return Part(sms, domain, sms, gpu.memory_bytes, label=f"{sms} SMs", loaded=loaded)
    # MPS: all SMs are shared; a share caps how many a tenant may use at once.
    sms = max(1, int(gpu.sms * percent / 100))
    return Part(sms, 0, gpu.sms, gpu.memory_bytes, label=f"{percent:g} %", loaded=loaded)


def loaded_by(gpu: GpuSpec, mode: str, shares: Sequence[float | str]) -> float:
    """Share of the GPU's SMs that all parts have; of percentages in full steps of `LOAD_STEP`."""
    if mode == "mps":
        return min(1.0, ceil(sum(percent_of_sms(share, "mps") for share in shares) / LOAD_STEP) * LOAD_STEP / 100)
    return min(1.0, sum(part_of(gpu, mode, share).sms for share in shares) / gpu.sms)


def _capped(gpu: GpuSpec, shares: Sequence[float | str]) -> tuple[Part, ...]:
    loaded = loaded_by(gpu, "mps", shares)
    return tuple(part_of(gpu, "mps", share, loaded=loaded) for share in shares)


def _green(gpu: GpuSpec, shares: Sequence[float | str], count: int) -> tuple[Part, ...]:
    group = GREEN_SMS[gpu.architecture]
    percents = [percent_of_sms(share, "green") for share in shares] or [100 / count] * count
    sizes = [part_of(gpu, "green", percent).sms for percent in percents]
    if min(sizes) < group:
        raise SharingUnavailable(
            f"`green` assigns SMs of {gpu.name} in groups of {group}, and a part of {min(percents):.3g} % has fewer",
            hint="use fewer tenants, larger shares, or `mps`",
        )
    if sum(percents) > 100 + 1e-9:
        raise SharingUnavailable(
            f"the shares of `green` add up to {sum(percents):g} %",
            hint="parts can't overlap: the total is at most 100 %",
        )
    loaded = loaded_by(gpu, "green", percents)
    return tuple(part_of(gpu, "green", percent, index, loaded) for index, percent in enumerate(percents))


def _instances(
    gpu: GpuSpec, shares: Sequence[float | str], tenants: Sequence[Tenant], needs: Mapping[str, int]
) -> tuple[Part, ...]:
    assert gpu.mig is not None
    profiles = gpu.mig.profiles
    if shares:
        for share in shares:
            if share not in profiles:
                asked = f"instance {share!r}" if isinstance(share, str) else f"instance of {share:g} %, only whole ones"
                raise SharingUnavailable(f"{gpu.name} has no MIG {asked}", hint=f"it has {', '.join(profiles)}")
        names = [str(share) for share in shares]
        if not can_stand(gpu, [profiles[name] for name in names]):
            raise SharingUnavailable(
                f"{gpu.name} can't hold the MIG instances {', '.join(names)} at once",
                hint=f"it has {gpu.mig.compute_slices} slices of SMs and {gpu.mig.memory_slices} of memory",
            )
        for tenant, name in zip(tenants, names, strict=True):
            if needs.get(tenant.name, 0) > instance_bytes(profiles[name]):
                raise SharingUnavailable(
                    f"{tenant.name} needs {needs[tenant.name] / 2**30:.1f} GiB, and a {name} instance of {gpu.name} "
                    f"has {profiles[name].memory_gib:g} GiB",
                    hint="give it a larger instance or a smaller batch",
                )
    else:
        names = _best_cut(gpu, tenants, needs)
    loaded = loaded_by(gpu, "mig", names)
    return tuple(part_of(gpu, "mig", name, index, loaded) for index, name in enumerate(names))


def _best_cut(gpu: GpuSpec, tenants: Sequence[Tenant], needs: Mapping[str, int]) -> list[str]:
    """The most even layout in which all tenants' memory fits; larger instances go to those that need more."""
    assert gpu.mig is not None
    profiles = gpu.mig.profiles
    hungry = sorted(range(len(tenants)), key=lambda index: -needs.get(tenants[index].name, 0))
    by_size = sorted(profiles, key=lambda name: (-profiles[name].memory_gib, -profiles[name].sms))
    best: tuple[tuple[int, int, int], tuple[str, ...]] | None = None
    for cut in combinations_with_replacement(by_size, len(tenants)):
        chosen = [profiles[name] for name in cut]
        fits = all(
            needs.get(tenants[index].name, 0) <= instance_bytes(profile)
            for index, profile in zip(hungry, chosen, strict=True)
        )
        if fits and can_stand(gpu, chosen):
            sizes = [profile.sms for profile in chosen]
            memory = [profile.memory_slices for profile in chosen]
            score = (min(sizes), min(sizes) - max(sizes), min(memory) - max(memory))
            if best is None or score > best[0]:
                best = (score, cut)
    if best is None:
        most = tenants[hungry[0]].name
        raise SharingUnavailable(
            f"{gpu.name} can't be cut into {len(tenants)} MIG instances that hold these tenants: {most} needs "
            f"{needs.get(most, 0) / 2**30:.1f} GiB",
            hint="use fewer tenants, smaller batches, or `mps`",
        )
    names = [""] * len(tenants)
    for index, name in zip(hungry, best[1], strict=True):
        names[index] = name
    return names


def can_stand(gpu: GpuSpec, chosen: Sequence[MigProfile]) -> bool:
    """Whether these instances fit on a GPU together."""
    assert gpu.mig is not None
    return (
        sum(profile.compute_slices for profile in chosen) <= gpu.mig.compute_slices
        and sum(profile.memory_slices for profile in chosen) <= gpu.mig.memory_slices
    )


def instance_bytes(profile: MigProfile) -> int:
    """Memory of an instance."""
    return int(profile.memory_gib * 2**30)


# --- Candidate shares for a mix: every MIG layout that fits, and a grid of MPS caps

MOST_CUTS = 24
"""Maximum MIG layouts per mix: each is a trial in every block."""
PAIR_CAPS = ((25.0, 75.0), (50.0, 50.0), (75.0, 25.0))
FAVOURED = 50.0
"""Share of a favoured tenant among three or more; the others divide the rest."""


def candidates(gpu: GpuSpec, mode: str, tenants: Sequence[Tenant], needs: Mapping[str, int]) -> tuple[Sharing, ...]:
    """Sharings with shares; empty for modes without them. Copies of a tenant are interchangeable."""
    if mode == "mps":
        return mps_caps(tenants)
    if mode == "mig" and gpu.mig is not None:
        return tuple(Sharing(mode="mig", shares=cut) for cut in _cuts(gpu, tenants, needs))
    return ()


def mps_caps(tenants: Sequence[Tenant]) -> tuple[Sharing, ...]:
    """MPS caps: equal, and favouring each tenant in turn."""
    kinds = [tenant.of for tenant in tenants]
    if len(tenants) == 2:
        tried: Sequence[tuple[float, ...]] = PAIR_CAPS
    else:
        numbers = range(len(tenants))
        rest = round(FAVOURED / (len(tenants) - 1), 1)
        even = (round(100 / len(tenants), 1),) * len(tenants)
        tried = (even, *(tuple(FAVOURED if number == favoured else rest for number in numbers) for favoured in numbers))
    once = {_told_apart(kinds, shares): shares for shares in reversed(tried)}
    return tuple(Sharing(mode="mps", shares=shares) for shares in reversed(once.values()))


def _cuts(gpu: GpuSpec, tenants: Sequence[Tenant], needs: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Every assignment of instances in which none could be larger; most even first."""
    assert gpu.mig is not None
    profiles = gpu.mig.profiles
    sizes = {name: (profile.sms, profile.memory_slices) for name, profile in profiles.items()}
    fitting = [
        cut
        for cut in combinations_with_replacement(sorted(profiles, key=lambda name: sizes[name]), len(tenants))
        if can_stand(gpu, [profiles[name] for name in cut])
    ]
    largest = [cut for cut in fitting if not any(_larger(other, cut, sizes) for other in fitting)]
    kinds = [tenant.of for tenant in tenants]
    memory = [needs.get(tenant.name, 0) for tenant in tenants]
    room = {name: instance_bytes(profile) for name, profile in profiles.items()}
    assignments = {
        _told_apart(kinds, given): given
        for cut in largest
        for given in _assigned(cut)
        if all(need <= room[name] for need, name in zip(memory, given, strict=True))
    }
    return sorted(assignments.values(), key=lambda cut: _unevenness([sizes[name][0] for name in cut]))[:MOST_CUTS]


def _unevenness(sms: Sequence[int]) -> int:
    return max(sms) - min(sms)


def _assigned(cut: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield from dict.fromkeys(permutations(cut)) if len(set(cut)) > 1 else (cut,)


def _larger(cut: tuple[str, ...], other: tuple[str, ...], sizes: Mapping[str, tuple[int, int]]) -> bool:
    """Whether each instance, from the smallest, is at least as large, and any is larger."""
    pairs = [(sizes[mine], sizes[theirs]) for mine, theirs in zip(cut, other, strict=True)]
    at_least = all(mine[0] >= theirs[0] and mine[1] >= theirs[1] for mine, theirs in pairs)
    return at_least and any(mine != theirs for mine, theirs in pairs)


def _told_apart(kinds: Sequence[str], shares: Sequence[float | str]) -> tuple[tuple[str, float | str], ...]:
    return tuple(sorted(zip(kinds, shares, strict=True), key=str))
