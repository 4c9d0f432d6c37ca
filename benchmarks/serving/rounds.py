"""Which runs belong together, which come next within the time left, and which are done.

A round is one seed of one group of systems, in random order; systems of a round are compared with each other. The
groups differ in how many seeds they get: cotenant, the baselines and Triton all, the other peers fewer. Ray comes last,
because it can't be suspended.
"""

import random
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

ALL = ("S1", "S2", "S3")
GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "compared": {
        "cotenant-shares": ALL,
        "cotenant-equal": ("S3",),
        "edf-chunks": ("S3",),
        "edf": ("S2",),
        "triton": ALL,
    },
    "peers": dict.fromkeys(("bentoml", "litserve", "mosec"), ALL),
    "ray": {"ray": ALL},
}
QUIET = 0.1
"""Largest share of a core for other processes during a run that counts."""
DRAIN_S = {"compared": 2.5, "peers": 8.0, "ray": 8.0}
"""Expected time between runs: the speed is probed, and a flooded server answers what it has accepted."""
RAY_START_S = 90.0


class Turn(NamedTuple):
    """One run."""

    system: str
    scenario: str


class Round(NamedTuple):
    """One seed of one group."""

    group: str
    seed: int

    def turns(self, systems: Collection[str]) -> list[Turn]:
        """Its runs on these systems, in an order that depends on the seed."""
        turns = [Turn(name, one) for name, loads in GROUPS[self.group].items() if name in systems for one in loads]
        random.Random(self.seed).shuffle(turns)  # noqa: S311
        return turns

    def needs_s(self, systems: Collection[str], seconds: float) -> float:
        """Expected time."""
        return len(self.turns(systems)) * (seconds + DRAIN_S[self.group])


def planned(seeds: Sequence[int], fewer: Sequence[int]) -> list[Round]:
    """All rounds in order: those of the peers evenly between the compared ones, Ray's at the end."""
    rounds: list[Round] = []
    left = list(fewer)
    for number, seed in enumerate(seeds, 1):
        rounds.append(Round("compared", seed))
        if left and number * (len(fewer) + 1) >= len(seeds) * (len(fewer) - len(left) + 1):
            rounds.append(Round("peers", left.pop(0)))
    return [*rounds, *(Round("peers", seed) for seed in left), *(Round("ray", seed) for seed in fewer)]


def undone(rounds: Iterable[Round], rows: Sequence[dict[str, Any]], systems: Collection[str]) -> list[Round]:
    """Rounds without a slice in which each of their runs was quiet."""
    quiet: dict[tuple[int, int], set[Turn]] = {}
    for row in rows:
        if row["foreign"] < QUIET:
            quiet.setdefault((row["slice"], row["seed"]), set()).add(Turn(row["system"], row["scenario"]))

    def done(one: Round) -> bool:
        turns = set(one.turns(systems))
        return any(turns <= seen for (_, seed), seen in quiet.items() if seed == one.seed)

    return [one for one in rounds if not done(one)]


def following(rounds: Sequence[Round], systems: Collection[str], *, seconds: float, left_s: float) -> Round | None:
    """The next round that fits in the time left; a round of the peers gives way to the compared ones behind it."""
    reserve = dict.fromkeys(GROUPS, 0.0)
    for one in rounds:
        reserve[one.group] += one.needs_s(systems, seconds)
    ray = next((one for one in rounds if one.group == "ray"), None)
    ray_s = ray.needs_s(systems, seconds) + RAY_START_S if ray and ray.turns(systems) else 0.0
    for one in rounds:
        after_s = {"compared": ray_s, "peers": ray_s + reserve["compared"], "ray": 0.0}[one.group]
        start_s = RAY_START_S if one.group == "ray" else 0.0
        if one.turns(systems) and start_s + one.needs_s(systems, seconds) + after_s <= left_s:
            return one
    return None
