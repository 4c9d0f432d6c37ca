"""Differences between the members of a group, from their solo trials."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median

from cotenant.analyse.sharing.cells import usable
from cotenant.tenancy.records import TenantObservation
from cotenant.text import figure, percent

NS_PER_MS = 1e6
ALIKE = 0.005
"""Differences below this don't matter to anyone who places work."""
FEWEST_BLOCKS = 3
"""Fewest blocks: with fewer, a difference between members may be chance."""


@dataclass(frozen=True, slots=True)
class Apart:
    """One kind of work on every member, alone."""

    work: str
    settings: str
    """Values of the controls; empty if none was set."""
    simulated: bool
    times_ms: dict[str, float]
    """Mean time of a request, by member."""
    surely: bool
    """The slowest was slower in every block than the fastest in any."""

    @property
    def spread(self) -> float:
        """The slowest over the fastest, less 1."""
        return max(self.times_ms.values()) / min(self.times_ms.values()) - 1

    @property
    def slowest(self) -> str:
        """The slowest member."""
        return max(self.times_ms, key=lambda name: self.times_ms[name])


class MemberTimes:
    """Collects the solo results of each member of a group from a stream of observations."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str, bool], dict[str, list[float]]] = {}
        self._in_block: dict[tuple[str, int], set[str]] = {}

    def watch(self, observations: Iterator[TenantObservation]) -> Iterator[TenantObservation]:
        """Pass observations on."""
        for one in observations:
            if one.member is not None and one.solo and usable(one) and one.mean_latency_ns > 0:
                work = self._seen.setdefault((one.of, one.settings, one.load, one.simulated), {})
                work.setdefault(one.member, []).append(one.mean_latency_ns / NS_PER_MS)
                self._in_block.setdefault((one.run, one.block), set()).add(one.member)
            yield one

    def apart(self) -> tuple[Apart, ...]:
        """Every kind of work that several members did; default settings first, then by decreasing spread.

        None if the members divided the blocks between them: then the mixes are what was asked.
        """
        if all(len(members) == 1 for members in self._in_block.values()):
            return ()
        found = [
            Apart(
                of,
                "" if settings == "{}" else settings,
                simulated,
                {member: mean(times) for member, times in members.items()},
                _surely(members),
            )
            for (of, settings, _, simulated), members in self._seen.items()
            if len(members) > 1
        ]
        return tuple(sorted(found, key=lambda one: (bool(one.settings), -one.spread)))


def _surely(members: dict[str, list[float]]) -> bool:
    slow = max(members.values(), key=mean)
    quick = min(members.values(), key=mean)
    return min(len(slow), len(quick)) >= FEWEST_BLOCKS and min(slow) > max(quick)


def member_findings(found: Sequence[Apart]) -> list[str]:
    """The spread, the work under which it is largest, and the slow members."""
    if not found:
        return []
    free = [one for one in found if not one.settings] or list(found)
    most, least = free[0], free[-1]
    basis = "Simulated: " if most.simulated else ""
    if most.spread < ALIKE:
        return [f"{basis}{len(most.times_ms)} devices are alike: at most {percent(most.spread)} apart ({most.work})."]
    said = (
        f"{basis}{len(most.times_ms)} supposedly identical devices differ by "
        f"{percent(most.spread)} under {most.work}{'' if most.surely else ', which may be chance'}"
    )
    if least is not most:
        said += f"{'' if most.surely else ','} and by {percent(least.spread)} under {least.work}"
    slow = [one.slowest for one in free]
    worst = max(dict.fromkeys(slow), key=slow.count)
    often = "all work" if slow.count(worst) == len(slow) else f"{slow.count(worst)} of {len(slow)} kinds of work"
    behind = most.times_ms[most.slowest] / median(most.times_ms.values()) - 1
    who = (
        f"{short(worst)} is slowest under {often}; under {most.work} {short(most.slowest)} takes "
        f"{figure(most.times_ms[most.slowest])} ms a request, {percent(behind)} above the median."
    )
    return [f"{said}.", who, "Since when and why: cotenant db add RUN, then cotenant db gpus."]


def short(member: str) -> str:
    """`#3` of `sim:a100-sxm4-40gb#3`; `cuda:3` as it is."""
    return f"#{member.rpartition('#')[2]}" if "#" in member else member
