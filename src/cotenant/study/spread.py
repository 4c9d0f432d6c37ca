"""How the trials of a study are spread over the members of a group of devices."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from cotenant.errors import StudyError

Spread = Literal["auto", "each", "together", "combinations"]
SPREADS: tuple[Spread, ...] = ("auto", "each", "together", "combinations")
Role = Literal["replicates", "workers", "compare"]
ROLES: tuple[Role, ...] = ("replicates", "workers", "compare")

MOST_COMBINED = 4
"""Most members to measure all combinations of: 15 of 4, and twice as many with each further member."""
MOST_IN_TURN = 16
"""Larger groups take too long in turn: `auto` runs them at once."""


@dataclass(frozen=True, slots=True)
class SpreadOver:
    """The members on which a trial takes place; each of them runs the whole mix."""

    members: tuple[str, ...]
    numbers: tuple[int, ...]
    """Their positions in the group."""
    of: int = 0
    """Size of the group; 0 if the device is not a group."""
    together: bool = False
    """Unused members don't exist for this study: everything is measured with all of them busy."""

    @property
    def suffix(self) -> str:
        """Suffix of trials on several members: ` on 2 of 4`."""
        return "" if self.together or len(self.members) <= 1 else f" on {len(self.members)} of {self.of}"


NOWHERE = SpreadOver((), ())
"""The only placement on a device that is not a group."""


def placements(spread: Spread | None, members: Sequence[str]) -> tuple[SpreadOver, ...]:
    """The members that each trial runs on.

    Args:
        spread: `each`: on one member at a time, the rest idle. `together`: on all at once. `combinations`: on every
            subset, which shows the cost of busy neighbours. `auto`: as many of these as the group's size allows. None:
            as `each`.
        members: The members' names; empty if the device is not a group.

    Raises:
        StudyError: The device is not a group, or has too many members for all their combinations.
    """
    if not members:
        if spread in (None, "auto"):
            return (NOWHERE,)
        raise StudyError(
            f"`spread: {spread}` needs a group of devices, and this is a single one",
            hint="name a group (--devices all, --device sim:v100-sxm2-16gb*4), or leave `spread` out",
        )
    if spread == "auto":
        spread = (
            "combinations" if len(members) <= MOST_COMBINED else "each" if len(members) <= MOST_IN_TURN else "together"
        )
    if spread == "combinations" and len(members) > MOST_COMBINED:
        raise StudyError(
            f"`spread: combinations` of {len(members)} members would be {2 ** len(members) - 1} sets of them; at most "
            f"{MOST_COMBINED} members are combined",
            hint="use --set spread=each or --set spread=together, or name fewer members",
        )
    count = len(members)
    sizes = {"together": (count,), "combinations": tuple(range(1, count + 1))}.get(spread or "each", (1,))
    return tuple(
        SpreadOver(tuple(members[number] for number in numbers), numbers, count, together=spread == "together")
        for size in sizes
        for numbers in combinations(range(count), size)
    )
