"""The three findings that matter most over every kind of work."""

from collections.abc import Sequence

from cotenant.analyse.variability.sentences import slow_sentence
from cotenant.analyse.variability.summary import Variability
from cotenant.text import amount, percent, ratio

NOTABLE = 0.01
"""Times that vary by less than this hardly show."""


def opening(works: Sequence[Variability]) -> list[str]:
    """How far apart, who is slow, what it costs."""
    return [*_apart(works), *_slow(works), *_cost(works)]


def _apart(works: Sequence[Variability]) -> list[str]:
    known = [(one.variation.whisker_range.est, one) for one in works if one.variation.whisker_range.est is not None]
    if not known:
        return []
    spread, most = max(known, key=lambda pair: pair[0])
    basis = "Simulated: " if most.simulated else ""
    devices = amount(most.variation.gpus, most.noun)
    said = f"{basis}{devices} differ most under {most.work}: times vary by {percent(spread)}"
    if len(known) == 1:
        return [f"{said}."]
    notable = sum(value >= NOTABLE for value, _ in known) or "none"
    return [f"{said}; under {notable} of {amount(len(known), 'kind')} of work by {percent(NOTABLE)} or more."]


def _slow(works: Sequence[Variability]) -> list[str]:
    found = [(slow, one) for one in works for slow in one.slow]
    if not found:
        judged = sum(not one.undecided for one in works)
        of = "any of" if judged == len(works) else f"{judged} of"
        tested = f"under {of} {amount(len(works), 'kind')} of work" if len(works) > 1 else "here"
        return [f"No {works[0].noun} is slow {tested}."] if judged else []
    names = [slow.gpu for slow, _ in found]
    worst = max(set(names), key=lambda name: (names.count(name), max(s.ratio for s, _ in found if s.gpu == name)))
    slowest, one = max((pair for pair in found if pair[0].gpu == worst), key=lambda pair: pair[0].ratio)
    others = len(set(names)) - 1
    more = f" {amount(others, 'other')} {'is' if others == 1 else 'are'} slow too." if others else ""
    return [f"Under {one.work} {slow_sentence(slowest, one.noun)}{more}"]


def _cost(works: Sequence[Variability]) -> list[str]:
    known = [(cost.est, size, one) for one in works for size, cost in one.straggler.items() if cost.est is not None]
    if not known:
        return []
    largest = max(size for _, size, _ in known)
    most, size, one = max((row for row in known if row[1] == largest), key=lambda row: row[0])
    if most < 1 + NOTABLE:
        return []
    job = f"A job on {amount(size, one.noun)} that waits for the slowest"
    return [f"{job} takes up to {ratio(most)}x the time of the median {one.noun} ({one.work})."]
