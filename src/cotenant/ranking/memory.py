"""How the memory of a search is divided: weights within reach, intermediate features, and room to work in. Pure."""

from dataclasses import dataclass

from cotenant.errors import DoesNotFit
from cotenant.ranking.tree import Node

SLACK = 1.25
"""What allocators take beyond what is asked of them."""


@dataclass(frozen=True, slots=True)
class Allotment:
    """Shares of the budget, in bytes."""

    shelf_bytes: int
    cache_bytes: int
    room_bytes: int
    """For the batch at work and the model being read."""

    def part_items(self, root: Node, batch: int, items: int) -> int:
        """How many of so many items can be taken through the tree at once: whole batches, or all."""
        if root.need_bytes == 0:
            return items
        return min(items, max(batch, int(self.cache_bytes // (root.need_bytes * SLACK)) // batch * batch))


def allot(
    budget_bytes: int, root: Node, *, weights_bytes: int, largest_bytes: int, working_bytes: int, batch: int
) -> Allotment:
    """Divide the budget.

    Args:
        budget_bytes: What the user gives.
        root: The tree of all candidates.
        weights_bytes: All different pieces of weights together.
        largest_bytes: The largest model: while it is read, it is in memory beside all else.
        working_bytes: What the batch at work takes at most.
        batch: Items in a batch.

    Raises:
        DoesNotFit: Not even one batch at a time fits.
    """
    room = int((largest_bytes + working_bytes) * SLACK)
    least_cache = int(root.need_bytes * batch * SLACK)
    left = budget_bytes - room - least_cache
    if left < 0:
        needed = room + least_cache
        raise DoesNotFit(
            f"even one batch of {batch} items does not fit into {budget_bytes / 1e9:.3g} GB: it takes "
            f"{needed / 1e9:.3g} GB ({largest_bytes / 1e9:.3g} GB for the largest model, {working_bytes / 1e9:.3g} GB "
            f"to compute, {least_cache / 1e9:.3g} GB of intermediate features)",
            hint=f"--memory {-(-needed // 10**6)}MB, or fewer or smaller models",
        )
    # Weights that fall off have to be read again for each part: they come first, but leave half to the features.
    shelf = min(int(weights_bytes * SLACK), left if root.need_bytes == 0 else left // 2)
    return Allotment(shelf, budget_bytes - room - shelf, room)
