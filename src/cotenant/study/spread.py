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
"""Members of which all combinations are measured: 15 of 4, and twice as many with each further one."""
MOST_IN_TURN = 16
"""Larger groups take too long one after the other: `auto` runs them at once."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The members on which a trial takes place; on each of them the whole mix."""

    members: tuple[str, ...]
    numbers: tuple[int, ...]
    """Their positions in the group."""
    of: int = 0
    """How many the group has; 0: the device is no group."""
    together: bool = False
    """Members that are not used don't exist for this study: all is measured with all of them busy."""

    @property
    def suffix(self) -> str:
        """Tells trials on some members from those on one: ` on 2 of 4`."""
        return "" if self.together or len(self.members) <= 1 else f" on {len(self.members)} of {self.of}"


NOWHERE = Placement((), ())
"""On a device that is no group there is nothing to choose."""


def placements(spread: Spread | None, members: Sequence[str]) -> tuple[Placement, ...]:
    """Which members each trial is carried out on.

    Args:
        spread: `each`: on one member after the other, the rest idle. `together`: on all at once. `combinations`: on
            every subset, so that what busy neighbours cost shows. `auto`: as many of these as the group's size allows.
            None: as `each`.
        members: The members' names; empty: the device is no group.

    Raises:
        StudyError: The device is no group, or has too many members for all their combinations.
    """
    if not members:
        if spread in (None, "auto"):
            return (NOWHERE,)
        raise StudyError(
            f"`spread: {spread}` wants a group of devices, and this is a single one",
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
        Placement(tuple(members[number] for number in numbers), numbers, count, together=spread == "together")
        for size in sizes
        for numbers in combinations(range(count), size)
    )
