"""Divides the memory of a search: cached weights, intermediate features, and working space. Pure."""

from dataclasses import dataclass

from cotenant.errors import DoesNotFit
from cotenant.ranking.tree import Node

SLACK = 1.25
"""Overhead of allocators."""


@dataclass(frozen=True, slots=True)
class Allotment:
    """Parts of the budget, in bytes."""

    shelf_bytes: int
    cache_bytes: int
    room_bytes: int
    """For the current batch and the model being read."""

    def part_items(self, root: Node, batch: int, items: int) -> int:
        """How many of these items can go through the tree at once: a multiple of the batch, or all."""
        if root.need_bytes == 0:
            return items
        return min(items, max(batch, int(self.cache_bytes // (root.need_bytes * SLACK)) // batch * batch))


def allot(
    budget_bytes: int, root: Node, *, weights_bytes: int, largest_bytes: int, working_bytes: int, batch: int
) -> Allotment:
    """Divide the budget.

    Args:
        budget_bytes: The user's limit.
        root: The tree of all candidates.
        weights_bytes: All distinct pieces of weights together.
        largest_bytes: The largest model: while being read, it is in memory besides everything else.
        working_bytes: The most the current batch takes.
        batch: Items in a batch.

    Raises:
        DoesNotFit: Not even a single batch fits.
    """
    room = int((largest_bytes + working_bytes) * SLACK)
    least_cache = int(root.need_bytes * batch * SLACK)
    left = budget_bytes - room - least_cache
    if left < 0:
        needed = room + least_cache
        raise DoesNotFit(
            f"even a single batch of {batch} items does not fit into {budget_bytes / 1e9:.3g} GB: it takes "
            f"{needed / 1e9:.3g} GB ({largest_bytes / 1e9:.3g} GB for the largest model, {working_bytes / 1e9:.3g} GB "
            f"to compute, {least_cache / 1e9:.3g} GB of intermediate features)",
            hint=f"--memory {-(-needed // 10**6)}MB, or fewer or smaller models",
        )
    # Evicted weights have to be read again for each part: they come first, but leave half to the features.
    shelf = min(int(weights_bytes * SLACK), left if root.need_bytes == 0 else left // 2)
    return Allotment(shelf, budget_bytes - room - shelf, room)
