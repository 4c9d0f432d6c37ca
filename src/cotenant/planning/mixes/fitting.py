"""Where not all tenants fit: serve some of them whole, rather than replicas of all."""

from collections.abc import Callable, Sequence

from cotenant.planning.mixes.tenants import Unit
from cotenant.planning.solver.generation import Solved

Units = tuple[Unit, ...]


def fitting(units: Units, solved: Solved, solve: Callable[[Units], Solved | None]) -> Units:
    """The units of tenants that fit together with all their replicas.

    Tenants with a replica that was left out go first; then each is given another chance, those of few replicas first.

    Args:
        units: All of them.
        solved: The best plan for them.
        solve: The best plan for some of them; None when time is up.
    """
    parts = _parted(units)
    out = [part for part in parts if any(number in solved.left_out for number in part)]
    kept = {number for part in parts if part not in out for number in part}
    for part in sorted(out, key=len):
        tried = sorted(kept | set(part))
        found = solve(tuple(units[number] for number in tried))
        if found is None:
            break
        if not found.left_out:
            kept = set(tried)
    return tuple(units[number] for number in sorted(kept))


def _parted(units: Sequence[Unit]) -> list[list[int]]:
    """Numbers of the units, those of the same tenants together."""
    found: dict[frozenset[int], list[int]] = {}
    for number, unit in enumerate(units):
        found.setdefault(frozenset(seat.tenant for seat in unit.seats), []).append(number)
    return list(found.values())
