"""Layouts of MIG instances on a GPU.

An instance takes contiguous memory slices starting at a multiple of their number, and its SM slices start at the same
position. Both rules together reproduce the placements that `nvidia-smi mig -lgipp` lists for A100, H100 (7 SM slices,
8 memory slices) and A30 (4 and 4).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MigSize:
    """A MIG profile."""

    name: str
    compute: int
    """Slices of SMs."""
    memory: int
    """Slices of memory."""
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class MigGeometry:
    """The profiles and layouts of a GPU."""

    compute: int
    memory: int
    profiles: tuple[MigSize, ...]
    _layouts: "list[tuple[int, ...]]" = field(default_factory=list, compare=False, repr=False)

    def layouts(self) -> Sequence[tuple[int, ...]]:
        """Counts by profile of every maximal layout."""
        if not self._layouts:
            self._layouts.extend(_layouts(self))
        return self._layouts

    def holds(self, counts: Sequence[int]) -> bool:
        """Whether these instances fit on a GPU together."""
        return any(all(have >= want for have, want in zip(layout, counts, strict=True)) for layout in self.layouts())

    def places(self, names: Sequence[str]) -> tuple[tuple[str, int], ...] | None:
        """First memory slice of each instance, in order of creation; None if they don't fit."""
        by_name = {profile.name: profile for profile in self.profiles}
        sizes = sorted((by_name[name] for name in names), key=lambda size: (-size.memory, -size.compute))
        return _placed(self, sizes, frozenset())

    def profile(self, name: str) -> MigSize:
        """By its name."""
        return next(profile for profile in self.profiles if profile.name == name)

    @classmethod
    def of(cls, compute: int, memory: int, profiles: Mapping[str, tuple[int, int, int]]) -> "MigGeometry":
        """Build from SM slices, memory slices and bytes, by name."""
        return cls(compute, memory, tuple(MigSize(name, *sizes) for name, sizes in profiles.items()))


def starts(mig: MigGeometry, profile: MigSize) -> tuple[int, ...]:
    """Memory slices at which an instance of this profile can start."""
    return tuple(
        start
        for start in range(0, mig.memory - profile.memory + 1, profile.memory)
        if start + profile.compute <= mig.compute
    )


def _layouts(mig: MigGeometry) -> list[tuple[int, ...]]:
    layouts: set[tuple[int, ...]] = set()

    def cut(at: int, counts: tuple[int, ...], compute: int) -> None:
        if at >= mig.memory:
            layouts.add(counts)
            return
        for number, profile in enumerate(mig.profiles):
            if at in starts(mig, profile) and compute + profile.compute <= mig.compute:
                more = tuple(count + (position == number) for position, count in enumerate(counts))
                cut(at + profile.memory, more, compute + profile.compute)
        cut(at + 1, counts, compute)

    cut(0, (0,) * len(mig.profiles), 0)
    return sorted(counts for counts in layouts if not any(_within(counts, other) for other in layouts))


def _within(counts: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return counts != other and all(mine <= theirs for mine, theirs in zip(counts, other, strict=True))


def _placed(mig: MigGeometry, sizes: Sequence[MigSize], taken: frozenset[int]) -> tuple[tuple[str, int], ...] | None:
    if not sizes:
        return ()
    first = sizes[0]
    for start in starts(mig, first):
        mine = frozenset(range(start, start + first.memory))
        if not mine & taken and (rest := _placed(mig, sizes[1:], taken | mine)) is not None:
            return ((first.name, start), *rest)
    return None
