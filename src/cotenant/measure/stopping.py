"""When to stop a run: precise enough, out of time, or out of blocks. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from cotenant.study import windows
from cotenant.study.model import Study
from cotenant.tenancy.interval import Estimate


@dataclass(frozen=True, slots=True)
class Rule:
    """The study's stopping conditions."""

    target: float | None
    """Relative half-width of every slowdown's interval."""
    budget_s: float | None
    blocks_min: int
    blocks_max: int
    precise_from: int = 1
    """Minimum blocks before a narrow interval stops the run: it may be narrow by chance."""
    short: bool = False
    """Windows are short, so there are many blocks, and cells may be visited as often as they need."""


def rule_of(study: Study) -> Rule:
    """A study's conditions, once its windows are known."""
    short = windows.expected(study).window_s < windows.LONG.window_s
    return Rule(
        target=study.until.interval if study.until else None,
        budget_s=study.budget_s,
        blocks_min=study.blocks.min,
        blocks_max=study.blocks.max,
        precise_from=windows.BLOCKS_MIN if short and study.until is not None else 1,
        short=short,
    )


@dataclass(frozen=True, slots=True)
class StoppingState:
    """Progress of the run."""

    blocks: int
    elapsed_s: float
    """Seconds since this start of the run."""
    block_s: float
    """Mean time of a block so far."""
    widest: float | None
    """Largest relative half-width of a slowdown; None while there is no interval."""
    requests: tuple[float, ...] = ()
    """For each cell that has too few to decide about an objective: how many times as many it needs."""


def widest(estimates: Sequence[Estimate]) -> float | None:
    """The largest relative half-width; None if any has no interval yet, or there are no slowdowns."""
    widths = [estimate.relative_half_width for estimate in estimates]
    known = [width for width in widths if width is not None]
    return max(known) if known and len(known) == len(widths) else None


def reason_to_stop(rule: Rule, now: StoppingState) -> str | None:
    """Why no further block should start; None to continue.

    Checking after every block and stopping when the interval is narrow enough does not bias the estimate of the
    ratio, but it favours moments at which the blocks happen to agree: at least ``blocks_min`` are always run.
    """
    if now.blocks >= rule.blocks_max:
        return "all blocks done"
    if now.blocks < rule.blocks_min:
        return None
    narrow = rule.target is not None and now.widest is not None and now.widest <= rule.target
    if narrow and now.blocks >= max(rule.precise_from, _blocks_for_objectives(rule, now)):
        return "precise enough"
    if rule.budget_s is not None and now.elapsed_s + now.block_s > rule.budget_s:
        return "time budget used"
    return None


def _blocks_for_objectives(rule: Rule, now: StoppingState) -> int:
    """Blocks until cells have the requests that objectives need, for as many cells as the study leaves time for."""
    most = rule.blocks_max if rule.budget_s is None else min(rule.blocks_max, rule.budget_s / max(now.block_s, 1e-9))
    return max((ceil(now.blocks * times) for times in now.requests if now.blocks * times <= most), default=0)


def seconds_left(rule: Rule, now: StoppingState) -> float | None:
    """Expected time to the end: intervals shrink with the square root of the number of blocks."""
    if now.blocks == 0:
        return None
    blocks = rule.blocks_max
    if rule.target is not None and now.widest is not None:
        narrow = max(ceil(now.blocks * (now.widest / rule.target) ** 2), now.blocks, rule.precise_from)
        blocks = min(blocks, max(narrow, _blocks_for_objectives(rule, now)))
    least = max(rule.blocks_min - now.blocks, 0) * now.block_s  # run whatever they take
    left = max(blocks - now.blocks, 0) * now.block_s
    if rule.budget_s is not None:
        left = min(left, max(rule.budget_s - now.elapsed_s, 0))
    return max(least, left)
