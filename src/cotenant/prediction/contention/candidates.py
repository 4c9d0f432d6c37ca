"""Candidate shares of a GPU for a mix: every MIG layout that fits, and a grid of MPS caps."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, permutations

from cotenant.prediction.contention.layout import can_stand, instance_bytes
from cotenant.prediction.gpu import GpuSpec
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing

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
    """MPS caps: equal ones, and ones that favour one tenant."""
    kinds = [tenant.of for tenant in tenants]
    if len(tenants) == 2:
        tried: Sequence[tuple[float, ...]] = PAIR_CAPS
    else:
        places = range(len(tenants))
        rest = round(FAVOURED / (len(tenants) - 1), 1)
        even = (round(100 / len(tenants), 1),) * len(tenants)
        tried = (even, *(tuple(FAVOURED if place == one else rest for place in places) for one in places))
    once = {_told_apart(kinds, shares): shares for shares in reversed(tried)}
    return tuple(Sharing(mode="mps", shares=shares) for shares in reversed(once.values()))


def _cuts(gpu: GpuSpec, tenants: Sequence[Tenant], needs: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Every assignment of instances in which none could be larger; most even first."""
    assert gpu.mig is not None
    profiles = gpu.mig.profiles
    sizes = {name: (one.sms, one.memory_slices) for name, one in profiles.items()}
    fitting = [
        cut
        for cut in combinations_with_replacement(sorted(profiles, key=lambda name: sizes[name]), len(tenants))
        if can_stand(gpu, [profiles[name] for name in cut])
    ]
    largest = [cut for cut in fitting if not any(_larger(other, cut, sizes) for other in fitting)]
    kinds = [tenant.of for tenant in tenants]
    wanted = [needs.get(tenant.name, 0) for tenant in tenants]
    room = {name: instance_bytes(profile) for name, profile in profiles.items()}
    found = {
        _told_apart(kinds, given): given
        for cut in largest
        for given in _assigned(cut)
        if all(need <= room[name] for need, name in zip(wanted, given, strict=True))
    }
    return sorted(found.values(), key=lambda cut: _unevenness([sizes[name][0] for name in cut]))[:MOST_CUTS]


def _unevenness(sms: Sequence[int]) -> int:
    return max(sms) - min(sms)


def _assigned(cut: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield from dict.fromkeys(permutations(cut)) if len(set(cut)) > 1 else (cut,)


def _larger(one: tuple[str, ...], other: tuple[str, ...], sizes: Mapping[str, tuple[int, int]]) -> bool:
    """Whether each instance, from the smallest, is at least as large, and one is larger."""
    pairs = [(sizes[mine], sizes[theirs]) for mine, theirs in zip(one, other, strict=True)]
    at_least = all(mine[0] >= theirs[0] and mine[1] >= theirs[1] for mine, theirs in pairs)
    return at_least and any(mine != theirs for mine, theirs in pairs)


def _told_apart(kinds: Sequence[str], shares: Sequence[float | str]) -> tuple[tuple[str, float | str], ...]:
    return tuple(sorted(zip(kinds, shares, strict=True), key=str))
