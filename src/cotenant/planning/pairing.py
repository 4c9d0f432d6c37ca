"""Choose which jobs share a GPU when there are more jobs than GPUs."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from cotenant.planning.jobs import JobClass

T = TypeVar("T")


def estimated_slowdown(one: JobClass, other: JobClass) -> float:
    """Estimate a pair's slowdown by a rule: their demands on cores and on memory add up.

    Two matrix products share the cores and take twice as long; a product beside a copy hardly notices it.
    """
    cores = one.core_share * min(one.activity, 1.0) + other.core_share * min(other.activity, 1.0)
    memory = (1 - one.core_share) + (1 - other.core_share)
    return max(1.0, cores, memory)


def pair_up(items: Sequence[T], pairs: int, cost: Callable[[T, T], float]) -> list[tuple[T, T]]:
    """``pairs`` disjoint pairs with a low total cost: cheapest first, then improved by exchanges."""
    assert 2 * pairs <= len(items)
    n = len(items)
    costs = {(i, j): cost(items[i], items[j]) for i in range(n) for j in range(i + 1, n)}
    taken: set[int] = set()
    chosen: list[tuple[int, int]] = []
    for i, j in sorted(costs, key=lambda pair: (costs[pair], pair)):
        if len(chosen) == pairs:
            break
        if not {i, j} & taken:
            chosen.append((i, j))
            taken |= {i, j}
    _exchange(chosen, costs)
    return [(items[i], items[j]) for i, j in chosen]


def _exchange(chosen: list[tuple[int, int]], costs: dict[tuple[int, int], float]) -> None:
    """Swap partners between two pairs while that lowers the cost."""

    def of(i: int, j: int) -> float:
        return costs[min(i, j), max(i, j)]

    improved = True
    while improved:
        improved = False
        for first in range(len(chosen)):
            for second in range(first + 1, len(chosen)):
                (a, b), (c, d) = chosen[first], chosen[second]
                now = of(a, b) + of(c, d)
                for left, right in (((a, c), (b, d)), ((a, d), (b, c))):
                    if of(*left) + of(*right) < now - 1e-12:
                        chosen[first], chosen[second] = left, right
                        improved = True
                        break
                if improved:
                    break
            if improved:
                break
