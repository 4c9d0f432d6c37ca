"""Automatic window length: as short as the slowest tenant allows.

Drift cancels inside a block, so many short blocks beat few long ones. A window must contain several requests of every
tenant, after a lead in which caches and clocks settle. Long windows remain for what needs time: open loads, whose
queues build up slowly, and settings and preconditions, which affect power and heat. On simulated devices windows are
long too: they cost little there.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.study.model import Study
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import JUDGED_ALONE_S, REQUESTS_MIN

REQUESTS = 8
"""Fewest requests of the slowest tenant in a window."""
REQUESTS_JUDGED = 12
"""The same for a window that is judged by itself: it needs ten, and starts anywhere between two."""
RARELY = statistics.NormalDist().inv_cdf(0.99)
SETTLING_REQUESTS = 2
"""Requests of the slowest tenant in the lead."""
SHORTEST_S, LONGEST_S = 0.06, 60.0
SHORTEST_LEAD_S, LONGEST_LEAD_S = 0.02, 1.0
MIG_SLICES = 8
"""Parts into which MIG cuts a GPU's memory: at least those of its SMs."""
BLOCKS_MIN = 12
"""Fewest blocks of short windows: fewer have no robust mean, and every look costs some of its level."""


LONG_EVERY = 5
"""One in this many blocks has a long window. Odd, so that cells visited in every second or fourth block get theirs."""
LONG_TIMES = 5
"""It contains a fifth of what the moments after a switch add to a short window; longer would show little more."""
LONG_FROM_S, LONGEST_COMPARED_S = 0.25, 0.9
"""Windows of at least the first length are long enough; the second is the longest to compare with."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The lengths of a trial's parts, seconds."""

    window_s: float
    lead_s: float


LONG = Windows(2.0, 0.3)
SHORT = Windows(SHORTEST_S, SHORTEST_LEAD_S)


def wants_long(study: Study) -> bool:
    """The study has effects that take time to show."""
    loads = [*study.loads, *(entry.load for entry in study.tenants.values() if entry.load is not None)]
    return study.before is not None or any(study.settings) or any(load.open for load in loads)


def settled(study: Study, *, switched: bool) -> Study:
    """The study with lengths as far as they are known before anything runs.

    Args:
        study: What to measure.
        switched: Its tenants stay up and switch quickly between trials, so the window may be short.
    """
    return with_windows(study, LONG) if shortest(study, switched=switched) == LONG else study


def shortest(study: Study, *, switched: bool) -> Windows:
    """The least lengths of a trial; see `settled`."""
    return SHORT if switched and not wants_long(study) else LONG


def expected(study: Study) -> Windows:
    """The study's lengths, or the shortest where unspecified."""
    window_s = SHORT.window_s if study.window_s is None else study.window_s
    return Windows(window_s, SHORT.lead_s if study.lead_s is None else study.lead_s)


def chosen(slowest_s: float, shortest: Windows = SHORT) -> Windows:
    """Lengths for tenants of which the slowest completes a request this often beside all its neighbours."""
    requests = REQUESTS if max(REQUESTS * slowest_s, shortest.window_s) < JUDGED_ALONE_S else REQUESTS_JUDGED
    return Windows(
        round(min(max(requests * slowest_s, shortest.window_s), LONGEST_S), 3),
        round(min(max(SETTLING_REQUESTS * slowest_s, shortest.lead_s), LONGEST_LEAD_S), 3),
    )


def needed_s(trial: Trial, alone_s: Mapping[str, float]) -> float | None:
    """Longest time between two requests of a tenant beside the others, from times alone; None if any is unknown."""
    if any(tenant.of not in alone_s for tenant in trial.tenants):
        return None
    count = len(trial.tenants)
    shares = trial.sharing.among(count).shares
    parts = [_part(share) for share in shares] if len(shares) == count else [1 / MIG_SLICES] * count
    split = len(shares) == count or trial.sharing.mode == "mig"
    return max(
        _between_s(tenant, alone_s[tenant.of], max(count, 1 / part if split else 1.0))
        for tenant, part in zip(trial.tenants, parts, strict=True)
    )


def _part(share: float | str) -> float:
    """Part of the device that a share stands for: a percentage, or an instance such as `2g.10gb`."""
    slices = str(share).partition("g.")[0]
    return share / 100 if isinstance(share, float) else int(slices) / MIG_SLICES if slices.isdigit() else 1.0


def _between_s(tenant: Tenant, alone_s: float, slower: float) -> float:
    """At worst tenants take turns, or have their share; an open load may pause, and come in fewer requests than usual.

    Args:
        tenant: The tenant.
        alone_s: Time of a request alone.
        slower: How much longer it may take.
    """
    load = tenant.load
    rate = load.rate_rps if load.rate_share is None else load.rate_share / alone_s
    pause_s = max(arrivals_for(REQUESTS_MIN, load.cv) / REQUESTS_JUDGED, 1.0) / rate if rate else 0.0
    return max(alone_s * slower, pause_s)


def arrivals_for(requests: int, cv: float) -> float:
    """How many requests must arrive on average so that this many come in 99 of 100 windows."""
    spread = RARELY * cv
    return ((spread + math.sqrt(spread**2 + 4 * requests)) / 2) ** 2


def fitted(
    trials: tuple[Trial, ...], alone_s: Mapping[str, float], study: Study, shortest: Windows = SHORT
) -> tuple[Trial, ...]:
    """Trials with lengths of their own where the study leaves them open: a quick tenant needn't wait for a slow tenant.

    Args:
        trials: Trials with the lengths of the study, which suit all of them.
        alone_s: Time of a request by tenant.
        study: The study as written.
        shortest: The least lengths.
    """
    if study.window_s is not None and study.lead_s is not None:
        return trials
    lengths = []
    for trial in trials:
        slowest_s = needed_s(trial, alone_s)
        own = Windows(trial.window_s, trial.lead_s) if slowest_s is None else chosen(slowest_s, shortest)
        lengths.append(
            {
                "window_s": own.window_s if study.window_s is None else study.window_s,
                "lead_s": own.lead_s if study.lead_s is None else study.lead_s,
            }
        )
    return tuple(trial.model_copy(update=own) for trial, own in zip(trials, lengths, strict=True))


def with_windows(study: Study, windows: Windows) -> Study:
    """The study with these lengths filled in where unspecified."""
    changes = {
        name: value
        for name, value in (("window_s", windows.window_s), ("lead_s", windows.lead_s))
        if getattr(study, name) is None
    }
    return study.model_copy(update=changes).placed(study.places) if changes else study


def with_a_long_one(trials: tuple[Trial, ...], block: int) -> tuple[Trial, ...]:
    """Lengthen a window of every fifth block, a different window each time, to detect bias of short windows."""
    short = sorted(trial.number for trial in trials if trial.window_s < LONG_FROM_S)
    if block % LONG_EVERY != LONG_EVERY - 1 or not short:
        return trials
    chosen = short[block // LONG_EVERY % len(short)]
    return tuple(
        trial.model_copy(update={"window_s": min(LONG_TIMES * trial.window_s, LONGEST_COMPARED_S)})
        if trial.number == chosen
        else trial
        for trial in trials
    )
