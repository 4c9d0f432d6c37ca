"""How a GPU can be cut into MIG instances.

An instance takes some slices of memory in a row, beginning at a multiple of their number, and its slices of SMs begin
at the same place. Both rules together give the places that `nvidia-smi mig -lgipp` lists for A100, H100 (7 slices of
SMs, 8 of memory) and A30 (4 and 4).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of instance."""

    name: str
    compute: int
    """Slices of SMs."""
    memory: int
    """Slices of memory."""
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Mig:
    """What a GPU can be cut into."""

    compute: int
    memory: int
    profiles: tuple[Profile, ...]
    _layouts: "list[tuple[int, ...]]" = field(default_factory=list, compare=False, repr=False)

    def layouts(self) -> Sequence[tuple[int, ...]]:
        """Counts by profile of every cut to which nothing can be added."""
        if not self._layouts:
            self._layouts.extend(_layouts(self))
        return self._layouts

    def holds(self, counts: Sequence[int]) -> bool:
        """These instances can stand on one GPU at once."""
        return any(all(have >= want for have, want in zip(one, counts, strict=True)) for one in self.layouts())

    def places(self, names: Sequence[str]) -> tuple[tuple[str, int], ...] | None:
        """Where each instance begins (slice of memory), in the order in which to make them; None: they don't fit."""
        by_name = {profile.name: profile for profile in self.profiles}
        wanted = sorted((by_name[name] for name in names), key=lambda one: (-one.memory, -one.compute))
        return _placed(self, wanted, frozenset())

    def profile(self, name: str) -> Profile:
        """By its name."""
        return next(profile for profile in self.profiles if profile.name == name)

    @classmethod
    def of(cls, compute: int, memory: int, profiles: Mapping[str, tuple[int, int, int]]) -> "Mig":
        """From slices of SMs and memory, and bytes, by name."""
        return cls(compute, memory, tuple(Profile(name, *sizes) for name, sizes in profiles.items()))


def starts(mig: Mig, profile: Profile) -> tuple[int, ...]:
    """Slices of memory at which an instance of this kind can begin."""
    return tuple(
        start
        for start in range(0, mig.memory - profile.memory + 1, profile.memory)
        if start + profile.compute <= mig.compute
    )


def _layouts(mig: Mig) -> list[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()

    def cut(at: int, counts: tuple[int, ...], compute: int) -> None:
        if at >= mig.memory:
            found.add(counts)
            return
        for number, profile in enumerate(mig.profiles):
            if at in starts(mig, profile) and compute + profile.compute <= mig.compute:
                more = tuple(count + (place == number) for place, count in enumerate(counts))
                cut(at + profile.memory, more, compute + profile.compute)
        cut(at + 1, counts, compute)

    cut(0, (0,) * len(mig.profiles), 0)
    return sorted(one for one in found if not any(_within(one, other) for other in found))


def _within(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))


def _placed(mig: Mig, wanted: Sequence[Profile], taken: frozenset[int]) -> tuple[tuple[str, int], ...] | None:
    if not wanted:
        return ()
    first = wanted[0]
    for start in starts(mig, first):
        mine = frozenset(range(start, start + first.memory))
        if not mine & taken and (rest := _placed(mig, wanted[1:], taken | mine)) is not None:
            return ((first.name, start), *rest)
    return None
